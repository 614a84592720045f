# SPDX-License-Identifier: Apache-2.0

"""The facts that a graph proves about its values: element type, shape, constants, zeros.

Every fact is computed once per value and stored. Facts are proofs: `None` means "not known", never "no". Shapes are
derived from the operators that move data, then taken from the model's declarations, and if both are unknown from ONNX's
own shape inference, which runs at most once, on a copy without weights.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import TensorProto

from poolgrad_lowering.analysis.constants import all_bits_clear, bits_clear, small_array, stored_tensor
from poolgrad_lowering.analysis.declared_shapes import read_shape
from poolgrad_lowering.analysis.inference import inferred_types
from poolgrad_lowering.analysis.integer_rules import integer_rule
from poolgrad_lowering.analysis.pool import PoolAttributes
from poolgrad_lowering.analysis.shape_rules import ELEMENTWISE, SHAPE_RULES, is_opaque
from poolgrad_lowering.analysis.type_rules import KEEPS_TYPE, stated_type
from poolgrad_lowering.io.external_data import ExternalData, UnreadableError
from poolgrad_lowering.ir.attributes import attribute
from poolgrad_lowering.ir.dims import Dim, Shape, is_static
from poolgrad_lowering.ir.index import ModelIndex
from poolgrad_lowering.ir.scopes import Node, Value

T = TypeVar("T")

VIEW_OPS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")
"""Operators whose output has the input's elements in the same row-major order."""

_PLAIN_CONSTANTS: tuple[tuple[str, type[np.generic]], ...] = (
    ("value_int", np.int64),
    ("value_ints", np.int64),
    ("value_float", np.float32),
    ("value_floats", np.float32),
)
_UNASKED = object()
_MAX_TABLE = 1 << 23
_MAX_DEPTH = 64
"""The largest recursion depth: each level takes up to seven frames of Python's stack, which has 1000."""


