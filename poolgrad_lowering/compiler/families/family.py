# SPDX-License-Identifier: Apache-2.0

"""`Family`: all that the pass, plans and reports may ask of a family of gradients, such as those of max pools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from onnx import NodeProto

from poolgrad_lowering.compiler.families.gradient import Gradient
from poolgrad_lowering.compiler.families.verdicts import Lowered, LoweredOp
from poolgrad_lowering.compiler.rewriting.bodies import FunctionBodies
from poolgrad_lowering.dialect.targets import Target
from poolgrad_lowering.model.diagnostics.codes import Refusal, attempt
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.scopes import Node, Value

if TYPE_CHECKING:
    from poolgrad_lowering.compiler.families.shared.derivation import Derivation

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


@dataclass(frozen=True)
class ForwardPools(Generic[G, P]):
    """How a family lowers forward pools with their gradients.

    `join(sites, used, target, bodies, taken)` returns what the sites of a model change together, the lowered forward
    pools among it; with the target None all pools stay. The pool of a site whose `forward` is already a refusal stays
    too. `used` are the operands of the sites of other families. `taken` are all names of the model; the names of new
    values are added. The model is not changed.

    `emit(pool, taken)` returns the nodes that take the place of a pool of `join`, in order; exactly one is of the
    dialect.
    """

    join: Callable[[Sequence[Lowered[G]], Sequence[Value], Target | None, FunctionBodies, set[str]], Joined[P]]
    emit: Callable[[P, set[str]], list[NodeProto]]


@dataclass(frozen=True)
class Family(Generic[G, P]):
    """A family of gradients. Its functions take gradients and sites of this family only.

    * `gradient`: the class of its gradients
    * `operators`: the dialect's operators for them, in the order in which plans and reports list them
    * `verify(facts, gradient)` raises `Refuse` at the first condition on every gradient that this one violates
    * `check_operands(gradient)` raises `Refuse` if a node in the place of dx cannot read an operand of a verified
      gradient of the model
    * `select(gradient, target, operator)` returns the lowering of a verified gradient on a target, to `operator` if it
      is not None; raises `Refuse` if the target has no operator for it
    * `emit(facts, site, taken)` returns the nodes that compute the site's dx, in order; exactly one is of the dialect
    * `derivation(site)` returns how the attributes of the lowered node follow from those of its pool, for reports
    * `forward_pools`: None if its forward pools stay nodes of ONNX
    """

    gradient: type[G]
    operators: tuple[str, ...]
    verify: Callable[[Facts, G], None]
    check_operands: Callable[[G], None]
    select: Callable[[G, Target, str | None], LoweredOp]
    emit: Callable[[Facts, Lowered[G], set[str]], list[NodeProto]]
    derivation: Callable[[Lowered[G]], Derivation]
    forward_pools: ForwardPools[G, P] | None = None

    def alternatives(self, gradient: G, target: Target, first: str) -> list[str]:
        """Return the operators of the target that a gradient can be lowered to, without `first`. A plan may choose."""
        others = (name for name in self.operators if name != first)
        return [name for name in others if not isinstance(attempt(self.select, gradient, target, name), Refusal)]
