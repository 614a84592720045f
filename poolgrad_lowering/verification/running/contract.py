# SPDX-License-Identifier: Apache-2.0

"""Checks the contract between the attributes and the operands of a dialect node (`docs/dialect.md`).

A function body ignores Ascend's attributes, but a kernel can rely on all of them: they determine the sizes of `grad`
from those of x, and every position in `argmax` is in its window. A pool's body uses ONNX's window attributes, which
must agree with Ascend's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from poolgrad_lowering.dialect.body_windows import window_difference
from poolgrad_lowering.dialect.inference import window_flaw
from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.graph import roles
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.protos import attribute_values
from poolgrad_lowering.verification.operators.pool import adaptive_windows, average_gradient, fixed_windows
from poolgrad_lowering.verification.running.averages import meant_by
from poolgrad_lowering.verification.running.compare import compare

_ASCEND_TYPES = {3: np.dtype(np.int32), 9: np.dtype(np.int64)}


def check_gradient_contract(node: FlatNode, operands: Sequence[AnyArray]) -> str | None:
    """Return a text on the first violation by the operands x, grad and argmax of a gradient, or None."""
    if len(operands) != 3:
        return f"it has {len(operands)} inputs instead of x, grad and argmax"
    x, grad, argmax = operands
    if grad.shape != argmax.shape:
        return f"grad has shape {grad.shape}, argmax has shape {argmax.shape}"
    if grad.dtype != x.dtype:
        return f"grad has type {grad.dtype}, x has type {x.dtype}"
    return _check_windows(attribute_values(node.proto), x.shape[2:], argmax, pooled=False)


def check_average_contract(
    node: FlatNode, operands: Sequence[AnyArray], result: AnyArray, *, exact: bool
) -> str | None:
    """Return a text on the first violation by the operands of the gradient of an average pool, or None.

    The result is that of the function body; with `exact`, it has the bits that Ascend's attributes give.
    """
    grad = operands[node.inputs.index(roles.incoming_gradient(node) or "")]
    others = [operand for operand in operands if operand is not grad]
    attributes = attribute_values(node.proto)
    if others and "ksize" not in attributes and others[0].dtype != grad.dtype:
        return f"the gradient has type {grad.dtype}, x has type {others[0].dtype}"
    if "ksize" in attributes and (others[0].dtype.name, others[0].ndim) != ("int32", 1):
        return f"orig_input_shape has type {others[0].dtype} and rank {others[0].ndim}"
    try:
        shape, windows = meant_by(node, operands)
        if "ksize" in attributes and (flaw := window_flaw(attributes)) is not None:
            return flaw
        with np.errstate(all="ignore"):
            meant = average_gradient(shape[2:], grad, windows)
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
        return f"the attributes do not fit x: {error}"
    if exact and (different := compare(meant, result, run=0, output="")) is not None:
        return f"the function body computes something else than the attributes say: {different.what}"
    return None


def check_pool_contract(node: FlatNode, x: AnyArray, argmax: AnyArray) -> str | None:
    """Return a text on the first contradiction between a pool's attributes, its x and its body's argmax, or None."""
    return _check_windows(attribute_values(node.proto), x.shape[2:], argmax, pooled=True)


def _check_windows(
    attributes: Mapping[str, Any], sizes: Sequence[int], argmax: AnyArray, *, pooled: bool
) -> str | None:
    """Return a text on what is wrong with the argmax and the windows of a pool (`pooled`) or gradient, or None."""
    counts = argmax.shape[2:]
    number = attributes.get("dtype", attributes.get("indices_dtype", 0 if pooled else None))  # a pool has to name it
    if number is not None and argmax.dtype != _ASCEND_TYPES.get(number):
        return f"argmax has type {argmax.dtype}, which is not Ascend's type number {number}"
    try:
        if pooled and "ksize" in attributes and (difference := window_difference(attributes)) is not None:
            return f"the window attributes contradict each other: {difference}"
        windows = _windows(attributes, sizes, counts)
    except (KeyError, IndexError, ValueError, ZeroDivisionError) as error:
        return f"the attributes do not fit x: {error}"
    expected = tuple(map(len, windows))
    if expected != counts:
        return f"the attributes give {expected} windows, {'argmax' if pooled else 'grad'} has {counts}"
    return _outside(windows, sizes, argmax)


def _windows(attributes: Mapping[str, Any], sizes: Sequence[int], counts: Sequence[int]) -> list[list[slice]]:
    """Return the elements in the windows of each spatial axis of x; of further leading axes, each is one window."""
    if "ksize" not in attributes:
        return [adaptive_windows(size, count) for size, count in zip(sizes, counts, strict=True)]
    lists = [attributes[name] for name in ("ksize", "strides", "pads", "dilation")]
    missing = len(lists[0]) - len(sizes)
    axes = list(zip(*lists, strict=True))
    if any(axis != (1, 1, 0, 1) for axis in axes[:missing]):
        raise ValueError("they pool an axis that x does not have")
    for kernel, _, pad, _ in axes[missing:]:
        if 2 * pad > kernel:
            raise ValueError(f"padding {pad} is more than half of kernel {kernel}")
    return [
        fixed_windows(size, kernel, stride, dilation, (pad, pad), ceil=bool(attributes.get("ceil_mode", 0)))
        for size, (kernel, stride, pad, dilation) in zip(sizes, axes[missing:], strict=True)
    ]


def _outside(windows: Sequence[Sequence[slice]], sizes: Sequence[int], argmax: AnyArray) -> str | None:
    """Return a text on the first position that is outside of its window, or None."""
    wide = argmax.astype(np.int64)
    bad = (wide < 0) | (wide >= math.prod(sizes))
    for axis, along in enumerate(windows):
        bounds = np.array([(span.start, span.stop, span.step or 1) for span in along], np.int64)
        first, end, step = bounds.T.reshape(3, -1, *[1] * (len(sizes) - axis - 1))
        place = wide // math.prod(sizes[axis + 1 :]) % sizes[axis]
        bad |= (place < first) | (place >= end) | ((place - first) % step != 0)
    if not bad.any():
        return None
    index = tuple(int(number) for number in np.argwhere(bad)[0])
    return f"argmax at {list(index)} is {argmax[index]}, which is outside of the window that the attributes give"
