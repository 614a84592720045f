# SPDX-License-Identifier: Apache-2.0

"""The checkpoint: a careless form gets a refusal, whichever field of its gradient is wrong, never an invalid model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering import driver, lower
from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.pool import PoolAttributes
from poolgrad_lowering.analysis.provenance import Indices, Numbering, indices
from poolgrad_lowering.dialect.maximum import Maximum
from poolgrad_lowering.gradient import AdaptiveWindows, Pattern, PoolGradient, Reduction
from poolgrad_lowering.ir.dims import Dim
from poolgrad_lowering.ir.scopes import Node, Value
from poolgrad_lowering.matching.forward import ForwardPool, forward_pool
from tests.pool_graphs import parse

Change = Callable[[PoolGradient], PoolGradient]


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


def careless(change: Change) -> Pattern:
    """Acme's form, whose answer is changed before it is given."""

    def match(facts: Facts, node: Node) -> PoolGradient:
        grad, recorded, dx = node.input(0), node.input(1), node.output(0)
        assert grad is not None and recorded is not None and dx is not None  # noqa: PT018 - for the type checker
        found = indices(facts, recorded)
        assert isinstance(found, Indices)
        forward = forward_pool(facts, found.pool)
        assert isinstance(forward, ForwardPool)
        return change(
            PoolGradient(
                x=forward.x,
                grad=grad,
                argmax=found.argmax,
                dx=dx,
                numbering=found.argmax_numbering,
                element_type=forward.element_type,
                windows=forward.attributes,
                x_shape=forward.x_shape,
                pooled_shape=forward.pooled_shape,
                pool=forward.node,
            )
        )

    return Pattern("acme", (("com.acme", "PoolBackward"),), "acme's gradient", match)


def verdict(given: ModelProto, change: Change, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str | None]:
    """Status and code of the anchor; a refused model keeps its bytes."""
    monkeypatch.setattr(driver, "all_patterns", lambda: (careless(change),))
    result = lower(given)
    [anchor] = result.report.anchors
    if anchor.status == "refused":
        assert result.model.SerializeToString() == given.SerializeToString()
    return anchor.status, anchor.code


def test_the_honest_form_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(model(), lambda gradient: gradient, monkeypatch) == ("lowered", None)


def test_mixed_element_types(monkeypatch: pytest.MonkeyPatch) -> None:
    given = model(x="float16[2,3,8,8]", dy="float[2,3,4,4]")
    assert verdict(given, lambda gradient: gradient, monkeypatch) == ("refused", "dtype-mix")


def test_a_result_that_is_declared_with_another_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    given = model(dx="float[2,3,8,9]")
    assert verdict(given, lambda gradient: gradient, monkeypatch) == ("refused", "dx-shape")


def test_a_gradient_of_another_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    given = model(dy="float[2,3,4,5]")
    assert verdict(given, lambda gradient: gradient, monkeypatch) == ("refused", "grad-shape")


def value(gradient: PoolGradient, name: str) -> Value:
    found = gradient.dx.scope.resolve(name)
    assert found is not None
    return found


def shape(*sizes: int) -> tuple[Dim, ...]:
    return tuple(map(Dim, sizes))


def windows(gradient: PoolGradient, **changes: Any) -> PoolAttributes:
    assert isinstance(gradient.windows, PoolAttributes)
    return replace(gradient.windows, **changes)


WRONG: dict[str, tuple[Callable[[PoolGradient], Any], str]] = {
    "x": (lambda g: value(g, "other"), "malformed-gradient"),
    "grad": (lambda g: value(g, "other"), "grad-shape"),
    "argmax": (lambda g: value(g, "j"), "malformed-gradient"),
    "dx": (lambda g: g.x, "malformed-gradient"),
    "numbering": (lambda _: Numbering.PLANE, "indices-numbering"),
    "element_type": (lambda _: TensorProto.FLOAT16, "dtype-mix"),
    "windows": (lambda g: windows(g, strides=(1, 1)), "malformed-gradient"),
    "x_shape": (lambda _: shape(2, 3, 8, 9), "malformed-gradient"),
    "pooled_shape": (lambda _: shape(2, 3, 4, 3), "grad-shape"),
    "grad_is_flat": (lambda _: "yes", "malformed-gradient"),
    "dx_shape": (lambda _: shape(2, 3, 8, 9), "dx-shape"),
    "pool": (lambda g: value(g, "z").producer, "malformed-gradient"),
    "reduction": (lambda g: Reduction(g.pool, g.pool, Maximum.WHOLE, None), "malformed-gradient"),
    "argmax_is_flat": (lambda _: None, "malformed-gradient"),
    "channels_last": (lambda _: True, "dx-shape"),
    "axis": (lambda _: None, "malformed-gradient"),
    "x_is_flat": (lambda _: 1, "malformed-gradient"),
}


