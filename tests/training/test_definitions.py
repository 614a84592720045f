# SPDX-License-Identifier: Apache-2.0

"""Each definition against the kernel of onnxruntime-training that it stands for, with random operands and attributes.

Where that build has no kernel the gradients are torch's. Both models run in the same onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.oracles import run_ort
from tests.poolgrad_lowering.standard.standard_models import TOLERANCES, Array, one_node, standardised

pytestmark = pytest.mark.training

F16, F32, F64 = np.float16, np.float32, np.float64
few = settings(derandomize=True, max_examples=25, deadline=None, database=None)
seeds = st.integers(0, 2**16)
halves = st.sampled_from([F16, F32])
floats = st.sampled_from([F32, F64])
sizes = st.integers(1, 5)
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


class Draws:
    """Random arrays, one after the other."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def normal(self, *shape: int, dtype: Any = F32) -> Array:
        return np.asarray(self._random.standard_normal(shape), dtype)

    def positive(self, *shape: int, dtype: Any = F32) -> Array:
        return np.asarray(np.abs(self._random.standard_normal(shape)) + 0.5, dtype)

    def integers(self, low: int, high: int, *shape: int) -> Array:
        return self._random.integers(low, high, shape)


def compare(
    op_type: str,
    feeds: Mapping[str, Array | None],
    outputs: Mapping[str, Array],
    *,
    tolerance: float | None = None,
    prepare: Callable[[onnx.ModelProto], None] = lambda _: None,
    **model: Any,
) -> None:
    """Require that the kernel and the definition give results of one type and shape that differ by roundings."""
    original = one_node(op_type, feeds, outputs, **model)
    prepare(original)
    given_arrays = {name: array for name, array in feeds.items() if array is not None}
    runs = []
    for each in (original, standardised(original)):
        names = {value.name for value in each.graph.input}
        runs.append(run_ort(each, {name: array for name, array in given_arrays.items() if name in names}))
    kernel, definition = runs
    dtype = min((array.dtype for array in given_arrays.values() if array.dtype.kind == "f"), key=lambda d: d.itemsize)
    for name in outputs:
        same(definition[name], kernel[name], TOLERANCES[dtype] if tolerance is None else tolerance)


def same(found: Array, expected: Array, tolerance: float) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    limit = tolerance * max(1.0, float(np.abs(expected.astype(F64)).max(initial=0)))
    difference = float(np.abs(found.astype(F64) - expected.astype(F64)).max(initial=0))
    assert difference <= limit, f"differs by {difference}, more than {limit}"


# -- convolutions and pools


@st.composite
def windows(draw: st.DrawFn, *, dilations: bool = True, kernel: int = 3) -> dict[str, Any]:
    """Sizes and attributes of windows on one to three axes; each axis has a window."""
    rank = draw(st.integers(1, 3))
    axes = []
    for _ in range(rank):
        extent, stride = draw(st.integers(1, kernel)), draw(st.integers(1, 3))
        dilation = draw(st.integers(1, 2)) if dilations else 1
        begin, end = (draw(st.integers(0, max(extent - 1, 0))) for _ in range(2))
        whole = dilation * (extent - 1) + 1
        size = draw(st.integers(max(whole - begin - end, 1), 7))
        axes.append((size, extent, stride, dilation, begin, end))
    size_list, kernels, strides, dilation_list, begins, ends = (list(column) for column in zip(*axes, strict=True))
    counts = [(s + b + e - d * (k - 1) - 1) // t + 1 for s, k, t, d, b, e in axes]
    attributes = {"kernel_shape": kernels, "strides": strides, "pads": begins + ends}
    if dilations:
        attributes["dilations"] = dilation_list
    return {"sizes": size_list, "counts": counts, "attributes": attributes}


@few
@given(windows(), st.integers(1, 3), st.sampled_from([(1, 1), (1, 3), (2, 1), (1, 16)]), st.integers(1, 2), seeds)
def test_conv_grad(drawn: dict[str, Any], group: int, channels: tuple[int, int], batch: int, seed: int) -> None:
    draws = Draws(seed)
    results, inputs = group * channels[0], group * channels[1]
    x, dy = draws.normal(batch, inputs, *drawn["sizes"]), draws.normal(batch, results, *drawn["counts"])
    w = draws.normal(results, channels[1], *drawn["attributes"]["kernel_shape"])
    outputs = {"dX": x, "dW": w, "dB": draws.normal(results)}
    compare("ConvGrad", {"dY": dy, "X": x, "W": w}, outputs, group=group, **drawn["attributes"])


@few
@given(windows(), st.integers(1, 2), st.integers(1, 3), st.integers(0, 2), seeds)
def test_conv_transpose_grad(drawn: dict[str, Any], group: int, channels: int, extra: int, seed: int) -> None:
    """By torch, whose padding is the same at both ends, and which has an output padding below the strides."""
    import torch

    attributes, draws = drawn["attributes"], Draws(seed)
    rank = len(drawn["sizes"])
    begins = attributes["pads"][:rank]
    attributes |= {"pads": begins * 2, "output_padding": [min(extra, s - 1) for s in attributes["strides"]]}
    x = draws.normal(2, 2 * group, *drawn["sizes"])
    w = draws.normal(2 * group, channels, *attributes["kernel_shape"])
    function = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)[rank - 1]
    operands = [torch.tensor(array, requires_grad=True) for array in (x, w, draws.normal(channels * group))]
    try:
        y = function(
            *operands,
            stride=attributes["strides"],
            padding=begins,
            output_padding=attributes["output_padding"],
            groups=group,
            dilation=attributes["dilations"],
        )
    except RuntimeError:
        assume(False)  # an output of no element
    dy = draws.normal(*y.shape)
    y.backward(torch.tensor(dy))
    outputs = {"dX": x, "dW": w, "dB": draws.normal(channels * group)}
    model = one_node("ConvTransposeGrad", {"dY": dy, "X": x, "W": w}, outputs, group=group, **attributes)
    found = run_ort(standardised(model), {"dY": dy, "X": x, "W": w})
    for name, operand in zip(outputs, operands, strict=True):
        same(found[name], operand.grad.numpy(), TOLERANCES[np.dtype(F32)])


