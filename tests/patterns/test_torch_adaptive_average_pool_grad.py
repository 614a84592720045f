# SPDX-License-Identifier: Apache-2.0

"""PyTorch's gradient of an adaptive average pool as a sum over gathered windows; near misses and reasons."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.generators.average_plans import gathered_windows
from tests.oracles import adaptive_windows
from tests.oracles.training_operators import average_windows_grad
from tests.patterns.average_checks import check_average
from tests.patterns.lowering_checks import check_refused
from tests.pool_graphs import parse
from tests.texts import Says

X, COUNTS = (2, 3, 7, 8), (3, 5)
Ints = npt.NDArray[np.int64]


def tables(
    sizes: tuple[int, ...], counts: tuple[int, ...]
) -> tuple[Ints, npt.NDArray[np.bool_], npt.NDArray[np.float32]]:
    """The windows of each element, the last one repeated, the mask of those that are not repeated, and the divisors."""
    along = [adaptive_windows(size, count) for size, count in zip(sizes, counts, strict=True)]
    divisors = np.array([prod(map(len, each)) for each in product(*along)], np.float32).reshape(counts)
    return *gathered_windows(sizes, along), divisors


def gradient(
    *,
    sizes: tuple[int, ...] = X[2:],
    batch: int | str = 2,
    table: Ints | None = None,
    mask: npt.NDArray[np.bool_] | None = None,
    divisors: npt.NDArray[np.float32] | None = None,
    fill: float = 0.0,
    axis: int = -1,
) -> onnx.ModelProto:
    """The form, with what is given in place of its tables."""
    own_table, own_mask, own_divisors = tables(X[2:], COUNTS)
    table, mask = own_table if table is None else table, own_mask if mask is None else mask
    constants = {
        "table": table.reshape(-1),
        "mask": mask,
        "elements": own_divisors if divisors is None else divisors,
        "zero": np.array(fill, np.float32),
        "flat": np.array([0, 0, -1]),
        "rows": np.array([-1 if batch == "N" else 2, 3, *mask.shape]),
        "last": np.array([axis]),
        "xs": np.array([-1 if batch == "N" else 2, 3, *sizes]),
    }
    model = parse(
        f"""g (float[{batch},3,{_text(COUNTS)}] dy) => (float[{batch},3,{_text(sizes)}] dx) {{
            mean = Div (dy, elements)
            windows = Reshape (mean, flat)
            picked = Gather <axis = -1> (windows, table)
            gathered = Reshape (picked, rows)
            kept = Where (mask, gathered, zero)
            sums = ReduceSum <keepdims = 0> (kept, last)
            dx = Reshape (sums, xs)
        }}""",
        opset=18,
    )
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    return model


def _text(sizes: tuple[int, ...]) -> str:
    return ",".join(map(str, sizes))


def expected(grad: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    windows = [adaptive_windows(*axis) for axis in zip(X[2:], COUNTS, strict=True)]
    return np.asarray(average_windows_grad(grad.astype(np.float64), X, windows))


@pytest.mark.parametrize("target", ["atlas-a2", "ascend950"])
@pytest.mark.parametrize("batch", [2, "N"])
def test_the_operator_gets_zeros_in_the_shape_of_x(batch: int | str, target: str) -> None:
    model = gradient(batch=batch)
    nodes = check_average(model, expected, op="AdaptiveAvgPool3dGrad", target=target, sizes={"N": 2})
    [made] = [node for node in nodes if node.op_type == "ConstantOfShape"]
    assert nodes[-1].input[1] == made.output[0]


TABLE, MASK, DIVISORS = tables(X[2:], COUNTS)
SWAPPED = TABLE.copy()
SWAPPED[[0, -1]] = TABLE[[-1, 0]]
SHOWN = MASK.copy()
SHOWN[:, 1] = True
LESS = DIVISORS.copy()
LESS[1, 1] -= 1


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(
            gradient(table=SWAPPED), id="windows of other elements", marks=pytest.mark.refusal("window-tables")
        ),
        pytest.param(gradient(mask=SHOWN), id="repeated windows", marks=pytest.mark.refusal("window-tables")),
        pytest.param(gradient(divisors=LESS), id="a divisor", marks=pytest.mark.refusal("window-tables")),
    ],
)
def test_other_tables_are_refused(model: onnx.ModelProto, says: Says) -> None:
    says(check_refused(model, Code.WINDOW_TABLES))


@pytest.mark.refusal("more-windows")
def test_more_windows_than_elements(says: Says) -> None:
    """The provider runs no such node."""
    table, mask, divisors = tables((2, 8), COUNTS)
    says(check_refused(gradient(sizes=(2, 8), table=table, mask=mask, divisors=divisors), Code.MORE_WINDOWS))


def test_another_plane_is_refused() -> None:
    check_refused(gradient(sizes=(8, 7)), Code.WINDOW_TABLES)


@pytest.mark.parametrize("element_type", [TensorProto.FLOAT16, TensorProto.INT32])
def test_a_cast_and_back_stays(element_type: int) -> None:
    """The first cast rounds."""
    model = gradient()
    model.graph.node[-1].output[0] = "exact"
    model.graph.node.append(helper.make_node("Cast", ["exact"], ["rounded"], to=element_type))
    model.graph.node.append(helper.make_node("Cast", ["rounded"], ["dx"], to=TensorProto.FLOAT))
    nodes = lower(model).model.graph.node
    assert [node.op_type for node in nodes][-3:] == ["AdaptiveAvgPool3dGrad", "Cast", "Cast"]


def test_a_mask_for_each_plane_is_no_anchor() -> None:
    """It has as many elements as a mask of the 4 elements of x, but each of the 2·2 planes has a row of it."""
    table, mask, divisors = tables((4,), (3,))
    model = gradient(sizes=(4,), table=table, mask=mask, divisors=divisors)
    for value, size in ((model.graph.input[0], 3), (model.graph.output[0], 4)):
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, [2, 2, size]))
    changed = {"mask": mask.reshape(2, 2, 1, 2), "rows": np.array([2, 2, 4, 2]), "xs": np.array([2, 2, 4])}
    for tensor in model.graph.initializer:
        if tensor.name in changed:
            tensor.CopyFrom(numpy_helper.from_array(changed[tensor.name], tensor.name))
    assert lower(model).report.anchors == ()


def test_integers_are_divided_otherwise() -> None:
    """The quotients of integers are truncated."""
    model = gradient()
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for tensor in model.graph.initializer:
        if tensor.name in ("elements", "zero"):
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.int32), tensor.name))
    model.graph.node[0].input[0], model.graph.node[-1].output[0] = "whole", "sums_of_integers"
    model.graph.node.insert(0, helper.make_node("Cast", ["dy"], ["whole"], to=TensorProto.INT32))
    model.graph.node.append(helper.make_node("Cast", ["sums_of_integers"], ["dx"], to=TensorProto.FLOAT16))
    onnx.checker.check_model(model, full_check=True)
    assert not lower(model).report.lowered
