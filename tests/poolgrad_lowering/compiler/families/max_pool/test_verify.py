# SPDX-License-Identifier: Apache-2.0

"""The checkpoint: a careless form gets a refusal, whichever field of its gradient is wrong, never an invalid model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from onnx import ModelProto, TensorProto, helper

from poolgrad_lowering import AnchorReport, lower
from poolgrad_lowering.compiler.analysis.provenance import Indices, Numbering, indices
from poolgrad_lowering.compiler.families.gradient import Form, Operand, View
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient, Reduction
from poolgrad_lowering.compiler.families.max_pool.matching.forward import ForwardPool, forward_pool
from poolgrad_lowering.compiler.lowering import match
from poolgrad_lowering.dialect.op import Maximum
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import Dim
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import AdaptiveWindows, PoolAttributes
from tests.pool_graphs import parse
from tests.texts import Says

Change = Callable[[MaxPoolGradient], MaxPoolGradient]
Report = Callable[[ModelProto, Change], AnchorReport]


def model(body: str = "", *, x: str = "float[2,3,8,8]", dy: str = "float[2,3,4,4]", dx: str = "") -> ModelProto:
    """A pool with acme's gradient; the one output is dx."""
    return parse(
        f"""g ({x} x, {dy} dy, float[2,3,9] other) => ({dx or x} dx) {{
            y, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
            z, j = MaxPool <kernel_shape=[4,4], strides=[2,2], pads=[1,1,1,1]> (x)
            {body}
            dx = com.acme.PoolBackward (dy, i)
            after = Neg (dx)
        }}""",
        imports='"com.acme": 1',
    )


def careless(change: Change) -> Form:
    """Acme's form, whose answer is changed before it is given."""

    def match(facts: Facts, node: Node) -> MaxPoolGradient:
        grad, recorded, dx = node.input(0), node.input(1), node.output(0)
        assert grad is not None and recorded is not None and dx is not None  # noqa: PT018 - for the type checker
        found = indices(facts, recorded)
        assert isinstance(found, Indices)
        forward = forward_pool(facts, found.pool)
        assert isinstance(forward, ForwardPool)
        return change(
            MaxPoolGradient(
                x=Operand(forward.x),
                grad=Operand(grad),
                argmax=Operand(found.argmax),
                dx=Operand(dx),
                numbering=found.argmax_numbering,
                element_type=forward.element_type,
                windows=forward.attributes,
                x_shape=forward.x_shape,
                pooled_shape=forward.pooled_shape,
                pool=forward.node,
            )
        )

    return Form("acme", (("com.acme", "PoolBackward"),), "acme's gradient", match)


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Report:
    """What is reported of the anchor; a refused model keeps its bytes."""

    def reported(given: ModelProto, change: Change) -> AnchorReport:
        monkeypatch.setattr(match, "all_forms", lambda: (careless(change),))
        result = lower(given)
        [anchor] = result.report.anchors
        assert (anchor.status == "lowered") == (anchor.code is None)
        assert anchor.code is None or result.model.SerializeToString() == given.SerializeToString()
        return anchor

    return reported


OF_DX = "the gradient of 'dx': "
OTHER_WINDOWS = f"{OF_DX}its windows are not those of the pool that recorded the indices"
NO_MAXIMA = f"{OF_DX}its reduction is not the ReduceMax and the ArgMax that recorded the indices"
NO_INDICES = f"{OF_DX}it has no indices, and no MaxPool whose Indices output could be added"


def value(gradient: MaxPoolGradient, name: str) -> Value:
    found = gradient.dx.value.scope.resolve(name)
    assert found is not None
    return found


def operand(gradient: MaxPoolGradient, name: str, view: View = View.SAME) -> Operand:
    return Operand(value(gradient, name), view)


def shape(*sizes: int) -> tuple[Dim, ...]:
    return tuple(map(Dim, sizes))


def windows(gradient: MaxPoolGradient, **changes: Any) -> PoolAttributes:
    assert isinstance(gradient.windows, PoolAttributes)
    return gradient.windows._replace(**changes)


