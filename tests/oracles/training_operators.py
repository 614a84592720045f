# SPDX-License-Identifier: Apache-2.0

"""The operators of training runtimes from their mathematical definitions, in float64: loops over windows and indices.

Each function takes what its operator takes, in the operator's order, and returns one array or a tuple.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from onnx import helper

from tests.oracles.pooling import Array, least_padding
from tests.oracles.running import run_ort


def broadcast_axes(a: Sequence[int], b: Sequence[int]) -> tuple[Array, Array]:
    """The axes of the common shape of two operands on which each of them is repeated."""
    common = np.broadcast_shapes(tuple(a), tuple(b))
    found = []
    for shape in (a, b):
        padded = [None] * (len(common) - len(shape)) + list(shape)
        axes = [axis for axis, (own, size) in enumerate(zip(padded, common, strict=True)) if own != size]
        found.append(np.array(axes, np.int64))
    return found[0], found[1]


def place_of(*parts: Any) -> tuple[Any, ...]:
    """An index into an array out of its parts."""
    return parts


# -- windows


def _spans(  # noqa: PLR0917 - a row of lists by axis
    count: int, kernel: int, stride: int, begin: int, dilation: int, size: int
) -> list[list[int | None]]:
    """The positions in x of each tap of each window of an axis; None where a tap lies in the padding."""
    spans = []
    for window in range(count):
        taps = [window * stride - begin + tap * dilation for tap in range(kernel)]
        spans.append([at if 0 <= at < size else None for at in taps])
    return spans


def _meetings(  # noqa: PLR0917 - lists by axis
    sizes: Sequence[int],
    counts: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    begins: Sequence[int],
    dilations: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Yield (window, tap, position in x) of every tap that lies in x."""
    axes = [_spans(*row) for row in zip(counts, kernel, strides, begins, dilations, sizes, strict=True)]
    for window in itertools.product(*map(range, counts)):
        for tap in itertools.product(*map(range, kernel)):
            at = [axes[axis][window[axis]][tap[axis]] for axis in range(len(sizes))]
            if None not in at:
                yield window, tap, tuple(position for position in at if position is not None)