def with_pool(pool: str, outputs: Sequence[str], attributes: dict[str, Any]) -> Callable[[onnx.ModelProto], None]:
    """Put the forward pool of X before the gradient, which keeps no operand but dY and the pool's second output."""

    def prepare(model: onnx.ModelProto) -> None:
        gradient = model.graph.node[0]
        del gradient.input[1:]
        gradient.input.extend(outputs[1:])
        model.graph.node.insert(0, helper.make_node(pool, ["X"], list(outputs), **attributes))

    return prepare


@few
@given(windows(dilations=False), st.booleans(), seeds)
def test_average_pool_grad(drawn: dict[str, Any], counts_padding: bool, seed: int) -> None:
    """onnxruntime's kernel for three axes overwrites where windows overlap, and has the axes in another order."""
    attributes, draws = drawn["attributes"] | {"count_include_pad": int(counts_padding)}, Draws(seed)
    assume(len(drawn["sizes"]) < 3)
    x, dy = draws.normal(2, 3, *drawn["sizes"]), draws.normal(2, 3, *drawn["counts"])
    pool = with_pool("AveragePool", ["Y"], attributes)
    compare("AveragePoolGrad", {"dY": dy, "X": x}, {"dX": x}, prepare=pool, domain="", **attributes)


@few
@given(windows(dilations=False), st.booleans(), st.booleans(), seeds)
def test_average_pools_of_aten(drawn: dict[str, Any], counts_padding: bool, ceil: bool, seed: int) -> None:
    """By torch, whose padding is at most half of the kernel."""
    import torch

    attributes, draws = drawn["attributes"], Draws(seed)
    rank = len(drawn["sizes"])
    assume(rank > 1)
    kernel, strides = attributes["kernel_shape"], attributes["strides"]
    begins = [min(pad, size // 2) for pad, size in zip(attributes["pads"][:rank], kernel, strict=True)]
    x = torch.tensor(draws.normal(2, 3, *drawn["sizes"]), requires_grad=True)
    function = {2: torch.nn.functional.avg_pool2d, 3: torch.nn.functional.avg_pool3d}[rank]
    try:
        y = function(x, kernel, strides, begins, ceil, counts_padding)
    except RuntimeError:
        assume(False)  # an output of no element
    dy = draws.normal(*y.shape)
    y.backward(torch.tensor(dy))
    flags = {"a5": np.array(ceil), "a6": np.array(counts_padding)}
    lists = {name: np.array(numbers) for name, numbers in (("a2", kernel), ("a3", strides), ("a4", begins))}
    feeds = {"a0": dy, "a1": x.detach().numpy(), **lists, **flags}
    model = one_node(
        "ATen",
        feeds,
        {"r0": feeds["a1"]},
        constants=[*lists, *flags],
        domain="org.pytorch.aten",
        operator=f"avg_pool{rank}d_backward",
    )
    found = run_ort(standardised(model), {"a0": dy, "a1": feeds["a1"]})
    same(found["r0"], x.grad.numpy(), TOLERANCES[np.dtype(F32)])


@few
@given(windows(dilations=False), seeds)
def test_max_pool_grad(drawn: dict[str, Any], seed: int) -> None:
    """The lowering takes it, or the definition: the kernel is of float32."""
    attributes, draws = drawn["attributes"], Draws(seed)
    x, dy = draws.normal(2, 3, *drawn["sizes"]), draws.normal(2, 3, *drawn["counts"])
    pool = with_pool("MaxPool", ["Y", "Indices"], attributes)
    compare("MaxPoolGrad", {"dY": dy, "X": x}, {"dX": x}, prepare=pool, domain="", **attributes)


@few
@given(
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from([0.5, 1.0, 1.5, 2.0, 2.3, 3.0])), min_size=1, max_size=3),
    st.sampled_from(["linear", "aligned", "nearest", "cubic"]),
    seeds,
)
def test_resize_grad(axes: list[tuple[int, float]], mode: str, seed: int) -> None:
    """By torch's interpolate. For doubles this onnxruntime fuses a MatMul for which it then has no kernel."""
    import torch

    assume(mode != "cubic" or len(axes) == 2)
    counts = [int(np.floor(np.float32(size) * np.float32(scale))) for size, scale in axes]
    assume(min(counts) > 0)
    draws = Draws(seed)
    x = torch.tensor(draws.normal(2, 3, *(size for size, _ in axes)), requires_grad=True)
    scales = [float(np.float32(scale)) for _, scale in axes]
    linear = ("linear", "bilinear", "trilinear")[len(axes) - 1]
    named = {"nearest": "nearest", "cubic": "bicubic"}.get(mode, linear)
    aligned = {"linear": {"align_corners": False}, "aligned": {"align_corners": True}}.get(mode, {})
    y = torch.nn.functional.interpolate(x, scale_factor=scales, mode=named, **aligned)
    assume(list(y.shape[2:]) == counts)
    dy = draws.normal(*y.shape)
    y.backward(torch.tensor(dy))
    feeds = {"dY": dy, "X": x.detach().numpy(), "roi": None, "scales": np.array([1, 1, *scales], F32)}
    attributes = {
        "mode": "linear" if mode == "aligned" else mode,
        "coordinate_transformation_mode": {"aligned": "align_corners", "nearest": "asymmetric"}.get(mode, "half_pixel"),
        "nearest_mode": "floor",
    }
    model = one_node("ResizeGrad", feeds, {"dX": feeds["X"]}, constants=["scales"], **attributes)
    given_feeds = {value.name: feeds[value.name] for value in standardised(model).graph.input}
    same(run_ort(standardised(model), given_feeds)["dX"], x.grad.numpy(), TOLERANCES[np.dtype(F32)])