WRONG: dict[str, tuple[Callable[[MaxPoolGradient], Any], str]] = {
    "x": (lambda g: operand(g, "other"), "malformed-gradient"),
    "grad": (lambda g: operand(g, "other"), "grad-shape"),
    "argmax": (lambda g: operand(g, "j"), "malformed-gradient"),
    "dx": (lambda g: g.x, "malformed-gradient"),
    "numbering": (lambda _: Numbering.PLANE, "indices-numbering"),
    "element_type": (lambda _: TensorProto.FLOAT16, "dtype-mix"),
    "windows": (lambda g: windows(g, strides=(1, 1)), "malformed-gradient"),
    "x_shape": (lambda _: shape(2, 3, 8, 9), "malformed-gradient"),
    "pooled_shape": (lambda _: shape(2, 3, 4, 3), "grad-shape"),
    "pool": (lambda g: value(g, "z").producer, "malformed-gradient"),
    "reduction": (lambda g: Reduction(g.pool, Maximum.WHOLE, None), "malformed-gradient"),
    "axis": (lambda _: None, "malformed-gradient"),
}
"""A value for each field, with the code of the refusal."""


def test_every_field_is_tried() -> None:
    assert WRONG.keys() == {field.name for field in fields(MaxPoolGradient)}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.refusal(code)) for name, (_, code) in WRONG.items()]
)
def test_a_wrong_field(name: str, report: Report, says: Says) -> None:
    make, code = WRONG[name]
    found = report(model(), lambda gradient: replace(gradient, **{name: make(gradient)}))
    assert found.code == code
    says(found.reason)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"storage_order": 1}, "storage-order"),
        ({"auto_pad": "SAME_UPPER", "dilations": (2, 2)}, "pool-attributes"),
        ({"auto_pad": "SAME_LOWER", "begins": (1, 1)}, "pool-attributes"),
    ],
)
def test_windows_about_which_runtimes_disagree(changes: dict[str, Any], code: str, report: Report) -> None:
    """A form that does not ask is refused too."""
    found = report(model(), lambda gradient: replace(gradient, windows=windows(gradient, **changes)))
    assert found.code == code


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("nonsense", [None, "text", 3.5, b"", (), [1]], ids=repr)
def test_nonsense_in_a_field(name: str, nonsense: object, report: Report) -> None:
    if nonsense is None and name in ("argmax", "pool", "reduction"):
        pytest.skip("these may be absent")
    found = report(model(), lambda gradient: replace(gradient, **{name: nonsense}))
    assert found.code == "malformed-gradient"
    if nonsense != () or not name.endswith("_shape"):
        gradient = f"the gradient of '{'' if name == 'dx' else 'dx'}'"
        assert found.reason == f"{gradient}: {name} is {type(nonsense).__name__}"


MALFORMED: dict[str, Change] = {
    "a negative size": lambda g: replace(g, x_shape=(*g.x_shape[:3], Dim(-8))),
    "a negative size of the pooled shape": lambda g: replace(g, pooled_shape=(*g.pooled_shape[:3], Dim(-4))),
    "text for sizes": lambda g: replace(g, x_shape=("N", "C", "H", "W")),
    "other channels": lambda g: replace(g, pooled_shape=shape(2, 4, 4, 4)),
    "another rank": lambda g: replace(g, pooled_shape=shape(2, 3, 16)),
    "no axes": lambda g: replace(g, x_shape=(), pooled_shape=()),
    "windows of another rank": lambda g: replace(
        g, windows=windows(g, kernel=(2,), strides=(2,), begins=(0,), ends=(0,), dilations=(1,))
    ),
    "adaptive windows of an ordinary pool": lambda g: replace(g, windows=AdaptiveWindows()),
    "a pool over a tensor of another shape": lambda g: replace(
        g, x_shape=shape(2, 3, 4, 16), x=g.x.flat(), dx=Operand(g.dx.value, View.FLAT, g.x_shape)
    ),
    "an axis that is none": lambda g: replace(g, numbering=Numbering.AXIS, axis=2),
    "a view that is none": lambda g: replace(g, grad=Operand(g.grad.value, "flat")),
    "an operand without a value": lambda g: replace(g, argmax=Operand("i")),
    "text for the shape of a result": lambda g: replace(g, dx=Operand(g.dx.value, View.FLAT, "NCHW")),
    "a flat result without a shape": lambda g: replace(g, dx=g.dx.flat()),
    "no indices of a pool that has some": lambda g: replace(g, argmax=None),
    "a flat operand computed from the result": lambda g: replace(g, x=operand(g, "after", View.FLAT)),
    "indices that are no indices": lambda g: replace(g, argmax=operand(g, "dy")),
}


