# SPDX-License-Identifier: Apache-2.0

"""`MaxPoolGradient`, the record that every form returns for a gradient of a max pool."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families.gradient import Gradient, Operand
from poolgrad_lowering.dialect.op import Maximum
from poolgrad_lowering.model.ir.dims import Shape
from poolgrad_lowering.model.ir.scopes import Node, Value


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


@dataclass(frozen=True, kw_only=True)
class MaxPoolGradient(Gradient):
    """A proven gradient of a max pool: `dx = 0; dx[n, c].flat[index[n, c, o]] += grad[n, c, o]`.

    * `grad`: the incoming gradient, of shape `pooled_shape`
    * `dx`: what the lowered node computes, of shape `x_shape`
    * `element_type`: the `TensorProto.DataType` of x, `grad` and `dx`
    * `windows`: the MaxPool's attributes, or `AdaptiveWindows`
    * `x_shape`, `pooled_shape`: the shapes of x and of the pooled output, (N, C, spatial…), with symbols
    * `x`: the pooled input, of shape `x_shape`
    * `argmax`: the recorded indices, int32 or int64, of shape `pooled_shape`; `numbering` says what they count (AXIS:
      positions along spatial axis `axis`). None if `pool` has no Indices output yet: the rewrite adds the output
    * `pool`: the node that computes both the pooled tensor (its first output) and the recorded indices (its second);
      None if no single node does
    * `reduction`: the ReduceMax and the ArgMax that do, if two nodes do; None otherwise
    """

    x: Operand
    argmax: Operand | None
    numbering: Numbering
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

    @cached_property
    def selected_by(self) -> Hashable:
        """The windows, the shapes and the element type: what the operator of its pool depends on too."""
        windows = repr(self.windows)  # of another package's form, which may have lists in it
        return windows, self.x_shape, self.pooled_shape, self.element_type

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values that the lowered node uses: x, grad and, if it is there yet, argmax."""
        used = (self.x, self.grad, self.argmax)
        return tuple(operand.value for operand in used if operand is not None)
