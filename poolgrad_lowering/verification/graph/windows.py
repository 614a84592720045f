# SPDX-License-Identifier: Apache-2.0

"""The windows of a pool or gradient, from its attributes or constant inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from onnx import TensorProto

from poolgrad_lowering.model.ir.tensors import constant_tensor
from poolgrad_lowering.verification.graph import roles
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.input_roles import AVERAGE_POOL_GRADIENT
from poolgrad_lowering.verification.graph.protos import attribute_values, integers

Constants = Mapping[str, list[int]]
"""The values of constant lists of integers."""

_WINDOWS = ("kernel_size", "stride", "padding", "dilation"), ("ksize", "strides", "pads", "dilation")
"""The attributes of windows, first that of the kernel: those of a user's operator, and Ascend's."""
_ATEN_POOLS = {
    **{f"avg_pool{rank}d_backward": (rank, 2, 5) for rank in (1, 2, 3)},
    **{f"max_pool{rank}d_with_indices": (rank, 1, 5) for rank in (2, 3)},
}
"""PyTorch's operators with windows: the number of spatial axes, and which inputs are the windows, first and end."""


class StridedWindow(NamedTuple):
    """The windows along one axis: the elements from the first of a window to its last, the step, and the padding."""

    extent: int
    stride: int
    begin: int
    end: int


def known_integers(nodes: Iterable[FlatNode], tensors: Mapping[str, TensorProto]) -> dict[str, list[int]]:
    """Return the values of the small integer constants among nodes and initializers."""
    made = {node.outputs[0]: held for node in nodes if (held := constant_tensor(node.proto)) is not None}
    small = {name: held for name, held in {**tensors, **made}.items() if len(held.dims) <= 1 and sum(held.dims) < 9}
    return {name: numbers for name, held in small.items() if (numbers := integers(held)) is not None}


def windows_of(node: FlatNode, constants: Constants) -> list[StridedWindow]:
    """Return the windows of a node along each spatial axis; an empty list if it has none or they are not known."""
    values = attribute_values(node.proto)
    aten = roles.aten_operator(node) or ""
    try:
        if node.op in (("", "MaxPool"), ("", AVERAGE_POOL_GRADIENT)):
            return _onnx_windows(values)
        if roles.is_tensorflow_gradient(node):
            spatial = slice(2, None) if values.get("data_format", b"").startswith(b"NC") else slice(1, -1)
            return _windows(values["ksize"][spatial], values["strides"][spatial])
        if aten in _ATEN_POOLS:
            rank, first, end = _ATEN_POOLS[aten]
            kernel, *others = (constants.get(name, []) for name in node.inputs[first:end])
            return _windows(kernel * (rank if len(kernel) == 1 else 1), *others)
        if roles.is_average_gradient(node):
            return average_windows_of(values) if "ksize" in values else []
        names = next((names for names in _WINDOWS if names[0] in values), None)
        return _windows(*(values[name] for name in names)) if names else []
    except (KeyError, TypeError, ValueError):  # what the node lacks or has too much of is said elsewhere
        return []


def average_windows_of(values: Mapping[str, Any]) -> list[StridedWindow]:
    """Return the windows along the axes of one of Ascend's gradients of average pools, which have two pads each.

    `ksize` and `strides` can also have entries for the batch and the channels. Raises `ValueError` if those are not 1,
    or if a window has no element or no step.
    """
    kernel, strides, pads = (list(values[name]) for name in ("ksize", "strides", "pads"))
    axes = len(pads) // 2
    others = kernel[: len(kernel) - axes] + strides[: len(strides) - axes]
    if any(number != 1 for number in others):
        raise ValueError("the attributes pool the batch or the channels")
    if min([*kernel, *strides], default=1) < 1:
        raise ValueError("windows have no element, or no step")
    rows = zip(kernel[-axes:], strides[-axes:], pads[0::2], pads[1::2], strict=True)
    return [StridedWindow(*row) for row in rows]


def _onnx_windows(values: Mapping[str, Any]) -> list[StridedWindow]:
    rank = len(values["kernel_shape"])
    same = values.get("auto_pad", b"") in (b"SAME_UPPER", b"SAME_LOWER")  # its pads differ by 0 or 1
    pads = [0] * rank + [1] * rank if same else values.get("pads", [0] * (2 * rank))
    ends = pads[:rank], pads[rank:]
    return _windows(values["kernel_shape"], values.get("strides", [1]), ends[0], values.get("dilations", [1]), ends[1])


def _windows(
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    begins: Sequence[int] = (),
    dilations: Sequence[int] = (),
    ends: Sequence[int] | None = None,
) -> list[StridedWindow]:
    """Return the windows along each axis of `kernel`. Other lists can have one entry for all axes, or none."""
    rank = len(kernel)
    steps, before, spacing = (
        list(given) * (rank if len(given) == 1 else 1) or default
        for given, default in ((strides, list(kernel)), (begins, [0] * rank), (dilations, [1] * rank))
    )
    if min([*kernel, *steps, *spacing], default=0) < 1:
        return []
    axes = zip(kernel, steps, before, before if ends is None else ends, spacing, strict=True)
    return [StridedWindow(space * (size - 1) + 1, step, *pads) for size, step, *pads, space in axes]
