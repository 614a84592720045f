# SPDX-License-Identifier: Apache-2.0

"""PyTorch's pools as nodes of domain org.pytorch.aten: their constant arguments, and the shapes of their results.

Inputs are the arguments by position; numbers, lists of them and flags are constants of the graph. Argument lists and
defaults are those of PyTorch's operator schemas.
"""

from __future__ import annotations

from collections.abc import Sequence

from poolgrad_lowering.model.facts.known import Known, need, opaque, require, sizes_in, static_integers
from poolgrad_lowering.model.ir import producers
from poolgrad_lowering.model.ir.dims import Dim, Shape
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import AdaptiveWindows, PoolAttributes, Windows, pooled_sizes


def pool_shape(known: Known, node: Node) -> Shape | None:
    """Return the shape of every result of one of PyTorch's pools or of its gradient; None if it is not known."""
    name = producers.aten_name(node) or ""
    if name in producers.AXIS_MAXIMA and len(node.proto.output) > 1:
        return _without_axis(known, node)
    if name == producers.AXIS_BACKWARD:
        return sizes_in(known, node.input(3), need(node.output(0)))
    if name.removesuffix(producers.BACKWARD) not in producers.ATEN_POOLS:
        return None
    if name.endswith(producers.BACKWARD):
        return known.shape(node.input(1))
    x, rank, y = need(node.input(0)), producers.ATEN_POOLS[name], need(node.output(0))
    shape = need(known.shape(x))
    require(len(shape) in (rank + 1, rank + 2))
    axes = enumerate(_pooled(known, node, name, x, shape[-rank:]), len(shape) - rank)
    return shape[:-rank] + tuple(opaque(y, axis) if size is None else size for axis, size in axes)


def _pooled(known: Known, node: Node, name: str, x: Value, spatial: Shape) -> Sequence[Dim | None]:
    """Return the pooled sizes, each None if it is not known."""
    if name in producers.ADAPTIVE_POOLS:
        counts = need(known.integers(node.input(1)))
        require(len(counts) == len(spatial))
        return counts
    attributes, sizes = need(pool_windows(known, node, x, 1, len(spatial), dilated=name in producers.MAX_POOLS))
    return pooled_sizes(attributes, spatial) if isinstance(attributes, PoolAttributes) else sizes


def _without_axis(known: Known, node: Node) -> Shape:
    """Return the shape of the maxima over one axis."""
    shape, axis = need(known.shape(node.input(0))), need(static_integers(known, node, 1))
    keepdim = need(flag(known, node, 2))
    require(len(axis) == 1 and -len(shape) <= axis[0] < len(shape))
    number = axis[0] % len(shape)
    return (*shape[:number], *((Dim(1),) if keepdim else ()), *shape[number + 1 :])


def pool_windows(
    known: Known, node: Node, x: Value | None, first: int, rank: int, *, dilated: bool = True
) -> Windows | None:
    """Return the windows over x of the arguments kernel_size, stride, padding, dilation, ceil_mode from input `first`.

    An average pool has no dilation: `dilated` is False.

    None where one is out of range or not constant. A kernel may also be made of x's own sizes, if each window then is a
    whole axis or one element of it.
    """
    kernel, stride, padding = (number_list(known, node, first + offset) for offset in range(3))
    dilation = number_list(known, node, first + 3) if dilated else []
    ceil = flag(known, node, first + 4 if dilated else first + 3)
    if kernel is not None and stride is not None:
        attributes = torch_windows(rank, [kernel, stride, padding, dilation], ceil=ceil)
        return None if attributes is None else Windows(attributes)
    is_plain = padding is not None and not any(padding) and dilation is not None and set(dilation) <= {1}
    kernels = known.integers(node.input(first))
    strides = kernels if stride == [] else known.integers(node.input(first + 1))
    sizes = _whole_or_single(known.shape(x), kernels, strides) if kernels and len(kernels) == rank else None
    return Windows(AdaptiveWindows(), sizes) if is_plain and ceil is not None and sizes is not None else None


def _whole_or_single(x_shape: Shape | None, kernels: Shape, strides: Shape | None) -> Shape | None:
    """The output sizes, if each window is a whole axis or a single element; else None."""
    one, rank = Dim(1), len(kernels)
    if x_shape is None or strides != kernels or len(x_shape) not in (rank + 1, rank + 2):
        return None
    axes = list(zip(x_shape[-rank:], kernels, strict=True))
    if any(kernel not in (one, size) for size, kernel in axes):
        return None
    return tuple(size if kernel == one else one for size, kernel in axes)


def number_list(known: Known, node: Node, position: int) -> list[int] | None:
    """A list argument; empty where the input is absent, None where it is no constant.

    An empty list may be a tensor of any type: exporters write it as one of float32.
    """
    is_empty = node.input(position) is None or known.shape(node.input(position)) == (Dim(0),)
    return [] if is_empty else static_integers(known, node, position)


def flag(known: Known, node: Node, position: int) -> bool | None:
    """A Boolean argument; False where the input is absent, None where it is no constant."""
    if node.input(position) is None:
        return False
    constant = known.constant(node.input(position))
    return bool(constant.item()) if constant is not None and constant.size == 1 else None


def torch_windows(rank: int, lists: Sequence[list[int] | None], *, ceil: int | None) -> PoolAttributes | None:
    """The kernel, stride, padding and dilation of one of PyTorch's pools over `rank` spatial axes, and its rounding.

    A list of one number stands for all axes. An empty list is the default: the kernel for the stride, no padding, no
    dilation. The padding is the same at both ends. None where one is None, malformed or out of range.
    """
    known = [numbers for numbers in lists if numbers is not None]
    if len(known) < len(lists) or ceil is None:
        return None
    kernel, stride, padding, dilation = known
    given = (kernel, stride or kernel, padding or [0], dilation or [1])
    spread = [tuple(numbers) * (rank if len(numbers) == 1 else 1) for numbers in given]
    if not kernel or any(len(numbers) != rank for numbers in spread):
        return None
    kernels, strides, pads, dilations = spread
    if min(*kernels, *strides, *dilations) < 1 or min(pads) < 0:
        return None
    return PoolAttributes(kernels, strides, pads, pads, dilations, bool(ceil), "NOTSET", 0)
