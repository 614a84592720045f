# SPDX-License-Identifier: Apache-2.0

"""`Gradient`, the record that every form returns for what it recognises, and `Form`, the interface of a form.

A form recognises the nodes that one producer writes for a gradient. All later steps use the record only; its class is
that of the gradient's family, such as `families.max_pool.gradient.MaxPoolGradient`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeVar

from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import Shape
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import AdaptiveWindows, PoolAttributes


class View(Enum):
    """How a value holds a tensor of shape (N, C, spatial…)."""

    SAME = "in this shape"
    FLAT = "in another shape, with the elements in row-major order"
    CHANNELS_LAST = "as (N, spatial…, C)"


class Operand(NamedTuple):
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


@dataclass(frozen=True, kw_only=True)
class Gradient(ABC):
    """A proven gradient of a pool, of any family.

    `grad` is the incoming gradient, `dx` what the lowered node computes, `element_type` the `TensorProto.DataType` of
    the pooled input and of both. `x_shape` and `pooled_shape` are the shapes of the pooled input and of the pooled
    output, (N, C, spatial…), with symbols. `windows` are those of the pool, in the terms of an ONNX pool. `pool` is the
    node whose first output is the pooled tensor, None if it is not known.
    """

    grad: Operand
    dx: Operand
    element_type: int
    windows: PoolAttributes | AdaptiveWindows
    x_shape: Shape
    pooled_shape: Shape
    pool: Node | None = None

    @property
    @abstractmethod
    def operands(self) -> tuple[Value, ...]:
        """The values that the lowered node uses."""

    @property
    @abstractmethod
    def selected_by(self) -> Hashable:
        """All that the operator of a target depends on; the text of a refusal may depend on more."""

    @property
    def in_onnx(self) -> bool:
        """Whether the producer wrote it in operators of ONNX that CANN's graph engine runs as they are."""
        return False


class Form(NamedTuple):
    """One form of a pool gradient: its name, the operators (domain, op type) of its anchors, and its match function.

    `match` returns None if the node is not an anchor of this form, and raises `Refuse` if it is one but a condition
    fails. Forms that share an anchor are tried in the order of `priority`, then of their names; the first gradient is
    taken. The default priority puts forms of other packages after those of this one.
    """

    name: str
    anchors: tuple[tuple[str, str], ...]
    summary: str
    match: Callable[[Facts, Node], Gradient | None]
    priority: int = 100

    @property
    def order(self) -> tuple[int, str]:
        """The sort key of the order in which forms are tried."""
        return self.priority, self.name


OWN_FORMS: dict[str, Form] = {}
"""The forms of this package by their names, as far as the modules of `patterns` were imported."""

M = TypeVar("M", bound=Callable[[Facts, Node], Gradient | None])


def form(*anchors: tuple[str, str], summary: str, priority: int) -> Callable[[M], M]:
    """Make the decorated function the `match` of a form of this package, which has the name of its module."""

    def add(match: M) -> M:
        name = match.__module__.rpartition(".")[2]
        if name in OWN_FORMS:
            raise ValueError(f"'{match.__module__}' has a form already: a module has one")
        OWN_FORMS[name] = Form(name, anchors, summary, match, priority)
        return match

    return add
