"""What can be known of a value from the graph alone: element type, shape, constants, zeros.

Every fact is computed once per value and kept. Facts are proofs: `None` means "not known", never "no". Shapes
are derived from the operators that move data around, then taken from what the model declares, and, where both
are silent, from ONNX's own shape inference, run once on a copy without weights.
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
"""Facts that follow from facts, at most: each takes up to seven frames of Python's stack, which has 1000."""


class Facts:
    """The facts of one model's values.

    Constants in external data are read through `external`, by default from nowhere. `unread` is a sentence on the first
    external tensor that could not be read for the facts asked for since `unread` was last set to the empty text.
    """

    def __init__(self, index: ModelIndex, external: ExternalData | None = None) -> None:
        self.unread = ""
        self._index = index
        self._external = external or ExternalData()
        self._unread_for: dict[tuple[str, Value], str] = {}
        self._memo: defaultdict[str, dict[Value, Any]] = defaultdict(dict)
        self._functions = frozenset((function.domain, function.name) for function in index.model.functions)
        self._pools: dict[Node, PoolAttributes | None] = {}
        self._depth = 0

    def shape(self, value: Value) -> Shape | None:
        """The value's shape, or None where its rank is not known. Unnamed sizes are symbols of their own."""
        return self._once("shape", value, self._shape)

    def declared_shape(self, value: Value) -> Shape | None:
        """The shape that the model itself states for the value, or None."""
        declared = value.scope.declared(value.name)
        return None if declared is None else read_shape(value, declared.type)

    def element_type(self, value: Value) -> int | None:
        """The value's `TensorProto.DataType`, or None."""
        return self._once("element_type", value, self._element_type)

    def constant(self, value: Value) -> np.ndarray[Any, Any] | None:
        """The value of a small constant: an initializer that no caller can override, or a Constant node."""
        return self._once("constant", value, self._constant)

    def table(self, value: Value) -> np.ndarray[Any, Any] | None:
        """A constant as `constant` gives it, of up to 2^23 elements."""
        return self._once("table", value, self._table)

    def integers(self, value: Value) -> Shape | None:
        """The elements of an integer scalar or vector, symbolic where they are sizes of something."""
        return self._once("integers", value, self._integers)

    def is_zero(self, value: Value) -> bool:
        """Whether every element is proven to be +0.0 (all bits clear)."""
        return bool(self._once("zero", value, self._is_zero))

    def pool(self, node: Node) -> PoolAttributes | None:
        """The attributes of a MaxPool node, or None where they are malformed."""
        if node not in self._pools:
            self._pools[node] = PoolAttributes.read(node)
        return self._pools[node]

    def is_function(self, node: Node) -> bool:
        """Whether the model itself defines the node's operator, so that its name says nothing."""
        return node.op in self._functions

    def _once(self, fact: str, value: Value, compute: Callable[[Value], T]) -> T | None:
        """Compute a fact the first time it is asked for; a question inside its own answer (a cycle) is unknown."""
        known = self._memo[fact]
        found = known.get(value, _UNASKED)
        if found is not _UNASKED:
            self.unread = self.unread or self._unread_for.get((fact, value), "")
            return found  # type: ignore[no-any-return]
        if self._depth >= _MAX_DEPTH:
            return None
        known[value] = None
        self._depth += 1
        unread_before, self.unread = self.unread, ""
        try:
            result = compute(value)
        finally:
            self._depth -= 1
            if self.unread:
                self._unread_for[fact, value] = self.unread
            self.unread = unread_before or self.unread
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
            derived = None  # of a model that cannot run
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
        return shape is not None and shape == self.shape(output)  # exporters write Expands that change nothing

    # -- inputs of functions

    def _passed(self, value: Value, fact: Callable[[Value], T | None]) -> T | None:
        """What is known of everything that the callers of a function give for one of its inputs, if they agree."""
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
        """What `read` gives; None where it needs external data that cannot be read, which `unread` then says."""
        try:
            return read()
        except UnreadableError as error:
            self.unread = self.unread or f"'{value.name}': {error}"
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
    """A `TensorProto.DataType` as text, for messages."""
    if not element_type:
        return "of unknown type"
    known = element_type in TensorProto.DataType.values()
    return TensorProto.DataType.Name(element_type).lower() if known else f"of type number {element_type}"
