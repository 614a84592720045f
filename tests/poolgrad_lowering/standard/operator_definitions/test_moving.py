# SPDX-License-Identifier: Apache-2.0

"""What moves elements: joins, splits, gathers, slices, sizes, and sums over axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from poolgrad_lowering import lower
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.oracles import training_operators as oracle
from tests.pool_graphs import parse
from tests.poolgrad_lowering.standard.operator_definitions.cases import (
    F16,
    F32,
    F64,
    check,
    integers,
    ints,
    normal,
    one_node,
    prepared,
)
from tests.poolgrad_lowering.standard.standard_models import Array, assert_close


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4,)),
        ((4,), (3, 4)),
        ((3, 1), (1, 4)),
        ((1,), (2, 1, 3)),
        ((2, 3), (2, 3)),
        ((1, 1), (1, 1)),
        ((), (2,)),
    ],
)
def test_broadcast_axes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Summing over the axes brings a gradient of the common shape back to each operand."""
    expected = oracle.broadcast_axes(a, b)
    feeds = {"a": np.array(a, np.int64), "b": np.array(b, np.int64)}
    check("BroadcastGradientArgs", feeds, dict(zip(("axes_a", "axes_b"), expected, strict=True)))
    common = np.ones(np.broadcast_shapes(a, b))
    for shape, axes in zip((a, b), expected, strict=True):
        assert common.sum(tuple(axes)).size == int(np.prod(shape))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_and_split(axis: int, known: bool) -> None:
    parts = {name: normal(*[3 if a == axis % 2 else 4 for a in range(2)], seed=a) for a, name in enumerate("AB")}
    parts["C"] = normal(*[1 if a == axis % 2 else 4 for a in range(2)], seed=5)
    whole = np.concatenate([*parts.values()], axis)
    shapes = {} if known else {**{name: ["N", "M"] for name in parts}, "Y": ["P", "Q"]}
    expected = {"Y": whole, "lengths": ints(3, 3, 1)}
    check("ConcatTraining", parts, expected, shapes=shapes, axis=axis)
    check("ConcatTraining", parts, {"Y": whole}, shapes=shapes, axis=axis)
    feeds = {"X": whole, "split": ints(3, 3, 1)}
    check("SplitTraining", feeds, parts, constants=["split"] if known else [], axis=axis)


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_equal_split(opset: int) -> None:
    x = normal(2, 6)
    check("SplitTraining", {"X": x}, {"A": x[:, :3], "B": x[:, 3:]}, axis=1, opset=opset)


GATHERS: dict[str, tuple[tuple[int, ...], Array, int]] = {
    "rows": ((5, 4), ints(0, 4, 2), 0),
    "duplicates": ((5, 4), ints(1, 1, 1, 3), 0),
    "negative": ((5, 4), ints(-1, 4, -5), 0),
    "last axis": ((2, 3, 5), ints(4, 0, 4), -1),
    "two axes of indices": ((4, 3), np.array([[0, 3], [3, -1]]), 0),
    "three axes of indices": ((2, 4, 3), integers(-4, 4, 2, 2, 2), 1),
    "a scalar": ((4, 3), np.array(2), 0),
    "a scalar on the last axis": ((4, 3), np.array(-1), 1),
    "a vector": ((6,), np.array([[0, 5], [5, 5]]), 0),
    "none": ((4, 3), np.zeros(0, np.int64), 0),
}


@pytest.mark.parametrize(("dtype", "opset"), [(F16, 15), (F16, 18), (F32, 11), (F32, 15), (F32, 18), (F64, 18)])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("shape", "indices", "axis"), GATHERS.values(), ids=GATHERS)
def test_gather_grad(  # noqa: PLR0917 - what is varied
    shape: tuple[int, ...], indices: Array, axis: int, known: bool, dtype: Any, opset: int
) -> None:
    at = axis % len(shape)
    dy = normal(*shape[:at], *indices.shape, *shape[at + 1 :], dtype=dtype)
    feeds = {"shape": ints(*shape), "indices": indices, "dY": dy}
    expected = {"dX": oracle.gather_grad(shape, indices, dy, at)}
    check("GatherGrad", feeds, expected, dtype=dtype, constants=["shape"] if known else [], axis=axis, opset=opset)


