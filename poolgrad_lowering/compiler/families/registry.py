# SPDX-License-Identifier: Apache-2.0

"""The families of gradients that the compiler lowers, a row each: what the pass, plans and reports may ask of one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from onnx import NodeProto

from poolgrad_lowering.compiler.families.avg_pool import derivation as average_derivation
from poolgrad_lowering.compiler.families.avg_pool import emit as average_emit
from poolgrad_lowering.compiler.families.avg_pool import gradient as average
from poolgrad_lowering.compiler.families.avg_pool import legality as average_legality
from poolgrad_lowering.compiler.families.gradient import Gradient
from poolgrad_lowering.compiler.families.max_pool import derivation as maximum_derivation
from poolgrad_lowering.compiler.families.max_pool import emit as maximum_emit
from poolgrad_lowering.compiler.families.max_pool import gradient as maximum
from poolgrad_lowering.compiler.families.max_pool import legality as maximum_legality
from poolgrad_lowering.compiler.families.max_pool.forward_pools import join
from poolgrad_lowering.compiler.families.shared.derivation import Derivation
from poolgrad_lowering.compiler.families.verdicts import Joined, Lowered, LoweredOp, LoweredPool
from poolgrad_lowering.compiler.rewriting.bodies import FunctionBodies
from poolgrad_lowering.dialect import OPS
from poolgrad_lowering.dialect.targets import Target
from poolgrad_lowering.model.diagnostics.codes import Refusal, attempt
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.scopes import Value

G = TypeVar("G", bound=Gradient)


@dataclass(frozen=True, eq=False)
class Family(Generic[G]):
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
    * `join(sites, used, target, bodies, taken)` returns what the sites of a model change together, the lowered forward
      pools among it; with the target None all pools stay. The pool of a site whose `forward` is already a refusal stays
      too. `used` are the operands of the sites of other families. `taken` are all names of the model; the names of new
      values are added. The model is not changed. By default forward pools stay nodes of ONNX
    * `emit_pool(pool, taken)` returns the nodes that take the place of a pool of `join`, in order; exactly one of them
      is of the dialect. A family whose `join` gives pools has to say it
    """

    gradient: type[G]
    operators: tuple[str, ...]
    verify: Callable[[Facts, G], None]
    check_operands: Callable[[G], None]
    select: Callable[[G, Target, str | None], LoweredOp]
    emit: Callable[[Facts, Lowered[G], set[str]], list[NodeProto]]
    derivation: Callable[[Lowered[G]], Derivation]
    join: Callable[[Sequence[Lowered[G]], Sequence[Value], Target | None, FunctionBodies, set[str]], Joined] = (
        lambda sites, *_: Joined(sites, (), {})
    )
    emit_pool: Callable[[LoweredPool[G], set[str]], list[NodeProto]] = lambda *_: []


MAX_POOLS = Family[maximum.MaxPoolGradient](
    maximum.MaxPoolGradient,
    tuple(op.name for op in OPS.values() if op.is_gradient and op.has_argmax),
    maximum.verify_gradient,
    maximum.check_operands,
    maximum_legality.select_op,
    maximum_emit.emit,
    maximum_derivation.derivation,
    join,
    maximum_emit.emit_forward,
)
"""Gradients of MaxPool and AdaptiveMaxPool."""

AVERAGE_POOLS = Family[average.AveragePoolGradient](
    average.AveragePoolGradient,
    tuple(op.name for op in OPS.values() if op.is_gradient and not op.has_argmax),
    average.verify_gradient,
    average.check_operands,
    average_legality.select_op,
    average_emit.emit,
    average_derivation.derivation,
)
"""Gradients of AveragePool and of adaptive average pools, which read nothing of their forward pools."""

FAMILIES: tuple[Family[Any], ...] = (MAX_POOLS, AVERAGE_POOLS)

GRADIENT_OPERATORS = tuple(name for family in FAMILIES for name in family.operators)
"""The dialect's operators for gradients of all families."""


def family_of(gradient: Gradient) -> Family[Any]:
    """Return the family of a gradient. Raises `TypeError` for a class that no family has."""
    for family in FAMILIES:
        if isinstance(gradient, family.gradient):
            return family
    raise TypeError(f"{type(gradient).__name__} is the gradient of no family")


class Choices:
    """The operators of a target for the gradients of one model, selected once for gradients that need the same one."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._selected: dict[Hashable, LoweredOp] = {}
        self._alternatives: dict[Hashable, list[str]] = {}

    def select(self, gradient: Gradient) -> LoweredOp:
        """Return the operator for a verified gradient. Raises `Refuse`."""
        family = family_of(gradient)
        family.check_operands(gradient)
        key = family, gradient.selected_by
        if key not in self._selected:
            self._selected[key] = family.select(gradient, self.target, None)
        return self._selected[key]

    def alternatives(self, gradient: Gradient, first: str) -> list[str]:
        """Return the operators of the target that a gradient can be lowered to, without `first`. A plan may choose."""
        family = family_of(gradient)
        key = family, gradient.selected_by, first
        if key not in self._alternatives:
            others = [name for name in family.operators if name != first]
            found = {name: attempt(family.select, gradient, self.target, name) for name in others}
            self._alternatives[key] = [name for name in others if not isinstance(found[name], Refusal)]
        return list(self._alternatives[key])
