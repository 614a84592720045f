# SPDX-License-Identifier: Apache-2.0

"""The function bodies and the opset import that a lowered model needs, and the reasons why it cannot have them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import lru_cache

from onnx import FunctionProto, ModelProto

from poolgrad_lowering.dialect import DOMAIN, TYPES, VERSION, NoFunctionBodyError, function_body
from poolgrad_lowering.dialect.functions import body_bytes
from poolgrad_lowering.dialect.op import VALUE, Maximum
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Scope
from poolgrad_lowering.model.ir.tensors import type_name

_created = lru_cache(function_body)
"""As `function_body`, created once: nothing may change the result."""


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
        self._maxima: dict[str, Maximum] = {}

    def require(self, op: str, element_type: int, scope: Scope, maximum: Maximum = Maximum.SELECTED) -> None:
        """Require a body for a node of operator `op` in a scope. Raises `Refuse` if there is none.

        `element_type` is the `TensorProto.DataType` of the node's x, `maximum` says how the body of an adaptive pool
        computes y. Earlier requirements stay fulfilled.
        """
        for place in (scope, self._index.scopes[0]):
            version = place.opsets.get(DOMAIN, VERSION)
            if version != VERSION and self._domain_is_used:
                what = "the model imports domain {} in version {}, not {}"
                raise Refuse(Code.DIALECT_CONFLICT, what, DOMAIN, version, VERSION)
        if self._maxima.get(op, maximum) is not maximum:
            raise self._needs_another(op)
        before = self._element_types.get(op, frozenset())
        both = before | {element_type}
        try:
            self._body(op, frozenset({element_type}), maximum)
        except NoFunctionBodyError as error:
            raise Refuse(Code.OPSET, "{}", error) from error
        if op in self._present:
            if self._is_present(op, element_type, maximum):
                return
            if any(self._is_present(op, element_type, other) for other in Maximum):
                raise self._needs_another(op)
            raise Refuse(Code.DIALECT_CONFLICT, "the model defines its own function {}.{}", DOMAIN, op)
        try:
            self._body(op, both, maximum)
        except NoFunctionBodyError as error:
            supported = " and ".join(map(type_name, sorted(before)))
            what = "the body of {} at opset {} supports only {}, the element type of an earlier gradient"
            raise Refuse(Code.FUNCTION_DTYPE, what, op, self._index.opset, supported) from error
        self._element_types[op], self._maxima[op] = both, maximum

    def missing(self, element_types: Mapping[str, Collection[int]]) -> list[FunctionProto]:
        """Return the bodies that the model lacks, given the operators and the element types of their nodes.

        Each operator must have been required with each of its types.
        """
        return [
            self._body(op, frozenset(types), self._maxima.get(op, Maximum.SELECTED))
            for op, types in element_types.items()
            if op not in self._present
        ]

    def _body(self, op: str, element_types: frozenset[int], maximum: Maximum) -> FunctionProto:
        """Return the body for the model's opset. Raises `NoFunctionBodyError`."""
        return _created(op, self._index.opset, element_types, maximum=maximum)

    def _is_present(self, op: str, element_type: int, maximum: Maximum) -> bool:
        """Whether the model has the body for this type or for all types, also as other tools write it."""
        present = self._present[op]
        bodies = []
        for types in (frozenset({element_type}), frozenset(TYPES[VALUE])):
            with suppress(NoFunctionBodyError):
                bodies.append(self._body(op, types, maximum))
        return present in bodies or body_bytes(present) in map(body_bytes, bodies)

    @staticmethod
    def _needs_another(op: str) -> Refuse:
        return Refuse(Code.FORWARD_BODY, "another pool of the model needs another body of {}.{}", DOMAIN, op)


def import_dialect(scope: ModelProto | FunctionProto) -> None:
    """Add the dialect's opset import to a model or function, or set its version."""
    present = [entry for entry in scope.opset_import if entry.domain == DOMAIN]
    for entry in present or [scope.opset_import.add(domain=DOMAIN)]:
        entry.version = VERSION
