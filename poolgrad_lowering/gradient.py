# SPDX-License-Identifier: Apache-2.0

"""`PoolGradient`, the record that every form returns for a matched gradient, and `Pattern`, the interface of a form.

A form recognises the nodes that one producer writes for a gradient. All later steps use the record only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.provenance import Numbering
from poolgrad_lowering.diagnostics.codes import Refusal
from poolgrad_lowering.dialect.maximum import Maximum
from poolgrad_lowering.ir.dims import Shape
from poolgrad_lowering.ir.scopes import Node, Value
from poolgrad_lowering.windows.onnx_pool import PoolAttributes


@dataclass(frozen=True)
class AdaptiveWindows:
    """The windows of adaptive pooling: on an axis, window `o` spans ⌊o·in/out⌋ … ⌈(o+1)·in/out⌉ − 1 (PyTorch)."""


@dataclass(frozen=True)
class Reduction:
    """A forward pool that two nodes of one scope compute: ReduceMax the pooled tensor, ArgMax the indices.

    `order` is the function body that compares the elements of a window in the order of the ReduceMax; None if there is
    none. `y_shape` is the shape of the pooled tensor, None if it is not known.
    """

    node: Node
    recorder: Node
    order: Maximum | None
    y_shape: Shape | None

    @property
    def first(self) -> Node:
        """The one of the two nodes that comes first in the model."""
        return min(self.node, self.recorder, key=lambda node: node.position)


class View(Enum):
    """How a value holds a tensor of shape (N, C, spatial…)."""

    SAME = "in this shape"
    FLAT = "in another shape, with the elements in row-major order"
    CHANNELS_LAST = "as (N, spatial…, C)"


@dataclass(frozen=True)
class Operand:
    """A tensor that a gradient reads or computes: a value of the graph, and how it holds the tensor.

    `shape` is the shape of the value itself. It is read of a result with the view FLAT only, which must have one.
    """

    value: Value
    view: View = View.SAME
    shape: Shape | None = None

    @classmethod
    def of(cls, value: Value, shape: Shape | None, tensor: Shape) -> Operand:
        """Return a value of `shape`, None if unknown, as the holder of a tensor of shape `tensor`."""
        return cls(value) if shape == tensor else cls(value, View.FLAT, shape)

    def flat(self) -> Operand:
        """Return the same value as an operand of another shape."""
        return Operand(self.value, View.FLAT, self.shape)


@dataclass(frozen=True)
class PoolGradient:
    """A proven gradient of a max pool: `dx = 0; dx[n, c].flat[index[n, c, o]] += grad[n, c, o]`.

    * `x`: the pooled input, of shape `x_shape`; `element_type` is its `TensorProto.DataType`
    * `grad`: the incoming gradient, of shape `pooled_shape`
    * `argmax`: the recorded indices, int32 or int64, of shape `pooled_shape`; `numbering` says what they count (AXIS:
      positions along spatial axis `axis`). None if `pool` has no Indices output yet: the rewrite adds the output
    * `dx`: what the lowered node computes, of shape `x_shape`
    * `pool`: the node that computes both the pooled tensor (its first output) and the recorded indices (its second);
      None if no single node does
    * `reduction`: the ReduceMax and the ArgMax that do, if two nodes do; None otherwise
    * `windows`: the MaxPool's attributes, or `AdaptiveWindows`
    * `x_shape`, `pooled_shape`: the shapes of x and of the pooled output, (N, C, spatial…), with symbols
    """

    x: Operand
    grad: Operand
    argmax: Operand | None
    dx: Operand
    numbering: Numbering
    element_type: int
    windows: PoolAttributes | AdaptiveWindows
    x_shape: Shape
    pooled_shape: Shape
    pool: Node | None = None
    axis: int = 0
    reduction: Reduction | None = None

    @property
    def pooling(self) -> Node | None:
        """The node whose first output is the pooled tensor: `pool`, or the ReduceMax; None if not known."""
        return self.pool if self.reduction is None else self.reduction.node

    @property
    def indices(self) -> Operand:
        """The argmax of a gradient that has one: every one, once the rewrite has named the outputs that it adds."""
        if self.argmax is None:
            raise ValueError(f"the indices of '{self.dx.value.name}' have no name yet")
        return self.argmax

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values that the lowered node uses: x, grad and, if it is there yet, argmax."""
        used = (self.x, self.grad, self.argmax)
        return tuple(operand.value for operand in used if operand is not None)


@dataclass(frozen=True)
class Pattern:
    """One form of a pool gradient: its name, the operators (domain, op type) of its anchors, and its match function.

    `match` returns None if the node is not an anchor of this form, and a refusal if it is one but a condition fails.
    Forms that share an anchor are tried in the order of `priority`, then of their names; the first gradient is taken.
    The default priority puts forms of other packages after those of this one.
    """

    name: str
    anchors: tuple[tuple[str, str], ...]
    summary: str
    match: Callable[[Facts, Node], PoolGradient | Refusal | None]
    priority: int = 100

    @property
    def order(self) -> tuple[int, str]:
        """The sort key of the order in which forms are tried."""
        return self.priority, self.name