# -- activations and arithmetic

OF_TWO = {
    "BiasFastGeluGrad_dX": F16,
    "BiasGeluGrad_dX": F16,
    "FastGeluGrad": F64,
    "GeluGrad": F16,
    "LeakyReluGrad": F32,
    "QuickGeluGrad": F32,
    "ReluGrad": F16,
    "SigmoidGrad": F64,
    "TanhGrad": F64,
}
"""Gradients of functions of one operand, and a further type beside float32 that has a kernel."""


@pytest.mark.parametrize("operator", OF_TWO)
@few
@given(shapes, st.booleans(), seeds)
def test_gradients_of_functions(operator: str, shape: tuple[int, ...], other: bool, seed: int) -> None:
    draws, dtype = Draws(seed), OF_TWO[operator] if other else F32
    feeds = {"dY": draws.normal(*shape, dtype=dtype), "X": draws.normal(*shape, dtype=dtype)}
    if operator.startswith("Bias"):
        feeds["B"] = draws.normal(shape[-1], dtype=dtype)
    attributes = {"alpha": 0.3} if operator == "LeakyReluGrad" else {}
    # The kernels of doubles have constants of float32.
    compare(operator, feeds, {"dX": feeds["dY"]}, tolerance=1e-6 if dtype == F64 else None, **attributes)


@pytest.mark.parametrize("operator", ["BiasGelu", "FastGelu", "Gelu", "QuickGelu"])
@few
@given(shapes, st.booleans(), seeds)
def test_functions(operator: str, shape: tuple[int, ...], biased: bool, seed: int) -> None:
    draws = Draws(seed)
    feeds = {"X": draws.normal(*shape)}
    if operator == "BiasGelu" or (operator == "FastGelu" and biased):
        feeds["B"] = draws.normal(shape[-1])
    compare(operator, feeds, {"Y": feeds["X"]})


@pytest.mark.parametrize("operator", ["SoftmaxGrad", "SoftmaxGrad_13", "LogSoftmaxGrad", "LogSoftmaxGrad_13"])
@few
@given(shapes, st.integers(-4, 3), halves, seeds)
def test_gradients_of_softmax(operator: str, shape: tuple[int, ...], axis: int, dtype: Any, seed: int) -> None:
    assume(-len(shape) <= axis < len(shape))
    draws = Draws(seed)
    y = draws.positive(*shape, dtype=F32)
    y = (np.log(y / y.sum()) if operator.startswith("Log") else y / y.sum()).astype(dtype)
    compare(operator, {"dY": draws.normal(*shape, dtype=dtype), "Y": y}, {"dX": y}, axis=axis)