@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.refusal("malformed-gradient")
def test_a_contradiction(change: Change, report: Report, says: Says) -> None:
    found = report(model(), change)
    assert found.code == "malformed-gradient"
    says(found.reason)


OTHER_SHAPES: dict[str, tuple[Change, str, str]] = {
    "a flat result of another size": (
        lambda g: replace(g, dx=Operand(g.dx.value, View.FLAT, shape(2, 3, 8, 9))),
        "dx-shape",
        "'dx' has shape [2, 3, 8, 9], but x has shape [2, 3, 8, 8]",
    ),
    "a result with the channels last": (
        lambda g: replace(g, dx=Operand(g.dx.value, View.CHANNELS_LAST)),
        "dx-shape",
        "'dx' has shape [2, 3, 8, 8], the pool [2, 8, 8, 3]",
    ),
    "an operand computed from the result": (
        lambda g: replace(g, grad=operand(g, "after")),
        "grad-shape",
        "'after' has shape [2, 3, 8, 8], the pool [2, 3, 4, 4]",
    ),
}


@pytest.mark.parametrize(("change", "code", "reason"), OTHER_SHAPES.values(), ids=OTHER_SHAPES)
def test_another_shape(change: Change, code: str, reason: str, report: Report) -> None:
    found = report(model(), change)
    assert (found.code, found.reason) == (code, reason)


def test_the_axis_of_indices_that_count_along_none_is_not_read(report: Report) -> None:
    assert report(model(), lambda gradient: replace(gradient, axis=7)).code is None


def test_values_of_unknown_types(report: Report) -> None:
    def change(gradient: MaxPoolGradient) -> MaxPoolGradient:
        made = operand(gradient, "made")
        return replace(gradient, x=made, grad=made, dx=made)

    found = report(model("made = com.acme.Make (x)"), change)
    assert found.code == "unknown-dtype"


WITHOUT_INDICES = """
    same = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
    wider = MaxPool <kernel_shape=[4,4], strides=[2,2], pads=[1,1,1,1]> (x)
    acmes = com.acme.Pool <kernel_shape=[2,2], strides=[2,2]> (x)
"""


@pytest.mark.parametrize(
    ("pool", "numbering", "reason"),
    [
        ("same", Numbering.TENSOR, None),
        ("same", Numbering.PLANE, NO_INDICES),
        ("wider", Numbering.TENSOR, OTHER_WINDOWS),
        ("acmes", Numbering.TENSOR, NO_INDICES),
        ("x", Numbering.TENSOR, NO_INDICES),
    ],
)
def test_a_pool_without_indices(pool: str, numbering: Numbering, reason: str | None, report: Report) -> None:
    given = model(WITHOUT_INDICES)
    given.graph.input.append(helper.make_tensor_value_info("", TensorProto.INT32, [7]))  # not the indices

    def change(gradient: MaxPoolGradient) -> MaxPoolGradient:
        return replace(gradient, argmax=None, numbering=numbering, pool=value(gradient, pool).producer)

    assert report(given, change).reason == reason


def test_indices_of_a_max_pool_that_something_changes(report: Report) -> None:
    def change(gradient: MaxPoolGradient) -> MaxPoolGradient:
        return replace(gradient, argmax=operand(gradient, "k"), numbering=Numbering.PLANE)

    found = report(model("k = com.acme.Alter (i)"), change)
    assert found.reason == f"{OF_DX}the indices 'k' are not those of 'y'"


