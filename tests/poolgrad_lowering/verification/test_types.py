# SPDX-License-Identifier: Apache-2.0

"""The sizes of a verified model's values: what its operators compute, before what it declares of them."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import ModelProto, TensorProto, helper

from poolgrad_lowering import lower, verify
from poolgrad_lowering.verification.exports.shape_rewrites import _counted
from poolgrad_lowering.verification.graph.flat import main_unit
from poolgrad_lowering.verification.graph.types import AxisSize, function_types, multiple_of, tensor_types
from tests.pool_graphs import parse


def declaring(model: ModelProto, **dims: list[Any]) -> ModelProto:
    """The model with value_infos of float tensors."""
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name, sizes in dims.items()]
    model.graph.value_info.extend(made)
    return model


def dims(model: ModelProto) -> dict[str, tuple[AxisSize, ...] | None]:
    return {name: found.dims for name, found in tensor_types(model).items()}


@pytest.mark.parametrize("claimed", [[2, 5], [2, "rows"], [2, 3, 1], [6]], ids=str)
def test_a_false_claim_about_what_is_computed(claimed: list[Any]) -> None:
    model = declaring(parse("g (float[2,3] x) => (float[2,5] z) { y = Relu(x) z = Neg(y) }"), y=claimed)
    assert dims(model) == dict.fromkeys("xyz", (2, 3))


def test_a_name_that_only_stands_for_an_unknown_size() -> None:
    """onnxruntime's artifacts declare those that its inference made."""
    model = parse(
        """g (float[N,3] x) => (float[unk__0,unk__1] z) <int64[1] two = {2}> {
            s = Shape<end = 1>(x) t = Concat<axis = 0>(s, two) y = ConstantOfShape(t) z = Neg(y)
        }"""
    )
    found = dims(declaring(model, y=["unk__0", "unk__1"]))
    assert (found["y"], found["z"]) == (("N", 2), ("N", 2))


def test_such_a_name_is_one_size_wherever_the_model_declares_it() -> None:
    """Of y the size is known; of z, whose operator ONNX does not have, it follows."""
    model = parse("g (float[N,3] x) => (float[unk__0,3] z) { y = Neg(x) z = other.Op(y) }", imports='"other": 1')
    assert dims(declaring(model, y=["unk__0", 3])) == dict.fromkeys("xyz", ("N", 3))


def test_an_operator_that_the_model_defines_anew() -> None:
    model = parse(
        "g (float[2,3] x) => (float[6] z) { y = Relu(x) z = Neg(y) }",
        functions="""<domain: "", opset_import: ["": 16]>
            Relu (x) => (y) { s = Constant<value_ints = [-1]>() y = Reshape(x, s) }""",
    )
    found = dims(declaring(model, y=[6]))
    assert (found["y"], found["z"]) == ((6,), (6,))


def test_an_output_that_is_no_tensor() -> None:
    model = parse("g (float[2,3] x) => (seq(float[2,3]) z) { z = SequenceConstruct(x) }")
    kept = model.SerializeToString()
    assert dims(model) == {"x": (2, 3)}
    assert model.SerializeToString() == kept


def test_element_types_that_only_a_function_claims() -> None:
    """Converters to float16 change the types of a graph's values and leave those that functions declare."""
    model = parse(
        "g (float16[2,3] x) => (z) { h = Relu(x) y = other.Op(h) z = Neg(y) w = other.Op(h) v = Neg(w) }",
        imports='"other": 1',
    )
    model = declaring(model, h=[2, 3], y=[2, 3], v=[2])
    found = function_types(model, main_unit(model))
    half, single = TensorProto.FLOAT16, TensorProto.FLOAT
    assert {name: (found[name].element, found[name].claimed) for name in found} == {
        "x": (half, False),
        "h": (half, False),
        "y": (single, True),
        "z": (single, True),
        "v": (single, True),
        "w": (single, True),
    }
    assert (found["v"].dims, found["h"].dims) == ((2,), (2, 3))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_pads_that_runtimes_ignore(auto_pad: str) -> None:
    """Beside another `auto_pad` than NOTSET; onnx reads them and not `auto_pad`."""
    pads = [1, 1] if auto_pad == "VALID" else [0, 0]
    pool = f'MaxPool<kernel_shape = [2], auto_pad = "{auto_pad}", pads = {pads}>'
    found = dims(parse(f"g (float[1,1,3] x) => (z) {{ y = {pool}(x) z = Neg(y) }}"))
    assert found["z"] == (1, 1, 2 if auto_pad == "VALID" else 3)