@few
@given(shapes, st.data(), st.sampled_from([F16, F32, F64]), seeds)
def test_div_grad(shape: tuple[int, ...], data: st.DataObject, dtype: Any, seed: int) -> None:
    draws = Draws(seed)
    operands = []
    for _ in range(2):
        kept = [size if data.draw(st.booleans()) else 1 for size in shape]
        operands.append(tuple(kept[data.draw(st.integers(0, len(kept))) :]))
    a, b = draws.normal(*operands[0], dtype=dtype), draws.positive(*operands[1], dtype=dtype)
    dy = draws.normal(*np.broadcast_shapes(*operands), dtype=dtype)
    compare("DivGrad", {"dY": dy, "A": a, "B": b}, {"dA": a, "dB": b}, tolerance=2e-2 if dtype == F16 else None)


@few
@given(shapes, st.sampled_from([None, 0.0, 0.25, 0.6]), st.sampled_from([None, True]), floats, seeds)
def test_dropout_grad(
    shape: tuple[int, ...], ratio: float | None, training: bool | None, dtype: Any, seed: int
) -> None:
    """The kernel does not read training_mode: outside of training it divides by 1 − ratio, though nothing was dropped.

    With a ratio of 0 it does not read the mask either, which is set everywhere then.
    """
    draws = Draws(seed)
    mask = draws.integers(0, 2, *shape).astype(np.bool_) | (ratio == 0)
    feeds = {
        "dY": draws.normal(*shape, dtype=dtype),
        "mask": mask,
        "ratio": None if ratio is None else np.array(ratio, F32),
        "training_mode": None if training is None else np.array(training),
    }
    compare("DropoutGrad", feeds, {"dX": feeds["dY"]}, tolerance=1e-6)


@few
@given(shapes, seeds)
def test_fake_quant_grad(shape: tuple[int, ...], seed: int) -> None:
    draws = Draws(seed)
    dy = draws.normal(*shape)
    compare("FakeQuantGrad", {"dY": dy, "mask": draws.integers(0, 2, *shape).astype(np.bool_)}, {"dX": dy})


@few
@given(
    shapes, st.sampled_from([F16, F32, F64]), st.sampled_from([F16, F32, F64, np.int64, np.int32]), st.booleans(), seeds
)
def test_scale(shape: tuple[int, ...], dtype: Any, kind: Any, down: bool, seed: int) -> None:
    x = Draws(seed).normal(*shape, dtype=dtype)
    # For doubles the kernel has the inverse of the scale in float32.
    tolerance = 1e-6 if dtype == F64 and kind != F16 else None
    compare("Scale", {"X": x, "scale": np.array(3, kind)}, {"Y": x}, tolerance=tolerance, scale_down=int(down))


@few
@given(st.lists(sizes, min_size=0, max_size=2), sizes, sizes, sizes, st.tuples(*[st.booleans()] * 4), seeds)
def test_fused_mat_mul(  # noqa: PLR0917 - what is drawn
    batch: list[int], rows: int, inner: int, columns: int, flags: tuple[bool, bool, bool, bool], seed: int
) -> None:
    """With transBatch the first of the axes of the batch is behind the others of them, next to the matrix."""
    draws = Draws(seed)

    def operand(shape: Sequence[int], *, matrix: bool, moved: bool) -> Array:
        last = [shape[1], shape[0]] if matrix else list(shape)
        return draws.normal(*([last[0], *batch, last[1]] if moved and batch else [*batch, *last]))

    a = operand([rows, inner], matrix=flags[0], moved=flags[2])
    b = operand([inner, columns], matrix=flags[1], moved=flags[3])
    names = ("transA", "transB", "transBatchA", "transBatchB")
    attributes = {
        name: int(flag and (bool(batch) or "Batch" not in name)) for name, flag in zip(names, flags, strict=True)
    }
    y = draws.normal(*batch, rows, columns)
    compare("FusedMatMul", {"A": a, "B": b}, {"Y": y}, alpha=0.5, **attributes)


ACTIVATIONS: dict[str, list[float]] = {
    "Relu": [],
    "Sigmoid": [],
    "Tanh": [],
    "LeakyRelu": [0.2],
    "HardSigmoid": [0.3, 0.4],
}


