# SPDX-License-Identifier: Apache-2.0

"""The verdict on an anchor: lowered, with its gradient and operator, or not lowered, with a code; and lowered pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from onnx import AttributeProto, helper

from poolgrad_lowering.compiler.families.gradient import Gradient
from poolgrad_lowering.model.diagnostics.codes import Refusal
from poolgrad_lowering.model.diagnostics.diagnostic import Severity, Status
from poolgrad_lowering.model.ir.scopes import Node, Value

G_co = TypeVar("G_co", bound=Gradient, covariant=True)


@dataclass(frozen=True)
class LoweredOp:
    """The dialect operator that a gradient or pool is lowered to, and its attributes.

    `canvas` is the padding (before, after) of x on each spatial axis, empty if x is not padded. `divisors` has the
    divisor of each window by axis, by whose products the gradient is divided before; empty if it is not divided.
    """

    name: str
    attributes: Mapping[str, int | float | str | list[int]]
    canvas: tuple[tuple[int, int], ...] = ()
    divisors: tuple[tuple[int, ...], ...] = ()

    @cached_property
    def stored(self) -> list[AttributeProto]:
        """The attributes as each node of the operator stores them."""
        return [helper.make_attribute(name, value) for name, value in sorted(self.attributes.items())]


@dataclass(frozen=True)
class Lowered(Generic[G_co]):
    """A site: an anchor that is lowered to `op`. `site` is its identifier, `form` the one that recognised it.

    `forward` is the operator of its forward pool, the reason why the pool stays, or None if pools are not lowered.
    `trusted_defaults` are the graph inputs whose defaults the proof takes for constants.
    """

    site: str
    anchor: Node
    form: str
    gradient: G_co
    op: LoweredOp
    forward: LoweredOp | Refusal | None = None
    trusted_defaults: tuple[str, ...] = ()
    status = Status.LOWERED

    def refused(self, refusal: Refusal) -> Refused:
        """Return the verdict that the site is not lowered, for this reason."""
        return Refused(self.site, self.anchor, self.form, refusal)


class Refused(NamedTuple):
    """An anchor that is not lowered. `form` is the form that proved it a gradient, None if none did."""

    site: str
    anchor: Node
    form: str | None
    refusal: Refusal

    @property
    def status(self) -> Status:
        """REFUSED, or UNRELATED for an anchor that is proven to be no gradient of a pool."""
        return Status.UNRELATED if self.refusal.code.severity is Severity.NOTE else Status.REFUSED


Verdict = Lowered[Any] | Refused


@dataclass(frozen=True)
class LoweredPool(Generic[G_co]):
    """A forward pool that is lowered: the node, its operator, the first of its gradients, its operand and its results.

    The operator reads `viewed`: x, or a new value of the shape that x has in the gradient, which reads it too. `argmax`
    is a new value, or the Indices if nodes use their shape, which is that of the argmax. `place` is the node at whose
    place the operator stands.
    """

    pool: Node
    op: LoweredOp
    gradient: G_co
    x: Value
    viewed: Value
    y: Value
    argmax: Value
    place: Node


class Joined(NamedTuple):
    """What sites change together.

    `verdicts` are in the given order, sites with their final operands and `forward`. `pools` are lowered with them.
    `added_outputs` has the name of the second output that a node of the model gets.
    """

    verdicts: Sequence[Verdict]
    pools: Sequence[LoweredPool[Any]]
    added_outputs: Mapping[Node, str]

    @property
    def sites(self) -> list[Lowered[Any]]:
        """The verdicts that are lowered."""
        return [verdict for verdict in self.verdicts if isinstance(verdict, Lowered)]
