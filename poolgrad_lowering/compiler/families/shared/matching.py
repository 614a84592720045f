# SPDX-License-Identifier: Apache-2.0

"""The spellings of producers that are not those of one family: ATen nodes, Transposes, TensorFlow's operators.

Converters of channels-last frameworks insert Transposes around ONNX's channels-first operators, and optimisers remove
pairs of them; so values are compared by their source and the order of its axes.

Sources for TensorFlow: its operator definitions of MaxPoolGrad, MaxPoolGradV2, MaxPool3DGrad, MaxPoolGradWithArgmax,
AvgPoolGrad and AvgPool3DGrad, and the notes on padding of `tf.nn`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.aten_pools import pool_windows
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import by_rule, need, require, static_integers
from poolgrad_lowering.model.facts.shape_rules import permutation
from poolgrad_lowering.model.ir.attributes import integers, text
from poolgrad_lowering.model.ir.dims import channels_to_second
from poolgrad_lowering.model.ir.producers import ATEN_DOMAIN, ATEN_GENERIC, aten_name
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import PoolAttributes, Windows


def aten_anchors(*operators: str) -> tuple[tuple[str, str], ...]:
    """The operators (domain, op type) of nodes that can call one of PyTorch's."""
    return ((ATEN_DOMAIN, ATEN_GENERIC), *((ATEN_DOMAIN, name) for name in operators))


def aten_operator(facts: Facts, node: Node) -> str | None:
    """The operator that a node calls, with its overload as in `max.dim` where one is named; None if it is no such node.

    One whose operator the model defines itself, as a function, is none.
    """
    return None if facts.is_function(node) else aten_name(node)


def out_of_range(node: Node) -> Refuse:
    """Return the refusal of a node with an argument that is not constant, or is none of its operator's."""
    return Refuse(Code.POOL_ATTRIBUTES, "'{}' has arguments that are not constant or out of range", node.label)


def pool_arguments(facts: Facts, node: Node, x: Value, first: int, rank: int, *, dilated: bool = True) -> Windows:
    """As `pool_windows`; raises `Refuse` where an argument is out of range or not constant."""
    windows = pool_windows(facts, node, x, first, rank, dilated=dilated)
    if windows is None:
        raise out_of_range(node)
    return windows


class Arranged(NamedTuple):
    """A value seen as another one with its axes in another order: axis `i` is axis `axes[i]` of `value`."""

    value: Value
    axes: tuple[int, ...]

    def transposed(self, order: Sequence[int]) -> Arranged:
        """What a Transpose with this permutation makes of it."""
        return Arranged(self.value, tuple(self.axes[axis] for axis in order))


def arranged(value: Value, rank: int) -> Arranged:
    """The value of that rank behind every Transpose and Identity in front of `value`."""
    axes = tuple(range(rank))
    for behind, node in value.upstream():  # noqa: B007 - read after the loop
        if node is None or not node.is_a("Identity", "Transpose"):
            break
        order = range(rank) if node.is_a("Identity") else permutation(node, rank)
        if order is None:
            break
        axes = tuple(order[axis] for axis in axes)
    return Arranged(behind, axes)


_CHANNELS_LAST = {"NHWC": True, "NDHWC": True, "NCHW": False, "NCDHW": False}
_AUTO_PADS = {"SAME": "SAME_UPPER", "VALID": "VALID", "EXPLICIT": "NOTSET"}
_OPERANDS = {"ksize": 3, "strides": 4}
"""The positions of the windows' inputs where they are no attributes."""


class GradientOperator(NamedTuple):
    """A node of TensorFlow's: its layout, and its windows as the attributes of an ONNX MaxPool."""

    node: Node
    channels_last: bool
    windows: PoolAttributes

    @property
    def to_second(self) -> list[int]:
        """The permutation from the operator's layout to ONNX's."""
        rank = len(self.windows.kernel) + 2
        return channels_to_second(rank) if self.channels_last else list(range(rank))


def gradient_operator(facts: Facts, node: Node) -> GradientOperator:
    """The operator that a node is; raises `Refuse` where its attributes are none of TensorFlow's, or not constant."""
    channels_last = _CHANNELS_LAST.get(text(node, "data_format", "NHWC") or "")
    windows = None if channels_last is None else by_rule(_windows, facts, node, channels_last)
    if channels_last is None or windows is None:
        what = "{} '{}' has missing or malformed attributes"
        raise Refuse(Code.POOL_ATTRIBUTES, what, node.proto.op_type, node.label)
    return GradientOperator(node, channels_last, windows)


def _windows(facts: Facts, node: Node, channels_last: bool) -> PoolAttributes:
    """The windows over the spatial axes; a rule that applies if they are known, and batch and channels have none."""
    ksize, strides = map(need, [_entries(facts, node, name) for name in _OPERANDS])
    auto_pad, rank = need(_AUTO_PADS.get(text(node, "padding") or "")), len(ksize)
    pads = need(integers(node, "explicit_paddings")) if auto_pad == "NOTSET" else [0] * 2 * rank
    require(rank >= 4 and len(strides) == rank and len(pads) == 2 * rank)
    rows, outer = (ksize, strides, pads[0::2], pads[1::2]), (0, rank - 1 if channels_last else 1)
    require([[row[axis] for axis in outer] for row in rows] == [[1, 1], [1, 1], [0, 0], [0, 0]])
    spatial = [tuple(entry for axis, entry in enumerate(row) if axis not in outer) for row in rows]
    kernel, steps, begins, ends = spatial
    require(min(*kernel, *steps) >= 1 and min(*begins, *ends) >= 0)
    return PoolAttributes(kernel, steps, begins, ends, (1,) * len(kernel), False, auto_pad, 0)


def _entries(facts: Facts, node: Node, name: str) -> list[int] | None:
    """The numbers of an attribute, or of the input in its place; None where they are not known."""
    if not node.op[1].endswith("V2"):
        return integers(node, name)
    return static_integers(facts, node, _OPERANDS[name])
