# SPDX-License-Identifier: Apache-2.0

"""Pools, recurrent networks and more with random operands and attributes, by kernels of onnxruntime-training.

Where that build has no kernel, gradients are torch's. The definitions' own tests run on the kernels where they are, in
`tests/poolgrad_lowering/standard/operator_definitions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.oracles import run_ort
from tests.poolgrad_lowering.standard.standard_models import TOLERANCES, Array, one_node, standardised

pytestmark = pytest.mark.training

F32, F64 = np.float32, np.float64
few = settings(derandomize=True, max_examples=25, deadline=None, database=None)
seeds = st.integers(0, 2**16)


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