def test_every_field_is_tried() -> None:
    assert WRONG.keys() == {field.name for field in fields(PoolGradient)}


@pytest.mark.refusal("malformed-gradient")
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_field(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, code = WRONG[name]
    found = verdict(model(), lambda gradient: replace(gradient, **{name: make(gradient)}), monkeypatch)
    assert found == ("refused", code)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("nonsense", [None, "text", 3.5, b"", (), [1]], ids=repr)
def test_nonsense_in_a_field(name: str, nonsense: object, monkeypatch: pytest.MonkeyPatch) -> None:
    if nonsense is None and name in ("dx_shape", "pool", "reduction"):
        pytest.skip("these may be absent")
    status, code = verdict(model(), lambda gradient: replace(gradient, **{name: nonsense}), monkeypatch)
    assert status == "refused"
    assert code in ("malformed-gradient", "dx-shape")


OTHERS: dict[str, tuple[Change, str]] = {
    "a negative size": (lambda g: replace(g, x_shape=(*g.x_shape[:3], Dim(-8))), "malformed-gradient"),
    "text for sizes": (lambda g: replace(g, x_shape=("N", "C", "H", "W")), "malformed-gradient"),  # type: ignore[arg-type]
    "other channels": (lambda g: replace(g, pooled_shape=shape(2, 4, 4, 4)), "malformed-gradient"),
    "another rank": (lambda g: replace(g, pooled_shape=shape(2, 3, 16)), "malformed-gradient"),
    "no axes": (lambda g: replace(g, x_shape=(), pooled_shape=()), "malformed-gradient"),
    "windows of another rank": (
        lambda g: replace(g, windows=windows(g, kernel=(2,), strides=(2,), begins=(0,), ends=(0,), dilations=(1,))),
        "malformed-gradient",
    ),
    "adaptive windows of an ordinary pool": (lambda g: replace(g, windows=AdaptiveWindows()), "malformed-gradient"),
    "an axis that is none": (lambda g: replace(g, numbering=Numbering.AXIS, axis=2), "malformed-gradient"),
    "unnamed indices of a pool that has some": (
        lambda g: replace(g, argmax=Value(g.x.scope, "")),
        "malformed-gradient",
    ),
    "an operand computed from the result": (lambda g: replace(g, grad=value(g, "after")), "grad-shape"),
    "a flat operand computed from the result": (
        lambda g: replace(g, x=value(g, "after"), x_is_flat=True),
        "malformed-gradient",
    ),
    "indices that are no indices": (lambda g: replace(g, argmax=value(g, "dy")), "malformed-gradient"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_contradiction(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, code = OTHERS[name]
    assert verdict(model(), change, monkeypatch) == ("refused", code)


def of_acmes_own_pool(body: str, pool: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str | None]:
    """The verdict on a gradient by indices `i` that acme's pool `pool` is said to have recorded, inside planes."""

    def change(gradient: PoolGradient) -> PoolGradient:
        indices_of = value(gradient, "k")
        return replace(gradient, argmax=indices_of, numbering=Numbering.PLANE, pool=value(gradient, pool).producer)

    return verdict(model(body), change, monkeypatch)


ACME_POOLS = """
    a, p = com.acme.Pool (x)
    b, q = com.acme.Pool (x)
    h = Identity (p)
    k = Cast <to = 7> (h)
"""


def test_indices_of_a_pool_that_only_the_form_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_acmes_own_pool(ACME_POOLS, "a", monkeypatch) == ("lowered", None)
    assert of_acmes_own_pool(ACME_POOLS, "b", monkeypatch) == ("refused", "malformed-gradient")


@pytest.mark.parametrize(("numbering", "expected"), [(Numbering.PLANE, "lowered"), (Numbering.TENSOR, "refused")])
def test_only_indices_inside_planes_may_be_int32(
    numbering: Numbering, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(gradient: PoolGradient) -> PoolGradient:
        return replace(gradient, argmax=value(gradient, "k"), numbering=numbering, pool=None)

    body = "a, p = com.acme.Pool (x)\n k = Cast <to = 6> (p)"
    assert verdict(model(body), change, monkeypatch)[0] == expected