@pytest.mark.parametrize("name", [*ACTIVATIONS, "Clip"])
@few
@given(windows(), st.integers(1, 2), st.booleans(), seeds)
def test_fused_conv(name: str, drawn: dict[str, Any], group: int, adds: bool, seed: int) -> None:
    draws, parameters = Draws(seed), ACTIVATIONS.get(name, [-0.5, 0.75])
    x, y = draws.normal(2, 2 * group, *drawn["sizes"]), draws.normal(2, 3 * group, *drawn["counts"])
    w = draws.normal(3 * group, 2, *drawn["attributes"]["kernel_shape"])
    feeds = {"X": x, "W": w, "B": draws.normal(3 * group)} | ({"Z": y} if adds else {})
    given_parameters = {"activation_params": parameters} if parameters else {}
    compare("FusedConv", feeds, {"Y": y}, activation=name, group=group, **given_parameters, **drawn["attributes"])


@pytest.mark.parametrize("name", ACTIVATIONS)
@few
@given(sizes, sizes, sizes, st.booleans(), st.booleans(), seeds)
def test_fused_gemm(  # noqa: PLR0917 - what is drawn
    name: str, rows: int, inner: int, columns: int, a_turned: bool, b_turned: bool, seed: int
) -> None:
    draws = Draws(seed)
    a, b = draws.normal(rows, inner), draws.normal(inner, columns)
    feeds = {"A": a.T.copy() if a_turned else a, "B": b.T.copy() if b_turned else b, "C": draws.normal(columns)}
    parameters = dict(zip(("activation_alpha", "activation_beta"), ACTIVATIONS[name], strict=False))
    attributes = {"transA": int(a_turned), "transB": int(b_turned), "alpha": 0.5, "beta": 2.0}
    compare("FusedGemm", feeds, {"Y": draws.normal(rows, columns)}, activation=name, **attributes, **parameters)


@few
@given(st.lists(shapes, min_size=1, max_size=3), seeds)
def test_reduce_all_l2(each: list[tuple[int, ...]], seed: int) -> None:
    draws = Draws(seed)
    feeds = {f"x{number}": draws.normal(*shape) for number, shape in enumerate(each)}
    compare("ReduceAllL2", feeds, {"Y": draws.normal()})


@few
@given(st.one_of(st.just(()), shapes), st.sampled_from([None, False, True]), seeds)
def test_accumulator(shape: tuple[int, ...], flag: bool | None, seed: int) -> None:
    """onnxruntime's writes over the buffer, and returns it as its second output; the definition as its first."""
    draws = Draws(seed)
    feeds = {
        "buffer": draws.normal(*shape),
        "value": draws.normal(*shape),
        "reset": None if flag is None else np.array([flag]),
    }
    given_feeds = {name: array for name, array in feeds.items() if array is not None}
    both = {"updated": np.array([True]), "sum": feeds["buffer"]}
    kernel = run_ort(one_node("InPlaceAccumulatorV2", feeds, both), {k: v.copy() for k, v in given_feeds.items()})
    lowered = standardised(one_node("InPlaceAccumulatorV2", feeds, {"updated": both["updated"]}))
    same(run_ort(lowered, given_feeds)["updated"], kernel["sum"], 0)