def _products(
    meetings: Iterable[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]], group: int, inputs: int, results: int
) -> Iterator[tuple[slice, slice, tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Yield (channels of x, channels of y, window, tap, position) of every meeting and group."""
    for window, tap, at in meetings:
        for number in range(group):
            own = slice(number * inputs, (number + 1) * inputs)
            yield own, slice(number * results, (number + 1) * results), window, tap, at


def conv_begins(sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], auto_pad: str) -> list[int]:
    """The padding before the first element of each axis for an `auto_pad`, without dilations."""
    if auto_pad == "VALID":
        return [0] * len(kernel)
    totals = [least_padding(*row) for row in zip(sizes, kernel, strides, strict=True)]
    return [total // 2 if auto_pad == "SAME_UPPER" else total - total // 2 for total in totals]


def conv(
    x: Array,
    w: Array,
    *,
    strides: Sequence[int],
    begins: Sequence[int],
    counts: Sequence[int],
    dilations: Sequence[int] | None = None,
    group: int = 1,
) -> Array:
    """Y = Conv(X, W) with `counts` windows on each axis."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    y = np.zeros((x.shape[0], w.shape[0], *counts))
    inputs, results = w.shape[1], w.shape[0] // group
    meetings = _meetings(x.shape[2:], counts, w.shape[2:], strides, begins, dilations or [1] * len(counts))
    for own, made, window, tap, at in _products(meetings, group, inputs, results):
        y[place_of(slice(None), made, *window)] += (
            x[place_of(slice(None), own, *at)] @ w[place_of(made, slice(None), *tap)].T
        )
    return y


def conv_grad(
    dy: Array,
    x: Array,
    w: Array,
    *,
    strides: Sequence[int],
    begins: Sequence[int],
    dilations: Sequence[int],
    group: int = 1,
) -> tuple[Array, Array, Array]:
    """(dX, dW, dB) of Y = Conv(X, W, B): each window gives dY by the weight to x, and dY by x to the weight."""
    dy, x, w = (array.astype(np.float64) for array in (dy, x, w))
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    inputs, results = x.shape[1] // group, w.shape[0] // group
    sizes, counts, kernel = x.shape[2:], dy.shape[2:], w.shape[2:]
    meetings = _meetings(sizes, counts, kernel, strides, begins, dilations)
    for own, made, window, tap, at in _products(meetings, group, inputs, results):
        gradient = dy[place_of(slice(None), made, *window)]
        dx[place_of(slice(None), own, *at)] += gradient @ w[place_of(made, slice(None), *tap)]
        dw[place_of(made, slice(None), *tap)] += gradient.T @ x[place_of(slice(None), own, *at)]
    return dx, dw, dy.sum(axis=(0, *range(2, dy.ndim)))


def conv_transpose_grad(dy: Array, x: Array, w: Array, **windows: Any) -> tuple[Array, Array, Array]:
    """(dX, dW, dB) of Y = ConvTranspose(X, W, B), which is the gradient of a convolution of Y by W to X.

    `windows` are strides, begins, dilations and group.
    """
    dx = conv(dy, w, counts=x.shape[2:], **windows)
    _, dw, _ = conv_grad(x, dy, w, **windows)
    return dx, dw, dy.astype(np.float64).sum(axis=(0, *range(2, dy.ndim)))


def average_pool_grad(
    dy: Array,
    x_shape: Sequence[int],
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    begins: Sequence[int],
    ends: Sequence[int],
    counts_padding: bool,
    dilations: Sequence[int] | None = None,
    divisor: int | None = None,
) -> Array:
    """Return dX: each window gives dY to its elements, divided by their number.

    With `counts_padding` it is divided by the number of its taps in x and in the padding.
    """
    sizes, rank = x_shape[2:], len(kernel)
    dilations = dilations or [1] * rank
    dx = np.zeros(tuple(x_shape))
    for window in itertools.product(*map(range, dy.shape[2:])):
        taken, counted = [], []
        for tap in itertools.product(*map(range, kernel)):
            at = tuple(window[a] * strides[a] - begins[a] + tap[a] * dilations[a] for a in range(rank))
            if all(0 <= position < size for position, size in zip(at, sizes, strict=True)):
                taken.append(at)
            if all(position < size + end for position, size, end in zip(at, sizes, ends, strict=True)):
                counted.append(at)
        share = divisor or len(counted if counts_padding else taken)
        for at in taken:
            dx[place_of(..., *at)] += dy[place_of(..., *window)].astype(np.float64) / share
    return dx


def average_pool(x: Array, x_windows: Sequence[Sequence[range]]) -> Array:
    """The mean over each window, which is a range on each axis."""
    counts = [len(windows) for windows in x_windows]
    y = np.empty((*x.shape[:2], *counts))
    for place in itertools.product(*map(range, counts)):
        box = [list(windows[number]) for windows, number in zip(x_windows, place, strict=True)]
        y[place_of(..., *place)] = x.astype(np.float64)[place_of(..., *np.ix_(*box))].mean(axis=tuple(range(2, x.ndim)))
    return y


def average_windows_grad(dy: Array, x_shape: Sequence[int], x_windows: Sequence[Sequence[range]]) -> Array:
    """The gradient of `average_pool`."""
    dx = np.zeros(tuple(x_shape))
    for place in itertools.product(*map(range, dy.shape[2:])):
        box = list(itertools.product(*(windows[number] for windows, number in zip(x_windows, place, strict=True))))
        for at in box:
            dx[place_of(..., *at)] += dy[place_of(..., *place)] / len(box)
    return dx


# -- activations


def normal_distribution(x: Array) -> Array:
    """Φ(x), by the error function."""
    return np.vectorize(lambda value: (1 + math.erf(value / math.sqrt(2))) / 2, otypes=[np.float64])(x)


def gelu(x: Array) -> Array:
    """x · Φ(x)."""
    return x * normal_distribution(x)


def gelu_grad(dy: Array, x: Array) -> Array:
    """dY · (Φ(x) + x · Φ'(x))."""
    x = x.astype(np.float64)
    return dy * (normal_distribution(x) + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))


def fast_gelu(x: Array) -> Array:
    """x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) / 2."""
    x = x.astype(np.float64)
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def fast_gelu_grad(dy: Array, x: Array) -> Array:
    """dY by the derivative of `fast_gelu`."""
    x = x.astype(np.float64)
    root = math.sqrt(2 / math.pi)
    tanh = np.tanh(root * (x + 0.044715 * x**3))
    return dy * ((1 + tanh) / 2 + x / 2 * (1 - tanh**2) * root * (1 + 3 * 0.044715 * x**2))


def quick_gelu(x: Array, alpha: float) -> Array:
    """x / (1 + exp(−alpha · x))."""
    return x / (1 + np.exp(-alpha * x.astype(np.float64)))


def quick_gelu_grad(dy: Array, x: Array, alpha: float) -> Array:
    """dY by the derivative of `quick_gelu`."""
    gate = 1 / (1 + np.exp(-alpha * x.astype(np.float64)))
    return dy * (gate + alpha * x * gate * (1 - gate))


def softmax_grad(dy: Array, y: Array, axes: tuple[int, ...]) -> Array:
    """(dY − Σ dY · Y) · Y."""
    dy, y = dy.astype(np.float64), y.astype(np.float64)
    return (dy - (dy * y).sum(axes, keepdims=True)) * y


def log_softmax_grad(dy: Array, y: Array, axes: tuple[int, ...]) -> Array:
    """dY − exp(Y) · Σ dY."""
    dy, y = dy.astype(np.float64), y.astype(np.float64)
    return dy - np.exp(y) * dy.sum(axes, keepdims=True)


def div_grad(dy: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """(dA, dB) of A / B: the sums over all places in which an element was read."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    da, db = np.zeros_like(a), np.zeros_like(b)
    a_at, b_at = (
        np.broadcast_to(np.arange(operand.size).reshape(operand.shape), dy.shape).reshape(-1) for operand in (a, b)
    )
    for gradient, p, q in zip(dy.astype(np.float64).reshape(-1), a_at, b_at, strict=True):
        da.reshape(-1)[p] += gradient / b.reshape(-1)[q]
        db.reshape(-1)[q] -= gradient * a.reshape(-1)[p] / b.reshape(-1)[q] ** 2
    return da, db


# -- losses


def log_softmax(x: Array, axis: int = 1) -> Array:
    """X − log Σ exp X."""
    x = x.astype(np.float64)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def loss_weights(label: Array, weight: Array | None, ignored: int | None) -> Array:
    """The weight of each label: that of its class, 0 if the label is ignored."""
    weights = np.zeros(label.shape)
    for place, number in np.ndenumerate(label):
        if number != ignored:
            weights[place] = 1 if weight is None else weight[number]
    return weights


def loss(
    x: Array, label: Array, weight: Array | None = None, ignored: int | None = None, reduction: str = "mean"
) -> tuple[Array, Array]:
    """The cross entropy of scores with classes on axis 1, and their logarithmic softmax. A mean over no label is 0."""
    log_prob, weights = log_softmax(x), loss_weights(label, weight, ignored)
    losses = np.zeros(label.shape)
    for (batch, *place), number in np.ndenumerate(label):
        if number != ignored:
            losses[place_of(batch, *place)] = (
                -log_prob[place_of(batch, number, *place)] * weights[place_of(batch, *place)]
            )
    reduced = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / (weights.sum() or 1)}
    return np.asarray(reduced[reduction]), log_prob


def loss_grad(  # noqa: PLR0917 - as the operator has them
    dy: Array,
    log_prob: Array,
    label: Array,
    weight: Array | None = None,
    ignored: int | None = None,
    reduction: str = "mean",
) -> Array:
    """The gradient of `loss` by the scores."""
    weights = loss_weights(label, weight, ignored)
    dx = np.zeros(log_prob.shape)
    for (batch, *place), number in np.ndenumerate(label):
        column = np.exp(log_prob[place_of(batch, slice(None), *place)].astype(np.float64))
        if number == ignored:
            continue
        column[number] -= 1
        unit = dy[place_of(batch, *place)] if reduction == "none" else dy
        dx[place_of(batch, slice(None), *place)] = column * unit * weights[place_of(batch, *place)]
    return dx / (weights.sum() or 1) if reduction == "mean" else dx


# -- normalizations


def batch_norm(
    x: Array, scale: Array, b: Array, mean: Array, var: Array, *, epsilon: float, momentum: float
) -> tuple[Array, ...]:
    """(Y, running mean, running variance, mean, 1 / standard deviation), channel by channel."""
    y, results = np.empty(x.shape), np.empty((4, x.shape[1]))
    for channel in range(x.shape[1]):
        values = x[:, channel].astype(np.float64)
        centre, variance = values.mean(), values.var()
        inverse = 1 / math.sqrt(variance + epsilon)
        y[:, channel] = (values - centre) * inverse * scale[channel] + b[channel]
        results[:, channel] = (
            momentum * mean[channel] + (1 - momentum) * centre,
            momentum * var[channel] + (1 - momentum) * variance,
            centre,
            inverse,
        )
    return y, *results


def batch_norm_grad(dy: Array, x: Array, scale: Array, mean: Array, inv_std: Array) -> tuple[Array, Array, Array]:
    """(dX, dscale, dB), channel by channel."""
    dx, sums = np.empty(x.shape), np.empty((2, x.shape[1]))
    for channel in range(x.shape[1]):
        gradient = dy[:, channel].astype(np.float64)
        normal = (x[:, channel].astype(np.float64) - mean[channel]) * inv_std[channel]
        sums[:, channel] = (gradient * normal).sum(), gradient.sum()
        rest = gradient - (sums[1, channel] + normal * sums[0, channel]) / gradient.size
        dx[:, channel] = rest * scale[channel] * inv_std[channel]
    return dx, sums[0], sums[1]


def layer_norm(
    x: Array, scale: Array, b: Array | None, *, axis: int, epsilon: float, centred: bool = True
) -> tuple[Array, Array, Array]:
    """(Y, mean, 1 / standard deviation), row by row; not `centred`, around 0."""
    lead, rest = x.shape[:axis], x.shape[axis:]
    y, means, inverses = np.empty(x.shape), np.empty(lead), np.empty(lead)
    for row in np.ndindex(lead):
        values = x[row].astype(np.float64)
        means[row] = values.mean() if centred else 0
        inverses[row] = 1 / math.sqrt(((values - means[row]) ** 2).mean() + epsilon)
        y[row] = (values - means[row]) * inverses[row] * scale + (0 if b is None else b)
    ones = (*lead, *[1] * len(rest))
    return y, means.reshape(ones), inverses.reshape(ones)


def layer_norm_grad(
    dy: Array, x: Array, scale: Array, mean: Array | None, inv_std: Array, *, axis: int
) -> tuple[Array, Array, Array]:
    """(dX, dscale, dB), row by row; without a mean, of a normalization around 0."""
    dx, dscale, db = np.empty(x.shape), np.zeros(scale.shape), np.zeros(scale.shape)
    for row in np.ndindex(x.shape[:axis]):
        inverse = float(inv_std[row].reshape(()))
        gradient = dy[row].astype(np.float64)
        normal = (x[row].astype(np.float64) - (0.0 if mean is None else float(mean[row].reshape(())))) * inverse
        dscale += gradient * normal
        db += gradient
        scaled = gradient * scale
        centre = 0.0 if mean is None else scaled.mean()
        dx[row] = inverse * (scaled - centre - normal * (scaled * normal).mean())
    return dx, dscale, db


# -- what moves elements


def gather_grad(shape: Sequence[int], indices: Array, dy: Array, axis: int) -> Array:
    """Zeros onto which every slice of dY is added at its index."""
    dx = np.zeros(tuple(shape))
    lead = (slice(None),) * axis
    for place in np.ndindex(indices.shape):
        dx[place_of(*lead, indices[place])] += dy[place_of(*lead, *place)]
    return dx


def gather_elements_grad(dy: Array, shape: Sequence[int], indices: Array, axis: int) -> Array:
    """Zeros onto which every element of dY is added at its index on an axis."""
    dx = np.zeros(tuple(shape))
    for place, index in np.ndenumerate(indices):
        at = list(place)
        at[axis] = int(index)
        dx[tuple(at)] += dy[place]
    return dx


def gather_nd_grad(shape: Sequence[int], indices: Array, dy: Array) -> Array:
    """Zeros onto which every slice of dY is added at its tuple of indices."""
    dx = np.zeros(tuple(shape))
    for place in np.ndindex(indices.shape[:-1]):
        dx[tuple(indices[place].tolist())] += dy[place]
    return dx


def slice_grad(dy: Array, shape: Sequence[int], cuts: dict[int, slice]) -> Array:
    """Zeros with dY where the slice read: numpy clamps bounds as ONNX does."""
    dx = np.zeros(tuple(shape), dy.dtype)
    dx[tuple(cuts.get(axis, slice(None)) for axis in range(len(shape)))] = dy
    return dx


def resize_grad(dy: Array, sizes: Sequence[int], scales: Sequence[float], **attributes: Any) -> Array:
    """dY by the matrix on each axis that onnxruntime makes of the unit matrix by a Resize of 2-D images.

    Along one axis, some of its modes have other roundings of the last element.
    """
    found = dy.astype(np.float64)
    for axis, (size, scale) in enumerate(zip(sizes, scales, strict=True), 2):
        node = helper.make_node("Resize", ["x", "", "scales"], ["y"], **attributes)
        unit = np.eye(size, dtype=np.float32)[:, None, None]
        feeds = {"x": unit, "scales": np.array([1, 1, 1, scale], np.float32)}
        inputs = [helper.make_tensor_value_info(name, 1, array.shape) for name, array in feeds.items()]
        graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        matrix = run_ort(model, feeds)["y"][:, 0, 0].astype(np.float64).T
        terms = np.where(matrix != 0, np.moveaxis(found, axis, -1)[..., None] * matrix, 0)
        found = np.moveaxis(terms.sum(-2), -1, axis)
    return found


def pad_and_unflatten(x: Array, indices: Array, dims: Sequence[int]) -> Array:
    """Zeros with the rows of X at the indices, of which the first axis is then two."""
    rows = np.zeros((math.prod(dims), *x.shape[1:]), x.dtype)
    for number, index in enumerate(indices):
        rows[index] = x[number]
    return rows.reshape(*dims, *x.shape[1:])


def reduce_all_l2(*arrays: Array) -> Array:
    """The root of the sum of all squares."""
    return np.asarray(math.sqrt(sum(float((array.astype(np.float64) ** 2).sum()) for array in arrays)))


def as_given(expected: Any) -> tuple[Array, ...]:
    """One array or some, as a tuple."""
    return tuple(expected) if isinstance(expected, tuple) else (expected,)
