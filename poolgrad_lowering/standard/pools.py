# SPDX-License-Identifier: Apache-2.0

"""Gradients of pools: of average pools, and of the max pools that no target has an operator for."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import TensorProto, helper

from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.facts.aten_pools import pool_windows
from poolgrad_lowering.model.facts.training_operators import forward_pools
from poolgrad_lowering.model.ir.attributes import attribute
from poolgrad_lowering.model.ir.bodies import Tensor, zeros
from poolgrad_lowering.model.ir.dims import is_static
from poolgrad_lowering.model.ir.producers import ATEN_DOMAIN, ATEN_GENERIC
from poolgrad_lowering.model.windows import MeanWindows, PoolAttributes, adaptive_bounds
from poolgrad_lowering.standard.definition import Call, defines


@defines(
    "AveragePoolGrad",
    "each element of dY, divided by the number of elements that its window counts, on every element of the window",
    domain="",
)
def _average_pool_grad(call: Call) -> Tensor:
    """The sizes of X are those of the forward pool, which is found by its name or by its attributes."""
    pool = PoolAttributes.read(call.node)
    pools = forward_pools(call.facts, call.node)
    x = pools[0].input(0) if pools else None
    if pool is None or pool.has_ambiguous_pads:
        raise call.refuse("attributes that are not those of an average pool")
    shape = call.facts.shape(x)
    if x is None or shape is None:
        raise Refuse(DefinitionCode.UNKNOWN_SIZES, "the sizes of its pool's input are not known")
    if len(shape) != 2 + len(pool.kernel):
        raise call.refuse(f"a kernel of {len(pool.kernel)} axes for '{x.name}' of {len(shape)}")
    sizes = [dim.static for dim in shape[1:]]
    channels, *spatial = [size for size in sizes if size is not None]
    windows = [window for axis, size in enumerate(shape[2:]) if (window := pool.axis(axis, size)) is not None]
    if None in sizes or len(windows) < len(spatial):
        raise Refuse(DefinitionCode.UNKNOWN_SIZES, "the sizes of '{}' are not known", x.name)
    counts = [window.output_size(size, ceil=pool.ceil) for window, size in zip(windows, spatial, strict=True)]
    of_gradient = call.facts.shape(call.operand("dY"))
    given = counts if of_gradient is None else [dim.static for dim in of_gradient[2:]]
    if len(given) != len(counts) or any(size not in (None, count) for size, count in zip(given, counts, strict=True)):
        raise Refuse(DefinitionCode.UNKNOWN_SIZES, "the pool of '{}' is not its pool, by the sizes of dY", x.name)
    padded = bool(call.attribute("count_include_pad", 0))
    return _spread(call, "dY", channels, MeanWindows(windows, spatial, counts, padded))


def _spread(call: Call, source: str, channels: int, pool: MeanWindows) -> Tensor:
    """Each element of a gradient over its divisor, on every element of its window.

    The windows end at the last element that one reaches, or at the end of the input.
    """
    kernel, strides, begins, _, dilations = map(list[int], zip(*pool.windows, strict=True))
    for count in (math.prod(pool.counts), channels * math.prod(kernel), sum(map(operator.mul, kernel, pool.counts))):
        call.require_few(count)  # divisors, and a weight of ones
    dy = call.typed(source)
    dtype = helper.tensor_dtype_to_np_dtype(dy.element_type)
    ends, divisors = pool.overhangs(), np.asarray(pool.divisors(), np.float32).astype(dtype)
    mean = dy / (divisors[None, None] if divisors.ndim else divisors)
    return mean.op(
        "ConvTranspose",
        np.ones([channels, 1, *kernel], dtype),
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        group=channels,
        pads=begins + [max(end, 0) for end in ends],
        output_padding=[max(-end, 0) for end in ends],
    )


@defines("MaxPoolGrad", "dY added onto zeros at the Indices", domain="")
def _max_pool_grad(call: Call) -> Tensor:
    """dY added onto zeros at the Indices, which number all elements of X."""
    if len(call.node.inputs) != 2:
        raise call.refuse("operands that are not those of onnxruntime's MaxPoolGrad")
    indices = call.operand("Indices")
    pool = None if indices is None else indices.producer
    given = pool.input(0) if pool is not None and pool.is_a("MaxPool") else None
    if given is None:
        raise call.refuse("Indices that are not those of a MaxPool")
    x, kind = call.value(given), call.element_type("dY")
    wide = kind if kind == TensorProto.DOUBLE else TensorProto.FLOAT
    shape = x.op("Shape")
    flat_zeros = zeros(x.op("Size").reshape([1]), wide)
    terms = call.converted("dY", wide).reshape([-1])
    positions = call.tensor("Indices").reshape([-1])
    sums = flat_zeros.op("ScatterElements", positions, terms, axis=0, reduction="add")
    return sums.op("Reshape", shape).cast(kind)


@defines(ATEN_GENERIC, "average pools and maxima along an axis of PyTorch, forward and backward", domain=ATEN_DOMAIN)
def _aten(call: Call) -> Mapping[str, Tensor] | Tensor:
    name = call.attribute("operator", "")
    if name not in _ATEN_BODIES:
        raise Refuse(DefinitionCode.ATEN_FUNCTION, "aten::{}", name)
    return _ATEN_BODIES[name](call)


def _mean_windows(call: Call, x: str, first: int) -> MeanWindows:
    """Return the windows of an average pool of ATen, whose arguments are the operands from `first` on."""
    sizes = call.sizes(x, 2)
    found = pool_windows(call.facts, call.node, call.operand(x), first, len(sizes), dilated=False)
    pool = None if found is None else found.attributes
    if not isinstance(pool, PoolAttributes):
        raise call.refuse("operands that are not those of an average pool")
    counts = [window.output_size(size, ceil=pool.ceil) for window, size in zip(pool.windows, sizes, strict=True)]
    padded, divisor = bool(call.number(f"a{first + 4}")), int(call.number(f"a{first + 5}") or 0)
    return MeanWindows(pool.windows, sizes, counts, padded, divisor)


def _aten_avg_pool(call: Call) -> Tensor:
    kernel, strides, pads, *_ = map(list[int], zip(*_mean_windows(call, "a0", 1).windows, strict=True))
    if call.number("a6"):
        raise call.refuse("a divisor of an average pool")
    return call.tensor("a0").op(
        "AveragePool",
        kernel_shape=kernel,
        strides=strides,
        pads=pads * 2,
        count_include_pad=int(bool(call.number("a5"))),
        ceil_mode=int(bool(call.number("a4"))),
    )


def _adaptive_counts(call: Call) -> list[int]:
    """Return the output sizes of the forward pool: those of dY, or those of all such pools that read the same x."""
    shape = call.facts.shape(call.operand("a0"))
    if shape is not None and is_static(shape[2:]):
        return [dim.coefficient for dim in shape[2:]]
    x, forward = call.operand("a1"), call.attribute("operator", "").removesuffix("_backward")
    uses = [] if x is None else [call.node.scope.node(use.position) for use in x.uses if use.scope is call.node.scope]
    pools = [node for node in uses if node.op == call.node.op and attribute(node, "operator") == forward]
    counts = [call.integers_of(node.input(1)) for node in pools]
    if not counts or any(found != counts[0] for found in counts):
        raise Refuse(DefinitionCode.UNKNOWN_SIZES, "the output sizes of its forward pool are not known")
    return counts[0]


def _products(call: Call, x: str, counts: Sequence[int], *, transposed: bool) -> Tensor:
    """A product with a matrix on each axis, or its transpose: adaptive windows have no fixed kernel."""
    sizes, result = call.sizes(x, 2), call.typed("a0")
    if len(counts) != len(sizes) or 0 in counts:
        raise call.refuse(f"an output of {counts} elements on {len(sizes)} axes")
    for axis, (size, count) in enumerate(zip(sizes, counts, strict=True), 2):
        call.require_few(size * count)
        weights = np.zeros((size, count), np.float32)
        for number in range(count):
            low, high = adaptive_bounds(number, size, count)
            weights[low:high, number] = 1 / (high - low)
        matrix = (weights.T if transposed else weights).astype(helper.tensor_dtype_to_np_dtype(result.element_type))
        result = result.along(axis, 2 + len(sizes), matrix)
    return result


def _aten_max(call: Call) -> dict[str, Tensor]:
    """The maximum along an axis and its position; the overload `dim` alone has two results."""
    axis, keep = call.number("a1"), bool(call.number("a2"))
    if call.attribute("overload_name") != "dim" or axis is None:
        raise Refuse(DefinitionCode.ATEN_FUNCTION, "aten::max, overload '{}'", call.attribute("overload_name", ""))
    x = call.tensor("a0")
    position = x.op("ArgMax", axis=int(axis), keepdims=int(keep))
    return {"r0": x.reduced("ReduceMax", [int(axis)], keep=keep), "r1": position}


def _aten_value_selecting_reduction_backward(call: Call) -> Tensor:
    """The gradient at the chosen positions of zeros."""
    axis, kept = call.number("a1"), bool(call.number("a4"))
    if axis is None:
        raise call.refuse("an axis that is no constant")
    operands = (call.typed("a0"), call.tensor("a2"))
    terms, positions = operands if kept else (each.unsqueeze([int(axis)]) for each in operands)
    base = zeros(call.tensor("a3"), TensorProto.FLOAT).cast(terms.element_type)
    return base.op("ScatterElements", positions, terms, axis=int(axis))


_ATEN_BODIES: dict[str, Callable[[Call], Mapping[str, Tensor] | Tensor]] = {
    **dict.fromkeys(
        ("_adaptive_avg_pool2d", "_adaptive_avg_pool3d"),
        lambda call: _products(call, "a0", call.integers("a1") or [], transposed=False),
    ),
    **dict.fromkeys(
        ("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward"),
        lambda call: _products(call, "a1", _adaptive_counts(call), transposed=True),
    ),
    **dict.fromkeys(("avg_pool2d", "avg_pool3d"), _aten_avg_pool),
    **dict.fromkeys(
        ("avg_pool2d_backward", "avg_pool3d_backward"),
        lambda call: _spread(call, "a0", call.count("a1", 1), _mean_windows(call, "a1", 2)),
    ),
    "max": _aten_max,
    "value_selecting_reduction_backward": _aten_value_selecting_reduction_backward,
}
