"""The function bodies and opset imports that a lowered model has to carry, and what stands in their way."""

from __future__ import annotations

from collections.abc import Collection

import onnx
from onnx import FunctionProto, TensorProto

from poolgrad_lowering.codes import Code, Refusal, refuse
from poolgrad_lowering.dialect import DOMAIN, VERSION, NoFunctionBodyError, function_body
from poolgrad_lowering.index import ModelIndex
from poolgrad_lowering.packed_model import PackedModel
from poolgrad_lowering.scopes import Scope

_ONE_BODY_FOR_ALL_TYPES = 15
"""From this opset on CastLike lets one body serve every element type."""


class Bodies:
    """The bodies that a model can have: those it brings, and those made for its sites."""

    def __init__(self, index: ModelIndex) -> None:
        self._index = index
        self._present = {f.name: f for f in index.model.functions if f.domain == DOMAIN}
        # An import that nothing uses says nothing: onnxruntime-training imports every domain that its process knows.
        self._domain_is_used = bool(self._present) or any(
            domain == DOMAIN for scope in index.scopes for domain, _ in scope.by_op
        )
        self._element_types: dict[str, int] = {}
        self._made: dict[tuple[str, int], FunctionProto] = {}

    def require(self, op: str, element_type: int, scope: Scope) -> Refusal | None:
        """Have the body that a node of a scope would need at hand, or say why that cannot be."""
        for place in (scope, self._index.scopes[0]):
            version = place.opsets.get(DOMAIN, VERSION)
            if version != VERSION and self._domain_is_used:
                return refuse(
                    Code.DIALECT_CONFLICT, "the model imports domain {} in version {}, not {}", DOMAIN, version, VERSION
                )
        try:
            body = self._body(op, element_type)
        except NoFunctionBodyError as error:
            return refuse(Code.OPSET, "{}", error)
        if op in self._present and self._present[op] != body:
            return refuse(Code.DIALECT_CONFLICT, "the model has a function {}.{} of its own", DOMAIN, op)
        first = self._element_types.setdefault(op, element_type)
        if self._index.opset < _ONE_BODY_FOR_ALL_TYPES and first != element_type:
            return refuse(
                Code.FUNCTION_DTYPE,
                "the body of {} at opset {} is made for {}, which an earlier gradient has",
                op,
                self._index.opset,
                TensorProto.DataType.Name(first).lower(),
            )
        return None

    def missing(self, ops: Collection[str]) -> list[FunctionProto]:
        """The bodies of the required operators among `ops` that the model does not bring itself."""
        missing = [op for op in self._element_types if op in ops and op not in self._present]
        return [self._body(op, self._element_types[op]) for op in missing]

    def _body(self, op: str, element_type: int) -> FunctionProto:
        """The body for this model, made once. Raises `NoFunctionBodyError`."""
        key = op, element_type
        if key not in self._made:
            self._made[key] = function_body(op, self._index.opset, element_type)
        return self._made[key]


def import_dialect(scope: onnx.ModelProto | PackedModel | FunctionProto) -> None:
    """Have the scope import the dialect, in its version."""
    present = [entry for entry in scope.opset_import if entry.domain == DOMAIN]
    for entry in present or [scope.opset_import.add(domain=DOMAIN)]:
        entry.version = VERSION
