# SPDX-License-Identifier: Apache-2.0

"""PyTorch's operators in ONNX graphs: which one a node of domain org.pytorch.aten calls, and its constant arguments.

Inputs are the arguments by position; numbers, lists of them and flags are constants of the graph. Argument lists and
defaults are those of PyTorch's operator schemas.
"""

from __future__ import annotations

from collections.abc import Sequence

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.shape_rules import static_integers
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.ir.dims import Dim, Shape
from poolgrad_lowering.ir.producers import ATEN_DOMAIN, ATEN_GENERIC, aten_name
from poolgrad_lowering.ir.scopes import Node, Value
from poolgrad_lowering.windows.adaptive import AdaptiveWindows, Windows
from poolgrad_lowering.windows.onnx_pool import PoolAttributes


def aten_anchors(*operators: str) -> tuple[tuple[str, str], ...]:
    """The operators (domain, op type) of nodes that can call one of PyTorch's."""
    return ((ATEN_DOMAIN, ATEN_GENERIC), *((ATEN_DOMAIN, name) for name in operators))


def aten_operator(facts: Facts, node: Node) -> str | None:
    """The operator that a node calls, with its overload as in `max.dim` where one is named; None if it is no such node.

    One whose operator the model defines itself, as a function, is none.
    """
    return None if facts.is_function(node) else aten_name(node)


def number_list(facts: Facts, node: Node, position: int) -> list[int] | None:
    """A list argument; empty where the input is absent, None where it is no constant.

    An empty list may be a tensor of any type: exporters write it as one of float32.
    """
    is_empty = node.input(position) is None or facts.shape(node.input(position)) == (Dim(0),)
    return [] if is_empty else static_integers(facts, node, position)


def flag(facts: Facts, node: Node, position: int) -> bool | None:
    """A Boolean argument; False where the input is absent, None where it is no constant."""
    if node.input(position) is None:
        return False
    constant = facts.constant(node.input(position))
    return bool(constant.item()) if constant is not None and constant.size == 1 else None


def out_of_range(node: Node) -> Refuse:
    """Return the refusal of a node with an argument that is not constant, or is none of its operator's."""
    return Refuse(Code.POOL_ATTRIBUTES, "'{}' has arguments that are not constant or out of range", node.label)


def pool_arguments(facts: Facts, node: Node, x: Value, first: int, rank: int, *, dilated: bool = True) -> Windows:
    """The windows over x of the arguments kernel_size, stride, padding, dilation, ceil_mode from input `first` on.

    An average pool has no dilation: `dilated` is False.

    Raises `Refuse` where one is out of range or not constant. A kernel may also be made of x's own sizes, if each
    window then is a whole axis or one element of it.
    """
    kernel, stride, padding = (number_list(facts, node, first + offset) for offset in range(3))
    dilation = number_list(facts, node, first + 3) if dilated else []
    ceil = flag(facts, node, first + 4 if dilated else first + 3)
    if kernel is not None and stride is not None:
        attributes = torch_windows(rank, [kernel, stride, padding, dilation], ceil=ceil)
        if attributes is None:
            raise out_of_range(node)
        return Windows(attributes)
    is_plain = padding is not None and not any(padding) and dilation is not None and set(dilation) <= {1}
    kernels = facts.integers(node.input(first))
    strides = kernels if stride == [] else facts.integers(node.input(first + 1))
    sizes = _whole_or_single(facts.shape(x), kernels, strides)
    if not is_plain or ceil is None or sizes is None:
        raise out_of_range(node)
    return Windows(AdaptiveWindows(), sizes)


def _whole_or_single(x_shape: Shape | None, kernels: Shape | None, strides: Shape | None) -> Shape | None:
    """The output sizes, if each window is a whole axis or a single element; else None."""
    one = Dim(1)
    if x_shape is None or kernels is None or strides != kernels or len(x_shape) != len(kernels) + 2:
        return None
    axes = list(zip(x_shape[2:], kernels, strict=True))
    if any(kernel not in (one, size) for size, kernel in axes):
        return None
    return tuple(size if kernel == one else one for size, kernel in axes)


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
    if any(len(numbers) != rank for numbers in spread):
        return None
    kernels, strides, pads, dilations = spread
    if min(*kernels, *strides, *dilations) < 1 or min(pads) < 0:
        return None
    return PoolAttributes(kernels, strides, pads, pads, dilations, bool(ceil), "NOTSET", 0)
