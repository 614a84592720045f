# SPDX-License-Identifier: Apache-2.0

"""`PoolGradient`, the record that every form returns for a matched gradient, and `Pattern`, the interface of a form.

A form recognises the nodes that one producer writes for a gradient. All later steps use the record only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class PoolGradient:
    """A proven gradient of a max pool: `dx = 0; dx[n, c].flat[index[n, c, o]] += grad[n, c, o]`.

    * `x`: the pooled input, (N, C, spatial…), `element_type` its `TensorProto.DataType`
    * `x_is_flat`: the value `x` has another shape than `x_shape`, with the same elements in row-major order
    * `grad`: the incoming gradient; its shape is the pooled shape, or with `grad_is_flat` another shape with the same
      elements in row-major order
    * `argmax`: the recorded indices, int32 or int64, in the pooled shape unless `argmax_is_flat`; `numbering` says what
      they count (AXIS: positions along spatial axis `axis`). If `pool` has no Indices output yet, the name is empty and
      the rewrite adds the output
    * `dx`: the value that the lowered node computes; its shape is x's unless `dx_shape` is another one with the same
      elements in row-major order
    * `channels_last`: `grad` and `dx` are (N, spatial…, C); all other shapes stay (N, C, spatial…)
    * `pool`: the node that computes both the pooled tensor (its first output) and the recorded indices (its second);
      None if no single node does
    * `reduction`: the ReduceMax and the ArgMax that do, if two nodes do; None otherwise
    * `windows`: the MaxPool's attributes, or `AdaptiveWindows`
    * `x_shape`, `pooled_shape`: the shapes of x and of the pooled output, (N, C, spatial…), with symbols
    """

    x: Value
    grad: Value
    argmax: Value
    dx: Value
    numbering: Numbering
    element_type: int
    windows: PoolAttributes | AdaptiveWindows
    x_shape: Shape
    pooled_shape: Shape
    grad_is_flat: bool = False
    dx_shape: Shape | None = None
    pool: Node | None = None
    argmax_is_flat: bool = False
    channels_last: bool = False
    axis: int = 0
    x_is_flat: bool = False
    reduction: Reduction | None = None

    @property
    def pooling(self) -> Node | None:
        """The node whose first output is the pooled tensor: `pool`, or the ReduceMax; None if not known."""
        return self.pool if self.reduction is None else self.reduction.node

    @property
    def operands(self) -> tuple[Value, Value, Value]:
        """The values that the lowered node uses: x, grad and argmax."""
        return self.x, self.grad, self.argmax


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
