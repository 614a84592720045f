# SPDX-License-Identifier: Apache-2.0

"""The function bodies and the opset import that a lowered model needs, and the reasons why it cannot have them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from onnx import FunctionProto, TensorProto

from poolgrad_lowering.diagnostics.codes import Code, Refusal, refuse
from poolgrad_lowering.dialect import DOMAIN, TYPES, VERSION, NoFunctionBodyError, function_body
from poolgrad_lowering.dialect.body_bytes import body_bytes
from poolgrad_lowering.dialect.op import VALUE
from poolgrad_lowering.ir.index import ModelIndex
from poolgrad_lowering.ir.model import Model
from poolgrad_lowering.ir.scopes import Scope


class FunctionBodies:
    """The function bodies of dialect operators in a model: those it already has, and those created for its sites."""

    def __init__(self, index: ModelIndex) -> None:
        self._index = index
        self._present = {f.name: f for f in index.model.functions if f.domain == DOMAIN}
        # An unused import has no meaning: onnxruntime-training imports every domain registered in its process.
        self._domain_is_used = bool(self._present) or any(
            domain == DOMAIN for scope in index.scopes for domain, _ in scope.by_op
        )
        self._element_types: dict[str, frozenset[int]] = {}
        self._created: dict[tuple[str, frozenset[int]], FunctionProto] = {}

    def require(self, op: str, element_type: int, scope: Scope) -> Refusal | None:
        """Require a body for a node of operator `op` in a scope; return the reason if there is none, else None.

        `element_type` is the `TensorProto.DataType` of the node's x. Earlier requirements stay fulfilled.
        """
        for place in (scope, self._index.scopes[0]):
            version = place.opsets.get(DOMAIN, VERSION)
            if version != VERSION and self._domain_is_used:
                return refuse(
                    Code.DIALECT_CONFLICT, "the model imports domain {} in version {}, not {}", DOMAIN, version, VERSION
                )
        before = self._element_types.get(op, frozenset())
        both = before | {element_type}
        try:
            alone = self._body(op, frozenset({element_type}))
        except NoFunctionBodyError as error:
            return refuse(Code.OPSET, "{}", error)
        if op in self._present:
            if not self._is_present(op, alone) and not self._is_present(op, self._body_of_all_types(op)):
                return refuse(Code.DIALECT_CONFLICT, "the model defines its own function {}.{}", DOMAIN, op)
            return None
        try:
            self._body(op, both)
        except NoFunctionBodyError:
            return refuse(
                Code.FUNCTION_DTYPE,
                "the body of {} at opset {} supports only {}, the element type of an earlier gradient",
                op,
                self._index.opset,
                " and ".join(TensorProto.DataType.Name(other).lower() for other in sorted(before)),
            )
        self._element_types[op] = both
        return None

    def missing(self, element_types: Mapping[str, Collection[int]]) -> list[FunctionProto]:
        """Return the bodies that the model lacks, given the operators and the element types of their nodes.

        Each operator must have been required with each of its types.
        """
        return [self._body(op, frozenset(types)) for op, types in element_types.items() if op not in self._present]

    def _body(self, op: str, element_types: frozenset[int]) -> FunctionProto:
        """Return the body for the model's opset, created once. Raises `NoFunctionBodyError`."""
        key = op, element_types
        if key not in self._created:
            self._created[key] = function_body(op, self._index.opset, element_types)
        return self._created[key]

    def _is_present(self, op: str, body: FunctionProto | None) -> bool:
        """Whether the model has this body of an operator, also as other tools write it."""
        present = self._present[op]
        return present == body or (body is not None and body_bytes(present) == body_bytes(body))

    def _body_of_all_types(self, op: str) -> FunctionProto | None:
        try:
            return self._body(op, frozenset(TYPES[VALUE]))
        except NoFunctionBodyError:
            return None


def import_dialect(scope: Model | FunctionProto) -> None:
    """Add the dialect's opset import to a model or function, or set its version."""
    present = [entry for entry in scope.opset_import if entry.domain == DOMAIN]
    for entry in present or [scope.opset_import.add(domain=DOMAIN)]:
        entry.version = VERSION