@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("place", [0, 2, -1, -3])
def test_gather_grad_of_one_place(place: int, axis: int, known: bool, opset: int) -> None:
    shape, at = (3, 4, 5), axis % 3
    dy = normal(*shape[:at], *shape[at + 1 :])
    feeds = {"shape": ints(*shape), "indices": np.array(place), "dY": dy}
    expected = {"dX": oracle.gather_grad(shape, feeds["indices"], dy, at)}
    names = ["shape", "indices"] if known else ["indices"]
    check("GatherGrad", feeds, expected, constants=names, axis=axis, opset=opset)
    model = one_node("GatherGrad", feeds, {"dX": np.zeros(shape, F32)}, axis=axis, constants=names)
    written = {node.op_type for node in prepared(model).graph.node}
    assert not written & {"MatMul", "ScatterElements"}


def test_gather_grad_of_int32_indices() -> None:
    dy = normal(3, 4)
    feeds = {"shape": ints(5, 4), "indices": np.array([4, 0, 4], np.int32), "dY": dy}
    check("GatherGrad", feeds, {"dX": oracle.gather_grad((5, 4), feeds["indices"], dy, 0)}, axis=0)


def test_gather_grad_in_float16_adds_in_float32() -> None:
    """4096 times 1 at one index: in float16 the sum would stop at 2048."""
    feeds = {"shape": ints(2), "indices": np.zeros(4096, np.int64), "dY": np.ones(4096, F16)}
    check("GatherGrad", feeds, {"dX": np.array([4096, 0], F16)}, run=run_reference, axis=0)