class Facts:
    """The facts of one model's values.

    Constants in external data are read through `external`; the default reads none. `read_error` is a sentence on the
    first external tensor that could not be read for a fact since the caller last set `read_error` to the empty text.
    """

    def __init__(self, index: ModelIndex, external: ExternalData | None = None) -> None:
        self.read_error = ""
        self._index = index
        self._external = external or ExternalData()
        self._read_errors: dict[tuple[str, Value], str] = {}
        self._memo: defaultdict[str, dict[Value, Any]] = defaultdict(dict)
        self._functions = frozenset((function.domain, function.name) for function in index.model.functions)
        self._pools: dict[Node, PoolAttributes | None] = {}
        self._depth = 0

    def shape(self, value: Value) -> Shape | None:
        """Return the value's shape, or None if its rank is not known. Each unnamed size is a unique symbol."""
        return self._once("shape", value, self._shape)

    def declared_shape(self, value: Value) -> Shape | None:
        """Return the shape that the model declares for the value, or None."""
        declared = value.scope.declared(value.name)
        return None if declared is None else read_shape(value, declared.type)

    def element_type(self, value: Value) -> int | None:
        """Return the value's `TensorProto.DataType`, or None."""
        return self._once("element_type", value, self._element_type)

    def constant(self, value: Value) -> np.ndarray[Any, Any] | None:
        """Return a constant of up to 2^16 elements (an initializer that is not an input, or a Constant), or None."""
        return self._once("constant", value, self._constant)

    def table(self, value: Value) -> np.ndarray[Any, Any] | None:
        """As `constant`, for up to 2^23 elements."""
        return self._once("table", value, self._table)

    def integers(self, value: Value) -> Shape | None:
        """Return the elements of an integer scalar or vector, symbolic if they are symbolic sizes, or None."""
        return self._once("integers", value, self._integers)

    def is_zero(self, value: Value) -> bool:
        """Whether every element is proven to be +0.0 (all bits clear)."""
        return bool(self._once("zero", value, self._is_zero))

    def pool(self, node: Node) -> PoolAttributes | None:
        """Return the attributes of a MaxPool node, or None if they are malformed."""
        if node not in self._pools:
            self._pools[node] = PoolAttributes.read(node)
        return self._pools[node]

    def is_function(self, node: Node) -> bool:
        """Whether the model defines the node's operator as a function, so that its name does not determine it."""
        return node.op in self._functions

    def _once(self, fact: str, value: Value, compute: Callable[[Value], T]) -> T | None:
        """Return a fact, computed on first use; None if its computation depends on itself (a cycle) or is too deep."""
        known = self._memo[fact]
        found = known.get(value, _UNASKED)
        if found is not _UNASKED:
            self.read_error = self.read_error or self._read_errors.get((fact, value), "")
            return found  # type: ignore[no-any-return]
        if self._depth >= _MAX_DEPTH:
            return None
        known[value] = None
        self._depth += 1
        error_before, self.read_error = self.read_error, ""
        try:
            result = compute(value)
        finally:
            self._depth -= 1
            if self.read_error:
                self._read_errors[fact, value] = self.read_error
            self.read_error = error_before or self.read_error
        known[value] = result
        return result

    # -- element types

    def _element_type(self, value: Value) -> int | None:
        tensor = value.scope.initializer(value.name)
        if tensor is not None:
            return tensor.data_type
        declared = value.scope.declared(value.name)
        if declared is not None and declared.type.tensor_type.elem_type:
            return declared.type.tensor_type.elem_type
        node = value.producer
        if node is not None:
            stated = stated_type(node, value)
            if stated is not None:
                return stated
            source = node.input(0)
            keeps_type = node.is_a(*KEEPS_TYPE, *VIEW_OPS)
            found = self.element_type(source) if keeps_type and source is not None else None
            if found:
                return found
        inferred = self._inferred.get(value)
        if inferred is not None and inferred.tensor_type.elem_type:
            return inferred.tensor_type.elem_type
        return self._passed(value, self.element_type)

    # -- shapes

    def _shape(self, value: Value) -> Shape | None:
        tensor = stored_tensor(value)
        if tensor is not None:
            return tuple(Dim(size) for size in tensor.dims) if min(tensor.dims, default=0) >= 0 else None
        node = value.producer
        declared = self.declared_shape(value) if node is None or node.is_a(*ELEMENTWISE) else None
        if declared is not None and is_static(declared):
            return declared
        derived = self._derived_shape(value, node) if node is not None else None
        if derived is not None and min([dim.coefficient for dim in derived], default=0) < 0:
            derived = None  # the model cannot run
        if derived is not None and not any(map(is_opaque, derived)):
            return derived
        declared = declared or self.declared_shape(value)
        if derived is None and declared is None:
            inferred = self._inferred.get(value)
            return read_shape(value, inferred) if inferred is not None else self._passed(value, self.shape)
        if derived is None or declared is None or len(derived) != len(declared):
            return declared if derived is None else derived
        return tuple(d if is_opaque(s) else s for s, d in zip(derived, declared, strict=True))

    # -- views

    def is_view(self, node: Node) -> bool:
        """Whether the output has the input's elements in the same row-major order."""
        if node.is_a(*VIEW_OPS):
            return True
        if not node.is_a("Expand"):
            return False
        source, output = node.input(0), node.output(0)
        if source is None or output is None:
            return False
        shape = self.shape(source)
        return shape is not None and shape == self.shape(output)  # exporters write Expand nodes without effect

    # -- inputs of functions

    def _passed(self, value: Value, fact: Callable[[Value], T | None]) -> T | None:
        """Return a fact about a function's input if all calls of the function agree on it, else None."""
        proto = value.scope.proto
        if not isinstance(proto, onnx.FunctionProto) or value.name not in value.scope.inputs:
            return None
        position = list(proto.input).index(value.name)
        operands = [node.input(position) for node in self._index.calls(value.scope)]
        found = {None if operand is None else fact(operand) for operand in operands}
        return found.pop() if len(found) == 1 else None

    @cached_property
    def _inferred(self) -> dict[Value, onnx.TypeProto]:
        return inferred_types(self._index, self._external)

    def _derived_shape(self, value: Value, node: Node) -> Shape | None:
        _, op_type = node.op
        rule = SHAPE_RULES.get(op_type) if node.is_a(op_type) else None
        return rule(self, node, value) if rule is not None else None

    # -- constants and integers

    def _constant(self, value: Value) -> np.ndarray[Any, Any] | None:
        origin = value.origin  # exporters share equal constants by Identity
        tensor, node = stored_tensor(origin), origin.producer
        if tensor is not None:
            return self._read(origin, lambda: small_array(tensor, self._external))
        if node is None or not node.is_a("Constant"):
            return None
        for name, dtype in _PLAIN_CONSTANTS:
            stored = attribute(node, name)
            if isinstance(stored, (int, float, list)):
                return np.asarray(stored, dtype)
        return None

    def _table(self, value: Value) -> np.ndarray[Any, Any] | None:
        origin = value.origin
        tensor = stored_tensor(origin)
        if tensor is None:
            return self.constant(value)
        return self._read(origin, lambda: small_array(tensor, self._external, _MAX_TABLE))

    def _read(self, value: Value, read: Callable[[], T]) -> T | None:
        """Return the result of `read`; None, with `read_error` set, if it needs external data that cannot be read."""
        try:
            return read()
        except UnreadableError as error:
            self.read_error = self.read_error or f"'{value.name}': {error}"
            return None

    def _integers(self, value: Value) -> Shape | None:
        constant = self.constant(value)
        if constant is not None:
            if constant.ndim > 1 or constant.dtype.kind not in "iu":
                return None
            return tuple(Dim(int(number)) for number in constant.reshape(-1))
        node = value.producer
        rule = integer_rule(value)
        return rule(self, node) if rule is not None and node is not None and not self.is_function(node) else None

    # -- zeros

    def _is_zero(self, value: Value) -> bool:
        tensor = stored_tensor(value)
        if tensor is not None:
            return bool(self._read(value, lambda: all_bits_clear(tensor, self._external)))
        node = value.producer
        if node is None:
            return False
        if node.is_a("Constant"):
            constant = self.constant(value)
            return constant is not None and bits_clear(constant)
        if node.is_a("ConstantOfShape"):
            stored = attribute(node, "value")
            if not isinstance(stored, TensorProto):
                return stored is None
            return bool(self._read(value, lambda: all_bits_clear(stored, self._external)))
        source = node.input(0)
        moves_data = node.is_a("Cast", "CastLike", "Expand", "Transpose", "Tile", "Slice", *VIEW_OPS)
        return moves_data and source is not None and self.is_zero(source)


def type_name(element_type: int | None) -> str:
    """Return a `TensorProto.DataType` as text for messages."""
    if not element_type:
        return "of unknown type"
    known = element_type in TensorProto.DataType.values()
    return TensorProto.DataType.Name(element_type).lower() if known else f"of type number {element_type}"
