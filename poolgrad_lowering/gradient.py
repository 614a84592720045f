"""The one record that every form of a pool gradient is brought to, and the contract of a pattern.

A pattern knows how one producer spells the gradient; everything after it works from this record alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.pool import PoolAttributes
from poolgrad_lowering.analysis.provenance import Numbering
from poolgrad_lowering.diagnostics.codes import Refusal
from poolgrad_lowering.ir.dims import Shape
from poolgrad_lowering.ir.scopes import Node, Value


@dataclass(frozen=True)
class AdaptiveWindows:
    """Window `o` of an axis spans ⌊o·in/out⌋ … ⌈(o+1)·in/out⌉ − 1 (PyTorch's adaptive pooling)."""


@dataclass(frozen=True)
class PoolGradient:
    """A proven gradient of a max pool: `dx = 0; dx[n, c].flat[index[n, c, o]] += grad[n, c, o]`.

    * `x`: the pooled input, (N, C, spatial…), `element_type` its `TensorProto.DataType`
    * `x_is_flat`: the value `x` has its elements in row-major order under another shape than `x_shape`
    * `grad`: the incoming gradient; its elements in row-major order are those of the pooled output, its shape is
      the pooled shape unless `grad_is_flat`
    * `argmax`: the recorded indices, counted as `numbering` says (along spatial axis `axis` where that is AXIS), in the
      pooled shape unless `argmax_is_flat`; its name is empty where `pool` has no Indices output yet, which the rewrite
      then adds
    * `dx`: the value that the lowered node takes over; its shape is x's unless `dx_shape` names another one with the
      same elements in row-major order
    * `channels_last`: `grad` and `dx` are (N, spatial…, C), all else stays (N, C, spatial…)
    * `pool`: the node whose first output is the pooled tensor and whose second one holds the recorded indices, where
      one node computes both
    * `windows`: the MaxPool's attributes, or that the windows are adaptive
    * `x_shape`, `pooled_shape`: the shapes of x and of the pooled output, (N, C, spatial…), symbols kept
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

    @property
    def operands(self) -> tuple[Value, Value, Value]:
        """The values that the lowered node is computed from."""
        return self.x, self.grad, self.argmax


@dataclass(frozen=True)
class Pattern:
    """One form: its name, the operators (domain, op type) that can be its anchor, and how a candidate is judged.

    `match` returns None where the node is no anchor of this form at all, and a refusal where it is one but a condition
    fails. Of several forms with one anchor the one of lowest `priority` is asked first, and the first gradient decides.
    By default forms of other packages come after those of this one; names break ties.
    """

    name: str
    anchors: tuple[tuple[str, str], ...]
    summary: str
    match: Callable[[Facts, Node], PoolGradient | Refusal | None]
    priority: int = 100

    @property
    def order(self) -> tuple[int, str]:
        """The key by which forms are asked."""
        return self.priority, self.name
