# SPDX-License-Identifier: Apache-2.0

"""TensorFlow's gradient operators of pools: their layout, and their windows as those of an ONNX pool.

MaxPoolGradV2 has kernel and strides as inputs, the others have attributes.
Sources: TensorFlow's operator definitions of MaxPoolGrad, MaxPoolGradV2, MaxPool3DGrad, MaxPoolGradWithArgmax,
AvgPoolGrad and AvgPool3DGrad, and the notes on padding of `tf.nn`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.shape_rules import static_integers
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.ir.attributes import attribute, integers, text
from poolgrad_lowering.ir.dims import channels_to_last, channels_to_second
from poolgrad_lowering.ir.scopes import Node
from poolgrad_lowering.windows.onnx_pool import PoolAttributes

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
    malformed = Refuse(
        Code.POOL_ATTRIBUTES, "{} '{}' has missing or malformed attributes", node.proto.op_type, node.label
    )
    data_format = "NHWC" if attribute(node, "data_format") is None else text(node, "data_format")
    channels_last = _CHANNELS_LAST.get(data_format or "")
    ksize, all_strides = _window(facts, node, "ksize"), _window(facts, node, "strides")
    auto_pad = _AUTO_PADS.get(text(node, "padding") or "")
    if channels_last is None or ksize is None or all_strides is None or auto_pad is None:
        raise malformed
    pads = integers(node, "explicit_paddings") if auto_pad == "NOTSET" else [0] * 2 * len(ksize)
    if len(ksize) < 4 or len(all_strides) != len(ksize) or pads is None or len(pads) != 2 * len(ksize):
        raise malformed
    kernel, strides = (_spatial(entries, channels_last, 1) for entries in (ksize, all_strides))
    begins, ends = (_spatial(entries, channels_last, 0) for entries in (pads[0::2], pads[1::2]))
    if kernel is None or strides is None or begins is None or ends is None:
        raise malformed
    if min(*kernel, *strides) < 1 or min(*begins, *ends) < 0:
        raise malformed
    dilations = (1,) * len(kernel)
    return GradientOperator(
        node, channels_last, PoolAttributes(kernel, strides, begins, ends, dilations, False, auto_pad, 0)
    )


def _window(facts: Facts, node: Node, name: str) -> Sequence[int] | None:
    """The numbers of an attribute, or of the input in its place; None where they are not known."""
    if not node.op[1].endswith("V2"):
        return integers(node, name)
    return static_integers(facts, node, _OPERANDS[name])


def _spatial(entries: Sequence[int], channels_last: bool, neutral: int) -> tuple[int, ...] | None:
    """The entries of the spatial axes; None where batch or channels have one that is not neutral."""
    channel = len(entries) - 1 if channels_last else 1
    if entries[0] != neutral or entries[channel] != neutral:
        return None
    return tuple(entry for axis, entry in enumerate(entries) if axis not in (0, channel))
