# SPDX-License-Identifier: Apache-2.0

"""The record that defines an operator in standard ONNX, and what a definition may ask of the node that it is for.

A definition is written for one node as a body in operators of opset 18. So it has the node's numbers in it, and no node
for what the node does not need. `inline` writes it for older opsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.training_operators import MICROSOFT, TRAINING_OPERATORS, TrainingOperator
from poolgrad_lowering.model.facts.type_rules import HALF_TYPES
from poolgrad_lowering.model.ir.attributes import UNREADABLE, attribute
from poolgrad_lowering.model.ir.bodies import BodyNode, Tensor
from poolgrad_lowering.model.ir.dims import Shape, Shown, is_static
from poolgrad_lowering.model.ir.scopes import Node, Value

MOST_NUMBERS = 1 << 24
"""The most numbers that a body may have as constants: more than any network needs, fewer than fill a memory."""
_NUMBERS = {*TensorProto.DataType.values()} - {TensorProto.UNDEFINED, TensorProto.STRING}


@dataclass(frozen=True)
class Definition:
    """How an operator of `TRAINING_OPERATORS` is defined, whose row has the names of its operands in the body.

    `write` returns the outputs by their names, or the first one alone, or raises `Refuse`. `formula` is what the
    documentation says. Raises `ValueError` for an operator without a row: the facts would know no shape of its results.
    """

    operator: str
    write: Callable[[Call], Mapping[str, Tensor] | Tensor]
    formula: str
    domain: str = MICROSOFT

    def __post_init__(self) -> None:
        if self.op not in TRAINING_OPERATORS:
            raise ValueError(
                f"the definition of {self.operator} has no row in TRAINING_OPERATORS of "
                "model/facts/training_operators.py, which has its operands' names and its results' shapes"
            )

    @property
    def op(self) -> tuple[str, str]:
        """The domain and the operator type."""
        return self.domain, self.operator

    @property
    def operands(self) -> TrainingOperator:
        """The operator's row."""
        return TRAINING_OPERATORS[self.op]


DEFINITIONS: dict[tuple[str, str], Definition] = {}
"""The definitions by domain and operator: those of the modules that were imported, of which `table` imports all."""

Write = TypeVar("Write", bound=Callable[..., Mapping[str, Tensor] | Tensor])


def defines(operator: str, formula: str, *, domain: str = MICROSOFT, **options: bool) -> Callable[[Write], Write]:
    """Make the decorated function, called with `options`, the definition of an operator; see `Definition`."""

    def add(write: Write) -> Write:
        made = Definition(operator, partial(write, **options), formula, domain)
        if made.op in DEFINITIONS:
            raise ValueError(f"'{write.__name__}' defines {operator}, which has a definition already")
        DEFINITIONS[made.op] = made
        return write

    return add


