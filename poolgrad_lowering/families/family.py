# SPDX-License-Identifier: Apache-2.0

"""`Family`: all that the pass, plans and reports may ask of a family of gradients, such as those of max pools."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from onnx import NodeProto

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.diagnostics.codes import Refusal, attempt
from poolgrad_lowering.families.gradient import Gradient
from poolgrad_lowering.families.verdicts import Lowered, LoweredOp
from poolgrad_lowering.ir.scopes import Node, Value
from poolgrad_lowering.rewriting.bodies import FunctionBodies
from poolgrad_lowering.targets.table import Target

if TYPE_CHECKING:
    from poolgrad_lowering.families.derivation import Derivation

G = TypeVar("G", bound=Gradient)
P = TypeVar("P", bound="LoweredPool")


@dataclass(frozen=True)
class LoweredPool:
    """A forward pool that is lowered: the node, its operator, its operand x and its result y.

    `element_type` is the `TensorProto.DataType` of x. `place` is the node at whose place the operator stands.
    """

    pool: Node
    op: LoweredOp
    x: Value
    y: Value
    element_type: int
    place: Node


@dataclass(frozen=True)
class Joined(Generic[P]):
    """What the sites of a family change together.

    `sites` are in the given order, each with its final operands and `forward`. `pools` are lowered with them.
    `added_outputs` has the name of the second output that a node of the model gets.
    """

    sites: Sequence[Lowered[Any]]
    pools: Sequence[P] = ()
    added_outputs: Mapping[Node, str] = field(default_factory=dict)


class Family(ABC, Generic[G, P]):
    """A family of gradients. Its methods take gradients and sites of this family only."""

    gradient: type[G]
    """The class of its gradients."""

    operators: tuple[str, ...]
    """The dialect's operators for its gradients, in the order in which plans and reports list them."""

    @abstractmethod
    def verify(self, facts: Facts, gradient: G) -> None:
        """Raise `Refuse` at the first condition on every gradient of the family that this one violates."""

    @abstractmethod
    def check_operands(self, gradient: G) -> None:
        """Raise `Refuse` if a node in the place of dx cannot read an operand of a verified gradient of the model."""

    @abstractmethod
    def select(self, gradient: G, target: Target, operator: str | None = None) -> LoweredOp:
        """Return the lowering of a verified gradient on a target, to `operator` if it is given.

        Raises `Refuse` if the target has no operator for it.
        """

    @abstractmethod
    def join(
        self,
        sites: Sequence[Lowered[G]],
        used: Sequence[Value],
        target: Target,
        bodies: FunctionBodies,
        taken: set[str],
        *,
        forward: bool,
    ) -> Joined[P]:
        """Return what the sites of a model change together; with `forward`, lower the forward pools that can be.

        The pool of a site whose `forward` is already a refusal stays. `used` are the operands of the sites of other
        families. `taken` are all names of the model; the names of new values are added. The model is not changed.
        """

    @abstractmethod
    def emit(self, facts: Facts, site: Lowered[G], taken: set[str]) -> list[NodeProto]:
        """Return the nodes that compute the site's dx, in order; exactly one is of the dialect."""

    @abstractmethod
    def emit_pool(self, pool: P, taken: set[str]) -> list[NodeProto]:
        """Return the nodes that take the place of a forward pool of `join`, in order; exactly one is of the dialect."""

    @abstractmethod
    def derivation(self, site: Lowered[G]) -> Derivation:
        """Return how the attributes of the lowered node follow from those of its pool, for reports."""

    def alternatives(self, gradient: G, target: Target, first: str) -> list[str]:
        """Return the operators of the target that a gradient can be lowered to, without `first`. A plan may choose."""
        others = (name for name in self.operators if name != first)
        return [name for name in others if not isinstance(attempt(self.select, gradient, target, name), Refusal)]