BEHIND = {
    "forwards": "t = Add (s, c) y, i = POOL (t) dy = Mul (d, c) dX = GRAD (dy, i) z = Neg (dX)",
    "backwards": "t = Neg (s) y, i = POOL (t) dy = Neg (d) dX = GRAD (dy, i) z = Mul (dX, c)",
    "by the pool": "t = Neg (s) y, i = POOL (t) u = Add (y, c) dy = Mul (d, u) dX = GRAD (dy, i) z = Neg (dX)",
}
"""A pool between operators that ONNX does not have, beside a constant of a known type."""


@pytest.mark.parametrize("nodes", BEHIND.values(), ids=BEHIND)
@pytest.mark.parametrize(("element", "name"), [(TensorProto.FLOAT, "float"), (TensorProto.FLOAT16, "float16")])
def test_types_behind_operators_that_onnx_does_not_have(nodes: str, element: int, name: str) -> None:
    windows = "<kernel_shape = [2,2]>"
    nodes = nodes.replace("POOL", f"MaxPool {windows}").replace("GRAD", f"MaxPoolGrad {windows}")
    model = parse(
        f"""g ({name}[2,3,6,6] x, {name}[2,3,5,5] g) => (z) <{name} c = {{2}}> {{
            s = other.Op (x) d = other.Op (g) {nodes}
        }}""",
        imports='"other": 1',
    )
    sizes = {"t": [2, 3, 6, 6], "dy": [2, 3, 5, 5], "dX": [2, 3, 6, 6]}
    model.graph.value_info.extend(helper.make_tensor_value_info(each, element, sizes[each]) for each in sizes)
    lowered = lower(model).model
    for each in (model, lowered):
        each.graph.ClearField("value_info")
    types = tensor_types(model)
    assert {types[value].element for value in (*sizes, "z")} == {element}
    [site] = verify(model, lowered, whole_model=False, runs=2).sites
    assert site.status == "proven", site.reason


def test_a_gradient_of_known_types_tells_that_of_its_pool() -> None:
    """By the indices, though nothing around the gradient itself is unknown."""
    windows = "<kernel_shape = [2,2]>"
    model = parse(
        f"""g (float[2,3,6,6] x, float[2,3,5,5] dy) => (float[2,3,6,6] dX, z) {{
            t = other.Op (x) y, i = MaxPool {windows} (t) dX = MaxPoolGrad {windows} (dy, i) z = Neg (y)
        }}""",
        imports='"other": 1',
    )
    model.graph.value_info.append(helper.make_tensor_value_info("i", TensorProto.INT64, [2, 3, 5, 5]))
    types = tensor_types(model)
    assert {types[value].element for value in "tyz"} == {TensorProto.FLOAT}


@pytest.mark.parametrize(
    ("size", "part", "expected"),
    [
        ("2*N*3", "N*2", 3),
        ("N*M", "M*N", 1),
        ("3*N", "2*N", None),
        ("2*N", "M", None),
        ("1*1", "1", None),
        ("N", "0*N", None),
        (None, "N", None),
    ],
)
def test_multiples_of_symbolic_sizes(size: AxisSize, part: AxisSize, expected: int | None) -> None:
    assert multiple_of(size, part) == expected


@pytest.mark.parametrize(
    ("own", "expected"),
    [(("N", 6), ["N", 2, 3]), (("N", 0), ["N", 2, "unk__0"]), (None, ["N", 2, "unk__0"]), ((), ["N", 2, "unk__0"])],
)
def test_the_size_that_a_reshape_leaves(own: Any, expected: list[AxisSize]) -> None:
    """Of an input of which nothing is known, nothing follows."""
    assert _counted(["N", 2, "unk__0"], own) == expected
    assert _counted(["unk__0"], own if own is None or own == () else (None, 6)) == ["unk__0"]