REDUCTIONS = """
    maxima = ReduceMax <axes=[2,3]> (x)
    last = ArgMax (x)
    k = com.acme.Place (last)
    acmes = com.acme.ArgMax (x)
    l = com.acme.Place (acmes)
    c = com.acme.Choose (x)
    chosen = If (c) <
        then_branch = yes () => (int64[2,3,4,4] m) { inner = ArgMax (x) m = com.acme.Place (inner) },
        else_branch = no () => (int64[2,3,4,4] n) { n = com.acme.Place (acmes) }
    >
"""


@pytest.mark.parametrize(
    ("node", "recorder", "argmax", "reason"),
    [
        ("maxima", "last", "k", None),
        ("y", "last", "k", NO_MAXIMA),
        ("maxima", "acmes", "l", NO_MAXIMA),
        ("maxima", "last", "l", NO_MAXIMA),
        ("maxima", "inner", "m", NO_MAXIMA),
    ],
)
def test_a_reduction(node: str, recorder: str, argmax: str, reason: str | None, report: Report) -> None:
    def change(gradient: MaxPoolGradient) -> MaxPoolGradient:
        scopes = [gradient.dx.value.scope, *(use.scope for use in gradient.x.value.uses)]
        values = {name: Value(scope, name) for scope in scopes for name in scope.producers}
        maxima, maximum = values[node].producer, values[recorder].producer
        assert maxima is not None and maximum is not None  # noqa: PT018 - for the type checker
        reduction = Reduction(maximum, None, None)
        return replace(
            gradient, argmax=Operand(values[argmax]), numbering=Numbering.PLANE, pool=maxima, reduction=reduction
        )

    assert report(model(REDUCTIONS), change).reason == reason


@pytest.mark.parametrize(("x", "reason"), [("x", None), ("late", "the gradient of 'dx': 'late' is computed from it")])
def test_an_operand_computed_from_the_subgraph_of_the_result(x: str, reason: str | None, report: Report) -> None:
    given = parse(
        """g (float[2,3,8,8] x, float[2,3,4,4] dy, bool c) => (float[2,3,8,8] late) {
            y, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
            chosen = If (c) <
                then_branch = yes () => (float[2,3,8,8] dx) { dx = com.acme.PoolBackward (dy, i) },
                else_branch = no () => (float[2,3,8,8] z) { z = Neg (x) }
            >
            late = Neg (chosen)
        }""",
        imports='"com.acme": 1',
    )
    assert report(given, lambda gradient: replace(gradient, x=operand(gradient, x))).reason == reason


ACME_POOLS = """
    a, p = com.acme.Pool (x)
    b, q = com.acme.Pool (x)
    h = Identity (p)
    k = Cast <to = 7> (h)
"""


@pytest.mark.parametrize(("pool", "code"), [("a", None), ("b", "malformed-gradient")])
def test_indices_of_a_pool_that_only_the_form_knows(pool: str, code: str | None, report: Report) -> None:
    def change(gradient: MaxPoolGradient) -> MaxPoolGradient:
        indices_of = operand(gradient, "k")
        return replace(gradient, argmax=indices_of, numbering=Numbering.PLANE, pool=value(gradient, pool).producer)

    assert report(model(ACME_POOLS), change).code == code


@pytest.mark.parametrize(("numbering", "expected"), [(Numbering.PLANE, "lowered"), (Numbering.TENSOR, "refused")])
def test_only_indices_inside_planes_may_be_int32(numbering: Numbering, expected: str, report: Report) -> None:
    def change(gradient: MaxPoolGradient) -> MaxPoolGradient:
        return replace(gradient, argmax=operand(gradient, "k"), numbering=numbering, pool=None)

    body = "a, p = com.acme.Pool (x)\n k = Cast <to = 6> (p)"
    assert report(model(body), change).status == expected