# -- losses


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@few
@given(
    st.lists(st.integers(1, 3), min_size=0, max_size=2),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([None, 0, -100]),
    st.booleans(),
    st.sampled_from([np.int64, np.int32]),
    seeds,
)
def test_losses(  # noqa: PLR0917 - what is drawn
    reduction: str,
    spatial: list[int],
    batch: int,
    classes: int,
    ignored: int | None,
    weighted: bool,
    kind: Any,
    seed: int,
) -> None:
    """The loss and both of its gradients. Where all labels are ignored, the mean is 0 / 0."""
    draws = Draws(seed)
    x = draws.normal(batch, classes, *spatial)
    label = draws.integers(0, classes, batch, *spatial).astype(kind)
    if ignored is not None and ignored < 0:
        label.reshape(-1)[: label.size // 2] = ignored
    assume(bool((label != ignored).any()))
    weight = draws.positive(classes) if weighted else None
    y = draws.normal(*(label.shape if reduction == "none" else ()))
    operand = None if ignored is None else np.array(ignored)
    feeds = {"X": x, "label": label, "weight": weight, "ignore_index": operand}
    compare("SoftmaxCrossEntropyLossInternal", feeds, {"Y": y, "log_prob": x}, reduction=reduction)
    log_prob = np.asarray(x - np.log(np.exp(x).sum(1, keepdims=True)), F32)
    feeds = {"dY": y, "log_prob": log_prob, "label": label, "weight": weight}
    attributes = {} if ignored is None else {"ignore_index": ignored}
    compare("SoftmaxCrossEntropyLossGrad", feeds, {"dX": x}, reduction=reduction, **attributes)
    feeds["ignore_index"] = operand
    compare("SoftmaxCrossEntropyLossInternalGrad", feeds, {"dX": x}, reduction=reduction)


@pytest.mark.parametrize("output_type", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_losses_with_another_type_of_results(output_type: int) -> None:
    draws, dtype = Draws(0), helper.tensor_dtype_to_np_dtype(output_type)
    source = F16 if dtype == F32 else F32
    x, label = draws.normal(4, 3, dtype=source), draws.integers(0, 3, 4)
    feeds = {"dY": draws.normal(dtype=source), "log_prob": x, "label": label}
    outputs = {"dX": x.astype(dtype)}
    compare("SoftmaxCrossEntropyLossInternalGrad", feeds, outputs, output_type=output_type)


# -- normalizations


@few
@given(st.lists(st.integers(1, 4), min_size=0, max_size=3), st.integers(2, 4), st.integers(1, 3), seeds)
def test_batch_norm(spatial: list[int], batch: int, channels: int, seed: int) -> None:
    draws = Draws(seed)
    x, each = draws.normal(batch, channels, *spatial), draws.normal(channels)
    feeds = {
        "X": x,
        "scale": draws.positive(channels),
        "B": draws.normal(channels),
        "mean": draws.normal(channels),
        "var": draws.positive(channels),
    }
    names = ("running_mean", "running_var", "saved_mean", "saved_inv_std")
    outputs = {"Y": x, **dict.fromkeys(names, each)}
    # One over the deviation of as few as two values is large: a rounding of the mean counts more than one in Y.
    compare("BatchNormInternal", feeds, outputs, training_mode=1, epsilon=0.01, momentum=0.8, tolerance=1e-4)
    around = tuple(axis for axis in range(x.ndim) if axis != 1)
    inv_std = np.asarray(1 / np.sqrt(x.var(around) + 0.01), F32)
    feeds = {
        "dY": draws.normal(*x.shape),
        "X": x,
        "scale": feeds["scale"],
        "mean": np.asarray(x.mean(around), F32),
        "inv_std": inv_std,
    }
    outputs = {"dX": x, "dscale": each, "dB": each}
    compare("BatchNormalizationGrad", feeds, outputs, epsilon=0.01, tolerance=1e-4)


@few
@given(shapes, st.integers(-4, 3), st.booleans(), halves, seeds)
def test_layer_norm(shape: tuple[int, ...], axis: int, biased: bool, dtype: Any, seed: int) -> None:
    assume(-len(shape) <= axis < len(shape))
    draws, at = Draws(seed), axis % len(shape)
    x, scale = draws.normal(*shape, dtype=dtype), draws.positive(*shape[at:], dtype=dtype)
    lead = draws.normal(*shape[:at], *[1] * (len(shape) - at))
    feeds = {"X": x, "scale": scale} | ({"B": draws.normal(*scale.shape, dtype=dtype)} if biased else {})
    options: dict[str, Any] = {"domain": "", "axis": axis, "epsilon": 0.01}
    compare("LayerNormalization", feeds, {"Y": x, "mean": lead, "inv_std": lead}, **options)
    if dtype == F32:
        feeds = {"X": x, "scale": scale}
        compare("SimplifiedLayerNormalization", feeds, {"Y": x, "inv_std": lead}, **options)


@few
@given(shapes, st.integers(-4, 3), seeds)
def test_layer_norm_grad(shape: tuple[int, ...], axis: int, seed: int) -> None:
    """There are kernels of float32, or of doubles whose statistics are read as float32 though they must be doubles."""
    assume(-len(shape) <= axis < len(shape))
    draws, at = Draws(seed), axis % len(shape)
    assume(np.prod(shape[at:]) != 1)  # which the kernel refuses
    x, dy, scale = draws.normal(*shape), draws.normal(*shape), draws.positive(*shape[at:])
    lead = [*shape[:at], *[1] * (len(shape) - at)]
    mean, inv_std = draws.normal(*lead), draws.positive(*lead)
    outputs = {"dX": x, "dscale": scale, "dB": scale}
    feeds = {"dY": dy, "X": x, "scale": scale, "mean": mean, "inv_std": inv_std}
    compare("LayerNormalizationGrad", feeds, outputs, axis=axis)
    invertible = {"dY": dy, "Y": x, "scale": scale, "B": draws.normal(*scale.shape), "inv_std": inv_std}
    compare("InvertibleLayerNormalizationGrad", invertible, outputs, axis=axis)
    del feeds["mean"], outputs["dB"]
    compare("SimplifiedLayerNormalizationGrad", feeds, outputs, axis=axis)


@pytest.mark.parametrize("dtype", [F16, F64])
def test_layer_norm_grad_of_another_type(dtype: Any) -> None:
    """It has a function body in onnxruntime-training, which is for opset 17 and older."""
    draws = Draws(0)
    x, dy, scale = (
        draws.normal(2, 3, 4, dtype=dtype),
        draws.normal(2, 3, 4, dtype=dtype),
        draws.positive(4, dtype=dtype),
    )
    feeds = {"dY": dy, "X": x, "scale": scale, "mean": draws.normal(2, 3, 1), "inv_std": draws.positive(2, 3, 1)}
    outputs = {"dX": x, "dscale": scale, "dB": scale}
    compare("LayerNormalizationGrad", feeds, outputs, axis=-1, opset=17, tolerance=1e-2 if dtype == F16 else 1e-6)


# -- what moves elements: bit for bit where nothing is added up


@few
@given(shapes, st.integers(-4, 3), st.lists(st.integers(1, 3), min_size=1, max_size=4), seeds)
def test_concat_and_split(shape: tuple[int, ...], axis: int, lengths: list[int], seed: int) -> None:
    assume(-len(shape) <= axis < len(shape))
    draws, at = Draws(seed), axis % len(shape)
    parts = {f"p{n}": draws.normal(*shape[:at], size, *shape[at + 1 :]) for n, size in enumerate(lengths)}
    whole = np.concatenate([*parts.values()], at)
    numbers = np.array(lengths, np.int64)
    compare("ConcatTraining", parts, {"Y": whole, "lengths": numbers}, tolerance=0, axis=axis)
    compare("SplitTraining", {"X": whole, "split": numbers}, parts, tolerance=0, axis=axis)


@few
@given(
    shapes,
    st.integers(-4, 3),
    st.lists(st.integers(1, 3), min_size=0, max_size=3),
    st.sampled_from([F16, F32, F64]),
    seeds,
)
def test_gather_grad(shape: tuple[int, ...], axis: int, places: list[int], dtype: Any, seed: int) -> None:
    """onnxruntime's kernel takes no negative index."""
    assume(-len(shape) <= axis < len(shape))
    draws, at = Draws(seed), axis % len(shape)
    indices = np.asarray(draws.integers(0, shape[at], *places))
    dy = draws.normal(*shape[:at], *indices.shape, *shape[at + 1 :], dtype=dtype)
    feeds = {"shape": np.array(shape, np.int64), "indices": indices, "dY": dy}
    outputs = {"dX": draws.normal(*shape, dtype=dtype)}
    compare("GatherGrad", feeds, outputs, axis=axis, tolerance=2e-2 if dtype == F16 else None)


@few
@given(shapes, st.integers(-4, 3), st.integers(1, 4), seeds)
def test_gather_elements_grad(shape: tuple[int, ...], axis: int, count: int, seed: int) -> None:
    assume(-len(shape) <= axis < len(shape))
    draws, at = Draws(seed), axis % len(shape)
    indices = draws.integers(-shape[at], shape[at], *shape[:at], count, *shape[at + 1 :])
    feeds = {"dY": draws.normal(*indices.shape), "shape": np.array(shape, np.int64), "indices": indices}
    compare("GatherElementsGrad", feeds, {"dX": draws.normal(*shape)}, axis=axis)


@few
@given(shapes, st.integers(1, 4), st.lists(st.integers(1, 3), min_size=1, max_size=2), seeds)
def test_gather_nd_grad(shape: tuple[int, ...], depth: int, places: list[int], seed: int) -> None:
    assume(depth <= len(shape))
    draws = Draws(seed)
    indices = np.stack([draws.integers(-size, size, *places) for size in shape[:depth]], -1)
    dy = draws.normal(*places, *shape[depth:])
    feeds = {"shape": np.array(shape, np.int64), "indices": indices, "dY": dy}
    compare("GatherNDGrad", feeds, {"dX": draws.normal(*shape)})


@few
@given(shapes, st.data(), st.sampled_from([np.int64, np.int32]), seeds)
def test_slice_grad(shape: tuple[int, ...], data: st.DataObject, kind: Any, seed: int) -> None:
    """The kernel takes no negative step."""
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    cuts, read = [], [slice(None)] * len(shape)
    for axis in axes:
        size = shape[axis]
        start = data.draw(st.integers(0, size - 1))
        end = data.draw(st.integers(start + 1, size + 2))
        end = end - size if end < size and data.draw(st.booleans()) else end
        cuts.append((start - size if data.draw(st.booleans()) else start, end, data.draw(st.integers(1, 3))))
        read[axis] = slice(*cuts[-1])
    draws = Draws(seed)
    x = draws.normal(*shape)
    dy = draws.normal(*x[tuple(read)].shape)
    columns = [np.array(column, kind) for column in zip(*cuts, strict=True)]
    feeds = {
        "dY": dy,
        "shape": np.array(shape, np.int64),
        "starts": columns[0],
        "ends": columns[1],
        "axes": np.array(axes, kind),
        "steps": columns[2],
    }
    constants = ["shape", "starts", "ends", "axes", "steps"]
    compare("SliceGrad", feeds, {"dX": x}, tolerance=0, constants=constants)


@few
@given(shapes, st.integers(-4, 3), st.lists(st.integers(0, 0), min_size=1, max_size=3), seeds)
def test_shrunken_gather(shape: tuple[int, ...], axis: int, places: list[int], seed: int) -> None:
    assume(-len(shape) <= axis < len(shape))
    draws, at = Draws(seed), axis % len(shape)
    indices = draws.integers(0, shape[at], min(len(places), shape[at]))
    x = draws.normal(*shape)
    feeds = {"X": x, "indices": indices}
    compare("ShrunkenGather", feeds, {"Y": np.take(x, indices, at)}, tolerance=0, axis=axis)


@few
@given(sizes, sizes, st.integers(-3, 3), st.booleans(), seeds)
def test_trilu(rows: int, columns: int, k: int, upper: bool, seed: int) -> None:
    x = Draws(seed).normal(2, rows, columns)
    compare("Trilu", {"X": x, "k": np.array(k)}, {"Y": x}, tolerance=0, upper=int(upper))


@few
@given(shapes, st.data(), st.booleans(), st.booleans(), st.booleans(), seeds)
def test_reduce_sum_training(  # noqa: PLR0917 - what is drawn
    shape: tuple[int, ...], data: st.DataObject, keep: bool, noop: bool, known: bool, seed: int
) -> None:
    x = Draws(seed).normal(*shape)
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    along = tuple(axes) if axes or noop else tuple(range(len(shape)))
    y = x.sum(along, keepdims=keep) if along else x
    feeds = {"X": x, "axes": np.array(axes, np.int64)}
    options = {"keepdims": int(keep), "noop_with_empty_axes": int(noop), "constants": ["axes"] if known else []}
    compare("ReduceSumTraining", feeds, {"Y": np.asarray(y)}, **options)


# -- recurrent networks


@few
@given(
    st.tuples(st.integers(1, 5), *[st.integers(1, 4)] * 3),
    st.booleans(),
    st.tuples(*[st.booleans()] * 5),
    seeds,
)
def test_gru(shape: tuple[int, int, int, int], after: bool, has: tuple[bool, ...], seed: int) -> None:
    feeds, grads, states = recurrent(shape, 3, has, seed)
    attributes = {"hidden_size": shape[3], "linear_before_reset": int(after)}
    outputs = {name: states[name] for name in ("HAll", "HFinal", "gates")}
    compare("GRUTraining", feeds, outputs, **attributes)
    operands = feeds | {"HAll": states["HAll"], "gates": states["gates"]} | grads
    results = {f"d{name}": states[name] for name in ("X", "W", "R", "B", "H0")}
    compare("GRUGrad", operands, results, **attributes)


@few
@given(st.tuples(st.integers(1, 5), *[st.integers(1, 4)] * 3), st.tuples(*[st.booleans()] * 5), seeds)
def test_lstm(shape: tuple[int, int, int, int], has: tuple[bool, ...], seed: int) -> None:
    feeds, grads, states = recurrent(shape, 4, has, seed)
    feeds["C0"] = states["C0"] if has[1] else None
    grads["dCFinal"] = states["CFinal"] if has[4] else None
    outputs = {name: states[name] for name in ("HAll", "HFinal", "CFinal", "CAll", "gates")}
    compare("LSTMTraining", feeds, outputs, hidden_size=shape[3])
    saved = {name: states[name] for name in ("HAll", "CAll", "gates")}
    operands = {name: feeds[name] for name in feeds if name != "B"} | saved | grads
    results = {f"d{name}": states[name] for name in ("X", "W", "R", "B", "H0", "C0")}
    compare("LSTMGrad", operands, results, hidden_size=shape[3])


def recurrent(
    shape: tuple[int, int, int, int], gates: int, has: tuple[bool, ...], seed: int
) -> tuple[dict[str, Array | None], dict[str, Array | None], dict[str, Array]]:
    """Random operands, gradients of results, and all values, of S steps, a batch of N, I inputs and states of H.

    `has`: whether there are a bias, first states, and gradients of all states, of the last one and of the last cell.
    """
    steps, batch, inputs, hidden = shape
    width, draws = gates * hidden, Draws(seed)
    shapes = {
        "X": (steps, batch, inputs),
        "W": (1, width, inputs),
        "R": (1, width, hidden),
        "B": (1, 2 * width),
        **dict.fromkeys(("H0", "C0", "HFinal", "CFinal"), (1, batch, hidden)),
        **dict.fromkeys(("HAll", "CAll"), (steps, 1, batch, hidden)),
        "gates": (steps, 1, batch, width),
    }
    values = {name: draws.normal(*sizes) / 2 for name, sizes in shapes.items()}
    absent = {"B": has[0], "sequence_lengths": False, "H0": has[1]}
    feeds = {name: values[name] if absent.get(name, True) else None for name in ("X", "W", "R", *absent)}
    grads = {"dHAll": values["HAll"] if has[2] else None, "dHFinal": values["HFinal"] if has[3] else None}
    return feeds, grads, values