class Call:
    """The node that a body is written for: its attributes, and what is known of its operands.

    `facts` are those of the model. All questions of sizes raise `Refuse` if the answer is not known.
    """

    def __init__(self, node: Node, facts: Facts, definition: Definition) -> None:
        self.node = node
        self.facts = facts
        self.definition = definition
        self.outputs = operand_names(definition.operands.outputs, len(node.outputs))
        """The names of the outputs in the body."""
        self._inputs = operand_names(definition.operands.inputs, len(node.inputs))
        self._body: list[BodyNode] = []
        what = "{} {}, of which its definition has {}"
        proto = node.proto
        for kind, given, names in (("inputs", proto.input, self._inputs), ("outputs", proto.output, self.outputs)):
            if any(given[len(names) :]):
                raise Refuse(DefinitionCode.UNCOVERED_OPERAND, what, len(given), kind, len(names))

    def operand(self, name: str) -> Value | None:
        """Return the value of an input, None if the node does not have it."""
        position = self._inputs.index(name) if name in self._inputs else -1
        return self.node.input(position) if position >= 0 else None

    def has(self, name: str) -> bool:
        """Whether the node has this input."""
        return self.operand(name) is not None

    def wants(self, name: str) -> bool:
        """Whether the node has this output."""
        return name in self.outputs and self.node.output(self.outputs.index(name)) is not None

    def all_inputs(self) -> list[str]:
        """Return the names of the inputs that the node has."""
        return [name for name in self._inputs if self.has(name)]

    def value(self, value: Value) -> Tensor:
        """Return a value of the graph."""
        return Tensor(self._body, value.name, self.facts.element_type(value) or 0)

    def constant(self, values: npt.ArrayLike) -> Tensor:
        """Return a constant; integers are of int64."""
        return Tensor(self._body, np.asarray(values))

    def tensor(self, name: str) -> Tensor:
        """Return an input."""
        return self.value(self._given(name))

    def typed(self, name: str) -> Tensor:
        """Return an input whose element type is known."""
        self.element_type(name)
        return self.tensor(name)

    def converted(self, name: str, element_type: int) -> Tensor:
        """Return an input in an element type; without a Cast if it is not known to have another one.

        Some releases of onnxruntime fail with a Cast of a 16-bit float to its own type.
        """
        tensor = self.tensor(name)
        return tensor if tensor.element_type in (0, element_type) else tensor.cast(element_type)

    def widened(self, *names: str) -> list[Tensor]:
        """Return inputs, of which 16-bit floats are computed in float32. The type of the first one has to be known.

        Others without a known type, such as the statistics that another operator saved, are read as they are.
        """
        self.element_type(names[0])
        found = map(self.tensor, names)
        return [each.cast(TensorProto.FLOAT) if each.element_type in HALF_TYPES else each for each in found]

    def narrowed(self, result: Tensor, name: str) -> Tensor:
        """Return a result that was computed from `widened` inputs in the type of one of them, rounded once."""
        kind = self.tensor(name).element_type
        return result.cast(kind) if kind in HALF_TYPES else result

    def shape(self, name: str) -> Shape:
        """Return the shape of an input."""
        value = self._given(name)
        shape = self.facts.shape(value)
        if shape is None:
            raise Refuse(DefinitionCode.UNKNOWN_SIZES, "the rank of '{}' is not known", value.name)
        return shape

    def rank(self, name: str) -> int:
        """Return the rank of an input."""
        return len(self.shape(name))

    def sizes(self, name: str, first: int = 0) -> list[int]:
        """Return the sizes of an input from an axis on, as numbers."""
        shape = self.shape(name)[first:]
        if not is_static(shape):
            raise Refuse(DefinitionCode.UNKNOWN_SIZES, "'{}' has sizes {}", self._given(name).name, Shown(shape))
        return [dim.coefficient for dim in shape]

    def count(self, name: str, axis: int) -> int:
        """Return the size of an axis of an input, as a number."""
        shape = self.shape(name)
        size = shape[axis].static if axis < len(shape) else None
        if size is None:
            what = "'{}' has no fixed size on axis {}"
            raise Refuse(DefinitionCode.UNKNOWN_SIZES, what, self._given(name).name, axis)
        return size

    def require_few(self, count: int) -> None:
        """Raise `Refuse` if a body would have more than `MOST_NUMBERS` constants."""
        if count > MOST_NUMBERS:
            raise self.refuse(f"sizes for which its definition has {count} constants")

    def element_type(self, name: str) -> int:
        """Return the `TensorProto.DataType` of an input."""
        value = self._given(name)
        element_type = self.facts.element_type(value)
        if not element_type or element_type not in _NUMBERS:
            raise Refuse(DefinitionCode.UNKNOWN_SIZES, "the element type of '{}' is not known", value.name)
        return element_type

    def integers(self, name: str) -> list[int] | None:
        """Return the integers of an input, None if it is absent."""
        value = self.operand(name)
        return None if value is None else self.integers_of(value)

    def dims(self, name: str) -> Shape:
        """Return the integers of an input, with symbols where they are sizes of the graph."""
        value = self._given(name)
        found = self.facts.integers(value)
        if found is None:
            raise Refuse(DefinitionCode.UNCOVERED_OPERAND, "'{}' is no constant", value.name)
        return found

    def numbers(self, name: str) -> list[float] | None:
        """Return the values of a constant vector, None if it is absent or no constant."""
        value = self.operand(name)
        found = None if value is None else self.facts.constant(value)
        return None if found is None else [float(number) for number in found.flat]

    def number(self, name: str) -> float | None:
        """Return the value of a constant scalar, None if it is absent or no constant."""
        found = self.numbers(name)
        return found[0] if found is not None and len(found) == 1 else None

    def integers_of(self, value: Value | None) -> list[int]:
        """Return the elements of any constant vector of integers of the graph."""
        found = None if value is None else self.facts.integers(value)
        if value is None or found is None or not is_static(found):
            raise Refuse(DefinitionCode.UNCOVERED_OPERAND, "'{}' is no constant", "" if value is None else value.name)
        return [dim.coefficient for dim in found]

    def attribute(self, name: str, absent: Any = None) -> Any:
        """Return an attribute, or `absent`, of whose type it is; a string as text. Lists are of integers."""
        found = attribute(self.node, name)
        if found is None:
            return absent
        if found is UNREADABLE:
            raise self.refuse(f"attribute {name} is not readable")
        has_type = absent is None or isinstance(found, type(absent))
        if not has_type or (isinstance(absent, list) and not all(isinstance(number, int) for number in found)):
            raise self.refuse(f"attribute {name} is {found}")
        return found

    def axis(self, rank: int, absent: int) -> int:
        """Return the attribute `axis` as a number in [0, rank)."""
        axis = self.attribute("axis", absent)
        if not isinstance(axis, int) or not -rank <= axis < rank:
            raise self.refuse(f"axis {axis} of {rank} axes")
        return axis % rank

    def refuse(self, what: str) -> Refuse:
        """Return the refusal of a node with an attribute or an operand that the definition does not cover."""
        return Refuse(DefinitionCode.UNCOVERED_OPERAND, "{}", what)

    def _given(self, name: str) -> Value:
        value = self.operand(name)
        if value is None:
            raise self.refuse(f"it lacks its input {name}")
        return value


def operand_names(written: str, count: int) -> tuple[str, ...]:
    """Return the names of operands; a last name with `*` is numbered for all operands from there on."""
    names = written.split()
    if names and names[-1].endswith("*"):
        last = names.pop()[:-1]
        names += [f"{last}{number}" for number in range(count - len(names))]
    return tuple(names)
