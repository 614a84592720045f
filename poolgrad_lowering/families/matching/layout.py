# SPDX-License-Identifier: Apache-2.0

"""Compares values that differ by Transposes.

Converters of channels-last frameworks insert Transposes around ONNX's channels-first operators, and optimisers remove
pairs of them. Two values are compared by their source and the order of its axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poolgrad_lowering.ir.attributes import integers
from poolgrad_lowering.ir.scopes import Node, Value


@dataclass(frozen=True)
class Arranged:
    """A value seen as another one with its axes in another order: axis `i` is axis `axes[i]` of `value`."""

    value: Value
    axes: tuple[int, ...]

    def transposed(self, permutation: Sequence[int]) -> Arranged:
        """What a Transpose with this permutation makes of it."""
        return Arranged(self.value, tuple(self.axes[axis] for axis in permutation))


def arranged(value: Value, rank: int) -> Arranged:
    """The value of that rank behind every Transpose and Identity in front of `value`."""
    axes = tuple(range(rank))
    for behind, node in value.upstream():  # noqa: B007 - read after the loop
        permutation = None if node is None else _permutation(node, rank)
        if permutation is None:
            break
        axes = tuple(permutation[axis] for axis in axes)
    return Arranged(behind, axes)


def _permutation(node: Node, rank: int) -> list[int] | None:
    """How a node orders the axes of its input anew; None where it does anything else."""
    if node.is_a("Identity"):
        return list(range(rank))
    if not node.is_a("Transpose"):
        return None
    axes = list(range(rank))
    permutation = integers(node, "perm", axes[::-1])
    return permutation if permutation is not None and sorted(permutation) == axes else None
