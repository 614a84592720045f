# SPDX-License-Identifier: Apache-2.0

"""Compares values that differ by Transposes.

Converters of channels-last frameworks insert Transposes around ONNX's channels-first operators, and optimisers remove
pairs of them. Two values are compared by their source and the order of its axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poolgrad_lowering.model.facts.shape_rules import permutation
from poolgrad_lowering.model.ir.scopes import Value


@dataclass(frozen=True)
class Arranged:
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
