# SPDX-License-Identifier: Apache-2.0

"""TensorFlow's gradient operators of pools: their layout, and their windows as those of an ONNX pool.

MaxPoolGradV2 has kernel and strides as inputs, the others have attributes.
Sources: TensorFlow's operator definitions of MaxPoolGrad, MaxPoolGradV2, MaxPool3DGrad, MaxPoolGradWithArgmax,
AvgPoolGrad and AvgPool3DGrad, and the notes on padding of `tf.nn`.
"""

from __future__ import annotations

from dataclasses import dataclass

from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.shape_rules import static_integers
from poolgrad_lowering.model.ir.attributes import integers, text
from poolgrad_lowering.model.ir.dims import channels_to_last, channels_to_second
from poolgrad_lowering.model.ir.scopes import Node
from poolgrad_lowering.model.windows.onnx_pool import PoolAttributes

_CHANNELS_LAST = {"NHWC": True, "NDHWC": True, "NCHW": False, "NCDHW": False}
_AUTO_PADS = {"SAME": "SAME_UPPER", "VALID": "VALID", "EXPLICIT": "NOTSET"}
_OPERANDS = {"ksize": 3, "strides": 4}
"""The positions of the windows' inputs where they are no attributes."""


@dataclass(frozen=True)
class GradientOperator:
    """A node of TensorFlow's: its layout, and its windows as the attributes of an ONNX MaxPool."""

    node: Node
    channels_last: bool
    windows: PoolAttributes

    @property
    def to_second(self) -> list[int]:
        """The permutation from the operator's layout to ONNX's."""
        rank = len(self.windows.kernel) + 2
        return channels_to_second(rank) if self.channels_last else list(range(rank))

    @property
    def from_second(self) -> list[int]:
        """The permutation from ONNX's layout to the operator's."""
        rank = len(self.windows.kernel) + 2
        return channels_to_last(rank) if self.channels_last else list(range(rank))


def gradient_operator(facts: Facts, node: Node) -> GradientOperator:
    """The operator that a node is; raises `Refuse` where its attributes are none of TensorFlow's, or not constant."""
    channels_last = _CHANNELS_LAST.get(text(node, "data_format", "NHWC") or "")
    windows = None if channels_last is None else _windows(facts, node, channels_last)
    if channels_last is None or windows is None:
        what = "{} '{}' has missing or malformed attributes"
        raise Refuse(Code.POOL_ATTRIBUTES, what, node.proto.op_type, node.label)
    return GradientOperator(node, channels_last, windows)


def _windows(facts: Facts, node: Node, channels_last: bool) -> PoolAttributes | None:
    """The windows over the spatial axes; None where they are not known, or where batch or channels have others."""
    ksize, strides = _entries(facts, node, "ksize"), _entries(facts, node, "strides")
    auto_pad = _AUTO_PADS.get(text(node, "padding") or "")
    if ksize is None or strides is None or auto_pad is None:
        return None
    rank = len(ksize)
    pads = integers(node, "explicit_paddings") if auto_pad == "NOTSET" else [0] * 2 * rank
    if rank < 4 or len(strides) != rank or pads is None or len(pads) != 2 * rank:
        return None
    rows, outer = (ksize, strides, pads[0::2], pads[1::2]), (0, rank - 1 if channels_last else 1)
    if [[row[axis] for axis in outer] for row in rows] != [[1, 1], [1, 1], [0, 0], [0, 0]]:
        return None
    spatial = [tuple(entry for axis, entry in enumerate(row) if axis not in outer) for row in rows]
    kernel, steps, begins, ends = spatial
    if min(*kernel, *steps) < 1 or min(*begins, *ends) < 0:
        return None
    return PoolAttributes(kernel, steps, begins, ends, (1,) * len(kernel), False, auto_pad, 0)


def _entries(facts: Facts, node: Node, name: str) -> list[int] | None:
    """The numbers of an attribute, or of the input in its place; None where they are not known."""
    if not node.op[1].endswith("V2"):
        return integers(node, name)
    return static_integers(facts, node, _OPERANDS[name])