@pytest.mark.parametrize(("dtype", "opset"), [(F16, 18), (F32, 11), (F32, 15), (F32, 18), (F64, 18)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements_grad(axis: int, dtype: Any, opset: int) -> None:
    shape = (4, 5, 3)
    taken = tuple(7 if number == axis % 3 else size - 1 for number, size in enumerate(shape))
    dy, indices = normal(*taken, dtype=dtype), integers(-3, 3, *taken)
    feeds = {"dY": dy, "shape": ints(*shape), "indices": indices}
    expected = oracle.gather_elements_grad(dy, shape, indices, axis)
    constants = ["shape"] if opset < 16 else []
    check("GatherElementsGrad", feeds, {"dX": expected}, dtype=dtype, axis=axis, opset=opset, constants=constants)


@pytest.mark.parametrize("opset", [11, 15])
@pytest.mark.parametrize("batch", [4, "N"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [F16, F32])
def test_gather_elements_grad_without_a_scatter_that_adds(dtype: Any, axis: int, batch: int | str, opset: int) -> None:
    """As of a TopK, whose indices have the sizes of x on the other axes."""
    shape = (4, 5, 3)
    taken = tuple(7 if number == axis % 3 else size for number, size in enumerate(shape))
    dy, indices = normal(*taken, dtype=dtype), integers(-3, 3, *taken)
    kind, first = {F16: "float16", F32: "float"}[dtype], batch if axis else taken[0]
    model = parse(
        f"""g ({kind}[{first},{taken[1]},{taken[2]}] dY, int64[{first},{taken[1]},{taken[2]}] indices,
            {kind}[{batch},5,3] X) => ({kind}[{batch},5,3] dX) {{
            shape = Shape (X) dX = com.microsoft.GatherElementsGrad <axis = {axis}> (dY, shape, indices)
        }}""",
        opset=opset,
        imports='"com.microsoft": 1',
    )
    lowered, rest = prepared(model), {"indices": indices, "X": normal(*shape, dtype=dtype)}
    expected = oracle.gather_elements_grad(dy, shape, indices, axis)
    assert_close(run_ort(lowered, {"dY": dy, **rest})["dX"], expected, dtype)
    dy.flat[4] = np.inf
    expected = oracle.gather_elements_grad(dy, shape, indices, axis)
    found = run_ort(lowered, {"dY": dy, **rest})["dX"]
    assert np.array_equal(np.isfinite(found), np.isfinite(expected))


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_gather_nd_grad(depth: int, dtype: Any, known: bool, opset: int) -> None:
    shape = (3, 4, 2)
    indices = integers(-2, 2, 5, 2, depth)
    dy = normal(5, 2, *shape[depth:], dtype=dtype)
    feeds = {"shape": ints(*shape), "indices": indices, "dY": dy}
    expected, constants = oracle.gather_nd_grad(shape, indices, dy), ["shape"] if known else []
    check("GatherNDGrad", feeds, {"dX": expected}, dtype=dtype, constants=constants, opset=opset)


def test_gather_nd_grad_is_not_written_as_a_matrix_of_gigabytes() -> None:
    model = parse(
        """g (float[9000,2] dY, int64[9000,2] i) => (float[64,64,2] dX) <int64[3] s = {64, 64, 2}> {
        dX = com.microsoft.GatherNDGrad <batch_dims = 0> (s, i, dY) }""",
        opset=15,
        imports='"com.microsoft": 1',
    )
    report = lower(model, standard=True).report.standard
    assert report is not None
    assert [node.code for node in report.left] == ["uncovered-operand"]


@pytest.mark.parametrize("places", [(2,), (3, 4)])  # fewer indices than rows, and more
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("opset", [11, 15])
def test_gather_nd_grad_of_one_axis(opset: int, known: bool, places: tuple[int, ...]) -> None:
    shape, indices = (5, 4, 2), integers(-5, 5, *places, 1)
    dy = normal(*places, 4, 2)
    feeds = {"shape": ints(*shape), "indices": indices, "dY": dy}
    expected = {"dX": oracle.gather_nd_grad(shape, indices, dy)}
    check("GatherNDGrad", feeds, expected, constants=["shape"] if known else [], opset=opset)


@pytest.mark.parametrize("opset", [13, 15, 16])
def test_gather_grad_of_a_large_embedding(opset: int) -> None:
    """Below opset 16 no matrix has an element for each row and each index, whose number may be a symbol."""
    model = parse(
        """g (float[40000,3] w, int64[N,5] i, float[N,5,3] dY) => (float[40000,3] dX) {
        s = Shape(w) dX = com.microsoft.GatherGrad <axis = 0> (s, i, dY) }""",
        opset=opset,
        imports='"com.microsoft": 1',
    )
    lowered = prepared(model)
    assert "Range" not in [node.op_type for node in lowered.graph.node]
    indices, dy = integers(-3, 3, 100, 5), normal(100, 5, 3)
    found = run_ort(lowered, {"w": normal(40000, 3), "i": indices, "dY": dy})["dX"]
    assert_close(found, oracle.gather_grad((40000, 3), indices, dy, 0), F32)


LOWEST = -(2**63)
SLICES: dict[str, tuple[tuple[int, ...], dict[int, slice]]] = {
    "middle": ((6, 3), {0: slice(1, 4)}),
    "whole": ((6, 3), {0: slice(0, 6)}),
    "to the end": ((6, 3), {0: slice(2, 2**31)}),
    "from the end": ((6, 3), {0: slice(-4, -1)}),
    "before the start": ((6, 3), {0: slice(-100, 2)}),
    "nothing": ((6, 3), {0: slice(4, 4)}),
    "behind the end": ((6, 3), {0: slice(9, 12)}),
    "step": ((3, 7), {1: slice(1, 7, 2)}),
    "large step": ((3, 7), {1: slice(2, 7, 10)}),
    "backwards": ((3, 7), {1: slice(5, 1, -1)}),
    "all backwards": ((3, 7), {1: slice(-1, LOWEST, -1)}),
    "backwards in steps": ((3, 7), {1: slice(6, -8, -3)}),
    "two axes": ((5, 3, 6), {0: slice(1, 3), 2: slice(-5, -1)}),
    "two axes in steps": ((5, 4, 6), {0: slice(4, 0, -2), 2: slice(0, 6, 3), 1: slice(1, 3)}),
    "negative axes": ((5, 4, 6), {-1: slice(1, 3), -3: slice(0, 5, 2)}),
}
WITHOUT_STEPS = {name: row for name, row in SLICES.items() if all(cut.step is None for cut in row[1].values())}


@pytest.mark.parametrize("dtype", [F16, F32])
@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize(("shape", "cuts"), SLICES.values(), ids=SLICES)
def test_slice_grad(shape: tuple[int, ...], cuts: dict[int, slice], opset: int, dtype: Any) -> None:
    cut = {axis % len(shape): bounds for axis, bounds in cuts.items()}
    read = tuple(cut.get(axis, slice(None)) for axis in range(len(shape)))
    dy = normal(*np.zeros(shape)[read].shape, dtype=dtype)
    feeds: dict[str, Array | None] = {
        "dY": dy,
        "shape": ints(*shape),
        "starts": ints(*(bounds.start for bounds in cuts.values())),
        "ends": ints(*(bounds.stop for bounds in cuts.values())),
        "axes": ints(*cuts),
        "steps": ints(*(bounds.step or 1 for bounds in cuts.values())),
    }
    if all(bounds.step is None for bounds in cuts.values()):
        feeds["steps"] = None
    if list(cuts) == [*range(len(cuts))]:
        feeds["axes"] = None
    constants = ["shape", "starts", "ends", "axes", "steps"]
    check("SliceGrad", feeds, {"dX": oracle.slice_grad(dy, shape, cut)}, constants=constants, opset=opset)


@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize("ends", ["constant", "given"])
@pytest.mark.parametrize(("shape", "cuts"), WITHOUT_STEPS.values(), ids=WITHOUT_STEPS)
def test_slice_grad_of_symbolic_sizes(shape: tuple[int, ...], cuts: dict[int, slice], ends: str, opset: int) -> None:
    """Rows of zeros stand where dY has none."""
    cut = {axis % len(shape): bounds for axis, bounds in cuts.items()}
    dy = normal(*np.zeros(shape)[tuple(cut.get(axis, slice(None)) for axis in range(len(shape)))].shape)
    vectors = {
        "starts": [bounds.start for bounds in cuts.values()],
        "ends": [bounds.stop for bounds in cuts.values()],
        "axes": [*cuts],
    }
    given = {"ends": ints(*vectors.pop("ends"))} if ends == "given" else {}
    constants = ", ".join(f"int64[{len(each)}] {name} = {{{str(each)[1:-1]}}}" for name, each in vectors.items())
    sizes, results = (",".join(f"{letter}{axis}" for axis in range(len(shape))) for letter in "xy")
    model = parse(
        f"""g (float[{results}] dY, float[{sizes}] X{f", int64[{len(cuts)}] ends" if given else ""})
        => (float[{sizes}] dX) <{constants}> {{
            shape = Shape (X) dX = com.microsoft.SliceGrad (dY, shape, starts, ends, axes)
        }}""",
        opset=opset,
        imports='"com.microsoft": 1',
    )
    found = run_ort(prepared(model), {"dY": dy, "X": normal(*shape), **given})
    assert_close(found["dX"], oracle.slice_grad(dy, shape, cut).astype(F64), F32)


RESIZES: dict[str, tuple[tuple[int, ...], tuple[float, ...]]] = {
    "1-D, twice": ((5,), (2.0,)),
    "1-D, smaller": ((7,), (0.5,)),
    "1-D, uneven": ((5,), (1.7,)),
    "1-D, one element": ((1,), (3.0,)),
    "1-D, to one element": ((4,), (0.25,)),
    "2-D": ((4, 3), (2.0, 3.0)),
    "2-D, uneven": ((4, 5), (1.5, 0.62)),
    "2-D, one axis": ((4, 5), (1.0, 2.0)),
    "3-D": ((2, 3, 2), (2.0, 1.0, 1.5)),
}


COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
MODES: list[dict[str, Any]] = [
    {"mode": "linear"},
    *({"mode": "cubic", "cubic_coeff_a": a, "exclude_outside": int(a == -0.5)} for a in (-0.75, -0.5)),
    *({"mode": "nearest", "nearest_mode": f"round_prefer_{way}"} for way in ("floor", "ceil")),
    *({"mode": "nearest", "nearest_mode": way} for way in ("floor", "ceil")),
]


@pytest.mark.without_kernel
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: "-".join(map(str, mode.values())))
@pytest.mark.parametrize(("sizes", "scales"), RESIZES.values(), ids=RESIZES)
def test_resize_grad(sizes: tuple[int, ...], scales: tuple[float, ...], coordinates: str, mode: dict[str, Any]) -> None:
    if coordinates == "half_pixel_symmetric" and mode.get("nearest_mode") in ("floor", "ceil"):
        pytest.skip("the middle result is at the middle element: which one is beside it depends on a rounding")
    counts = [math.floor(size * scale) for size, scale in zip(sizes, scales, strict=True)]
    dy, x = normal(2, 3, *counts), normal(2, 3, *sizes)
    feeds = {"dY": dy, "X": x, "roi": None, "scales": np.array([1, 1, *scales], F32)}
    options = {**mode, "coordinate_transformation_mode": coordinates}
    expected = {"dX": oracle.resize_grad(dy, sizes, scales, **options)}
    shapes = {"dY": ["N", 3, *counts], "X": ["N", 3, *sizes], "dX": ["N", 3, *sizes]}
    check("ResizeGrad", feeds, expected, constants=["scales"], shapes=shapes, **options)


@pytest.mark.without_kernel
@pytest.mark.parametrize("dtype", [F16, F32])
@pytest.mark.parametrize("scales", [(2.0,), (2.0, 3.0), (1.0, 4.0), (2.0, 1.0, 2.0)], ids=str)
@pytest.mark.parametrize(("coordinates", "way"), [("asymmetric", "floor"), ("half_pixel", "round_prefer_floor")])
def test_resize_grad_of_images_of_any_size(coordinates: str, way: str, scales: tuple[float, ...], dtype: Any) -> None:
    sizes = (5, 3, 2)[: len(scales)]
    counts = [int(size * scale) for size, scale in zip(sizes, scales, strict=True)]
    dy, x = normal(2, 3, *counts, dtype=dtype), normal(2, 3, *sizes, dtype=dtype)
    feeds = {"dY": dy, "X": x, "roi": None, "scales": np.array([1, 1, *scales], F32)}
    options = {"mode": "nearest", "nearest_mode": way, "coordinate_transformation_mode": coordinates}
    expected = {"dX": oracle.resize_grad(dy, sizes, scales, **options)}
    names = [f"s{axis}" for axis in range(len(sizes))]
    shapes = {"dY": ["N", 3, *(f"{name}_of_y" for name in names)], "X": ["N", 3, *names], "dX": ["N", 3, *names]}
    check("ResizeGrad", feeds, expected, constants=["scales"], dtype=dtype, shapes=shapes, **options)


@pytest.mark.without_kernel
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(("sizes", "scales"), [((8, 9), (0.5, 1.0)), ((7, 4), (3 / 7, 2.25))])
def test_resize_grad_with_antialias(sizes: tuple[int, ...], scales: tuple[float, ...], mode: str) -> None:
    """As PyTorch writes it, with the cubic of Pillow."""
    options = {"mode": mode, "antialias": 1, "exclude_outside": 1, "cubic_coeff_a": -0.5}
    counts = [round(size * scale) for size, scale in zip(sizes, scales, strict=True)]
    dy, x = normal(1, 2, *counts), normal(1, 2, *sizes)
    expected = {"dX": oracle.resize_grad(dy, sizes, scales, **options)}
    feeds = {"dY": dy, "X": x, "roi": None, "scales": np.array([1, 1, *scales], F32)}
    check("ResizeGrad", feeds, expected, constants=["scales"], **options)


@pytest.mark.without_kernel
@pytest.mark.parametrize("dtype", [F16, F32, F64])
def test_resize_grad_without_scales(dtype: Any) -> None:
    """A Resize with sizes has no scales; they are those of the sizes."""
    dy, x = normal(2, 3, 10, dtype=dtype), normal(2, 3, 4, dtype=dtype)
    expected = {"dX": oracle.resize_grad(dy, [4], [2.5], mode="linear")}
    check("ResizeGrad", {"dY": dy, "X": x, "roi": None, "scales": None}, expected, dtype=dtype, mode="linear")


@pytest.mark.without_kernel
@pytest.mark.parametrize("dtype", [F16, F32, F64])
def test_rows_without_padding(dtype: Any) -> None:
    rows, indices = normal(6, 2, 3, dtype=dtype), ints(7, 0, 3, 4, 1, 6)
    padded = oracle.pad_and_unflatten(rows, indices, [2, 4])
    feeds = {"X": rows, "indices": indices, "dims": ints(2, 4)}
    check("PadAndUnflatten", feeds, {"Y": padded}, dtype=dtype)
    feeds = {"X": padded, "indices": indices}
    check("FlattenAndUnpad", feeds, {"Y": rows, "dims": ints(2, 4)}, dtype=dtype)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_shrunken_gather(axis: int) -> None:
    x, indices = normal(4, 3, 5), ints(2, 0, -1)
    check("ShrunkenGather", {"X": x, "indices": indices}, {"Y": np.take(x, indices, axis)}, axis=axis)


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("upper", [0, 1, None])
@pytest.mark.parametrize("k", [-2, 0, 1, None])
def test_trilu(k: int | None, upper: int | None, opset: int) -> None:
    x = normal(2, 4, 5)
    x[0] = np.inf
    feeds = {"X": x, "k": None if k is None else np.array(k)}
    expected = np.tril(x, k or 0) if upper == 0 else np.triu(x, k or 0)
    check("Trilu", feeds, {"Y": expected}, opset=opset, **({} if upper is None else {"upper": upper}))


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("axes", [[0], [-1], [1, 2], []], ids=str)
def test_reduce_sum_training(axes: list[int], noop: int, keepdims: int, opset: int) -> None:
    x = normal(3, 2, 4)
    along = tuple(axes) if axes or noop else None
    expected = x.astype(F64).sum(along, keepdims=bool(keepdims)) if along != () else x.astype(F64)
    feeds = {"X": x, "axes": ints(*axes)}
    options = {"keepdims": keepdims, "noop_with_empty_axes": noop, "constants": ["axes"]}
    check("ReduceSumTraining", feeds, {"Y": expected}, opset=opset, **options)


@pytest.mark.without_kernel
@pytest.mark.parametrize("opset", [11, 18])
def test_reduce_sum_training_of_the_gradient_of_a_bias(opset: int) -> None:
    """Below opset 13 axes are attributes: those of operands are known though the batch is not."""
    model = parse(
        """g (float[N,3] dY, float[3] B) => (float[1,3] dB, float[N,3] dX) {
            s = Shape (dY) t = Shape (B) a, b = com.microsoft.BroadcastGradientArgs (s, t)
            dB = com.microsoft.ReduceSumTraining <keepdims = 1, noop_with_empty_axes = 1> (dY, b)
            dX = com.microsoft.ReduceSumTraining <keepdims = 1, noop_with_empty_axes = 1> (dY, a)
        }""",
        opset=opset,
        imports='"com.microsoft": 1',
    )
    lowered = prepared(model)
    assert [node.op_type for node in lowered.graph.node].count("ReduceSum") == 1
    dy = normal(4, 3)
    found = run_ort(lowered, {"dY": dy, "B": normal(3)})
    assert_close(found["dB"], dy.astype(F64).sum(0, keepdims=True), F32)
    assert_same_bits(found["dX"], dy)


@pytest.mark.without_kernel
def test_the_axes_of_broadcasts_are_constants_where_sizes_have_the_same_names() -> None:
    """An error between images of any size, which onnxruntime's ReduceSum sums over no axis."""
    model = parse(
        """g (float[N,3,H] A, float[N,1,H] B) => (float[N,3,H] dA, float[N,1,H] dB) {
            s = Shape (A) t = Shape (B) a, b = com.microsoft.BroadcastGradientArgs (s, t)
            dA = ReduceSum <keepdims = 1, noop_with_empty_axes = 1> (A, a)
            dB = ReduceSum <keepdims = 1, noop_with_empty_axes = 1> (A, b)
        }""",
        opset=18,
        imports='"com.microsoft": 1',
    )
    lowered = prepared(model)
    constants = [node.attribute[0].t for node in lowered.graph.node if node.op_type == "Constant"]
    assert [list(numpy_helper.to_array(tensor)) for tensor in constants] == [[], [1]]
    assert {node.op_type for node in lowered.graph.node} == {"Constant", "ReduceSum", "Shape"}
    x = normal(2, 3, 5)
    found = run_ort(lowered, {"A": x, "B": x[:, :1]})
    assert_same_bits(found["dA"], x)
    assert_close(found["dB"], x.astype(F64).sum(1, keepdims=True), F32)


EMPTY_GATHERS = {
    "an empty row": ((5, 0), 0, (2, 3)),
    "an empty row, a vector of indices": ((5, 0), 0, (3,)),
    "no index": ((5, 4), 0, (2, 0)),
    "no batch": ((0, 5, 4), 1, (2, 3)),
    "no batch, one index": ((0, 5, 4), 1, ()),
    "no batch and no row": ((0, 5, 0), 1, (2, 2)),
    "a second axis of no element": ((2, 0, 5, 2), 2, (2, 1)),
    "no place": ((3, 0, 2), 1, (0, 2)),
}


@pytest.mark.parametrize("opset", [11, 14, 15, 16, 18])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("row", EMPTY_GATHERS.values(), ids=EMPTY_GATHERS)
def test_gather_grad_of_no_element(row: tuple[tuple[int, ...], int, tuple[int, ...]], known: bool, opset: int) -> None:
    """Below opset 14 a Reshape takes no size of 0, unless the sizes are known."""
    shape, axis, places = row
    if opset < 14 and not known:
        return
    dy = normal(*shape[:axis], *places, *shape[axis + 1 :])
    feeds = {"shape": ints(*shape), "indices": np.zeros(places, np.int64), "dY": dy}
    options = {"axis": axis, "opset": opset, "constants": ["shape"] if known else []}
    check("GatherGrad", feeds, {"dX": np.zeros(shape, F32)}, **options)
