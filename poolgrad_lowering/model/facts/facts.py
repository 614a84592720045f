# SPDX-License-Identifier: Apache-2.0

"""The facts that a graph proves about its values: element type, shape, constants, zeros.

Every fact is computed once per value and stored. Facts are proofs: `None` means "not known", never "no"; an absent
value has none. A declared shape is a claim and counts only where the graph does not compute the shape: for inputs of
the main graph, and for results of operators that neither ONNX nor the model defines. All other shapes are derived from
these, by the rules of the operators that move data and by ONNX's own shape inference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import TensorProto

from poolgrad_lowering.model.facts.integer_rules import integer_rule
from poolgrad_lowering.model.facts.known import by_rule, is_opaque
from poolgrad_lowering.model.facts.memo import Memo, Reads
from poolgrad_lowering.model.facts.node_inference import NodeInference, defines
from poolgrad_lowering.model.facts.shape_chains import Reached, ShapeChains
from poolgrad_lowering.model.facts.shape_rules import NEW_SIZES, shape_rule
from poolgrad_lowering.model.facts.stated import (
    MAX_CONSTANT,
    all_bits_clear,
    default_tensor,
    read_shape,
    small_array,
    stored_tensor,
)
from poolgrad_lowering.model.facts.training_operators import named, sources_of_training_shape, training_shape
from poolgrad_lowering.model.facts.type_rules import same_typed, same_typed_input, stated_type
from poolgrad_lowering.model.io.external_data import ExternalData, UnreadableError
from poolgrad_lowering.model.ir.attributes import attribute
from poolgrad_lowering.model.ir.dims import Dim, Shape, is_static, static_dims
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import LOCAL, MAX_CHAIN, Node, Scope, Value, canonical_domain
from poolgrad_lowering.model.windows import PoolAttributes

T = TypeVar("T")

VIEW_OPS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")
"""Operators whose output has the input's elements in the same row-major order."""

_MAX_TABLE = 1 << 23
_MAX_NESTED = 8
"""The number of shapes that are derived one from another before those behind them are derived in order."""
_MOST_KEPT = 8
"""The number of operators through which an element type is followed past a declared one, in a model with a Cast
or with functions: converters to half types leave declarations that contradict what they made near them."""
_COEFFICIENT, _SYMBOLS = attrgetter("coefficient"), attrgetter("symbols")
_WITHOUT_ZERO = 24
"""FLOAT8E8M0, whose number with all bits clear is 2^-127; old releases of onnx have no name for it."""


class Facts(Memo):
    """The facts of one model's values.

    Constants in external data are read through `external`; the default reads none. With `trust_defaults` the default of
    an input of the main graph is a constant, as if no caller overrode it. Of results of the operators of the domain
    `believed`, declared sizes count where no others are known.
    """

    def __init__(
        self,
        index: ModelIndex,
        external: ExternalData | None = None,
        *,
        trust_defaults: bool = False,
        believed: str | None = None,
    ) -> None:
        super().__init__()
        self._believed = believed
        self.trusts_defaults = trust_defaults
        self._index = index
        self._external = external or ExternalData()
        steps = index.model.training_info
        bindings = [binding for step in steps for binding in (*step.initialization_binding, *step.update_binding)]
        self._updated = frozenset(binding.key for binding in bindings)  # the initializers that a training step sets
        self._functions = frozenset(
            (canonical_domain(function.domain) or LOCAL, function.name) for function in index.model.functions
        )
        self._pools = cache(PoolAttributes.read)
        self._chains = cache(ShapeChains)
        self._inference = NodeInference(index)
        is_converted = self._functions or any(("", "Cast") in scope.by_op for scope in index.scopes)
        self._most_kept = _MOST_KEPT if is_converted else 0

    def shape(self, value: Value | None) -> Shape | None:
        """Return the value's shape, or None if its rank is not known. Each unnamed size is a unique symbol."""
        if value is None:
            return None
        if not self._is_known("shape", value) and (position := value.scope.producers.get(value.name)) is not None:
            chains = self._chains(value.scope)
            chained = chains.shapes[position]
            if chained is not None:
                return chained
            if chains.kinds[position] or self._depth >= _MAX_NESTED:
                self._derive_in_order(value)
                if chains.shapes[position] is not None:
                    return chains.shapes[position]
        return self.once("shape", value, self._shape)

    def declared_shape(self, value: Value) -> Shape | None:
        """Return the shape that the model declares for the value, or None."""
        declared = value.scope.declared(value.name)
        return None if declared is None else read_shape(value, declared.type)

    def element_type(self, value: Value | None) -> int | None:
        """Return the value's `TensorProto.DataType`, or None."""
        chain: dict[Value, None] = {}  # each has the type of the next; not recursive, since a chain may be long
        behind, kept = value, None
        while behind is not None and behind not in chain and not self._is_known("element_type", behind):
            chain[behind] = None
            kept = (self._checked_type(behind) or None) if len(chain) > self._most_kept else None
            node = behind.producer
            behind = None if kept or node is None or self.is_function(node) else same_typed_input(node, behind)
        if behind is not None:
            kept = self.once("element_type", behind, lambda _: None)
        for each in reversed(chain):
            kept = self.once("element_type", each, partial(self._element_type, kept=kept))
        return kept

    def inferred_type(self, value: Value) -> onnx.TypeProto | None:
        """Return the type that ONNX infers for the value from what is known of its node's inputs, or None."""
        return self.once("inferred", value, partial(self._inference.type, self))

    def constant(self, value: Value | None) -> np.ndarray[Any, Any] | None:
        """Return a constant of up to 2^16 elements (an initializer or a Constant, no untrusted default), or None."""
        return None if value is None else self.once("constant", value, self._constant)

    def table(self, value: Value | None) -> np.ndarray[Any, Any] | None:
        """As `constant`, for up to 2^23 elements."""
        return None if value is None else self.once("table", value, partial(self._constant, limit=_MAX_TABLE))

    def fill(self, value: Value) -> np.ndarray[Any, Any] | None:
        """Return the element, as an array of one, with which a ConstantOfShape fills the value, or None."""
        node = value.producer
        stored = None if node is None or not node.is_a("ConstantOfShape") else attribute(node, "value")
        if not isinstance(stored, TensorProto):
            return None
        held: np.ndarray[Any, Any] | None = self._read(value, lambda: small_array(stored, self._external))
        return held if held is not None and held.size == 1 else None

    def integers(self, value: Value | None) -> Shape | None:
        """Return the elements of an integer scalar or vector, symbolic if they are symbolic sizes, or None."""
        return None if value is None else self.once("integers", value, self._integers)

    def is_zero(self, value: Value | None) -> bool:
        """Whether every element is proven to be +0.0 (all bits clear)."""
        return value is not None and bool(self.once("zero", value, self._is_zero))

    def pool(self, node: Node) -> PoolAttributes | None:
        """Return the attributes of a MaxPool or Conv as those of a MaxPool, or None if they are malformed."""
        return self._pools(node)

    def is_function(self, node: Node) -> bool:
        """Whether the model defines the node's operator as a function, so that its name does not determine it."""
        return node.op in self._functions

    # -- element types

    def _element_type(self, value: Value, kept: int | None) -> int | None:
        """Return the element type; `kept` is that of the input which has the same, None if unknown."""
        tensor = value.scope.initializer(value.name)
        if tensor is not None:
            return tensor.data_type
        node = value.producer
        stated = stated_type(node, value) if node is not None else None
        if node is not None and stated is not None and not self.is_function(node):
            return stated
        if kept is not None:
            return kept
        if declared := self._checked_type(value):
            return declared
        if node is None:
            return self._passed(value, self.element_type)
        found = self.inferred_type(value)
        stated = None if found is None else found.tensor_type.elem_type
        return stated or (None if self._is_computed(node) else self._neighbouring_type(value))

    def _neighbouring_type(self, value: Value) -> int | None:
        """Return the element type that the nodes around a value demand of it, whose own operator tells none."""
        pending = [value]
        for near in pending:
            node, tensor = near.producer, near.scope.initializer(near.name)
            known = tensor.data_type if tensor is not None else self._checked_type(near)
            if node is not None and not known and not self.is_function(node):
                known = stated_type(node, near) or 0
            if known:
                return known
            if len(pending) < MAX_CHAIN:
                pending += [other for other in dict.fromkeys(same_typed(near)) if other not in pending]
        return None

    def _checked_type(self, value: Value) -> int:
        """Return the element type that the model declares for a value if it is right wherever the model loads, else 0.

        Runtimes check the declared element types of a graph and not those of a function, whose inputs have the types
        of its operands.
        """
        declared = value.scope.declared(value.name)
        if declared is None or not (element_type := declared.type.tensor_type.elem_type):
            return 0
        node, is_called = value.producer, isinstance(value.scope.root.proto, onnx.FunctionProto)
        is_checked = not is_called or (node is not None and not self._is_computed(node))
        return element_type if is_checked else 0

    # -- shapes

    def _derive_in_order(self, value: Value) -> None:
        """Derive the shapes from which that of a value follows, first to last: a chain of them may be long."""
        reached: list[tuple[Scope, Reached]] = []
        pending = [value]
        for behind in pending:
            found = self._chains(behind.scope).reach(behind, self._sources_of_shape)
            reached.append((behind.scope, found))
            pending += filter(None, found.outside)
        with self.room_for(_MAX_NESTED):
            for scope, found in sorted(reached, key=lambda each: each[0].depth):
                self._chains(scope).derive(found, self._complete_shape)

    def _sources_of_shape(self, node: Node) -> Sequence[str]:
        """Return the values whose shapes a node's shape may follow from."""
        if not self._is_computed(node):
            return [source.name for source in sources_of_training_shape(node) if source is not None]
        sizes = self.constant(node.input(1)) if node.is_a("Reshape") else None
        if sizes is not None and all(size > 0 for size in sizes.flat):
            return ()
        captured = (name for scope in self._index.subgraphs_of(node) for name in scope.captures())
        return [*node.proto.input, *captured]

    def _complete_shape(self, scope: Scope, name: str) -> Shape | None:
        """Return the shape of a value if all sizes are known; None also if it depends on what was read elsewhere."""
        value = scope.resolve(name)
        found = None if value is None else self.once("shape", value, self._shape)
        return found if _is_complete(found) and ("shape", value) not in self._reads_of else None

    def _shape(self, value: Value) -> Shape | None:
        node = value.producer
        if node is None:
            return self._input_shape(value)
        if node.is_a("Constant") and (tensor := self._stored(value)) is not None:
            return _stored_shape(tensor)
        if not self._is_computed(node):
            return named(training_shape(self, node, value), self.declared_shape(value))
        return self._chains(value.scope).shapes[node.position] or self._computed_shape(value, node)

    def _computed_shape(self, value: Value, node: Node) -> Shape | None:
        """Return the shape by the operator's rule, or else by ONNX's inference."""
        rule = shape_rule(node, value)
        derived = by_rule(rule, self, node, value) if rule is not None else None
        if derived is not None and min(map(_COEFFICIENT, derived), default=0) < 0:
            derived = None  # the model cannot run
        if _is_complete(derived):
            return derived
        found = derived
        if rule is None or (derived is None and node.is_a("Conv", "ConvTranspose", "Resize", "Tile", "Upsample")):
            found = self._inference.shape(self, value)
            if node.op[0] == self._believed:
                return named(found, self.declared_shape(value))
        if found is None or not node.is_a(*NEW_SIZES) or _is_complete(found):
            return found
        return self._named(value, node, found)

    def _named(self, value: Value, node: Node, shape: Shape) -> Shape:
        """Return the shape with the names that the model declares for sizes that nothing else tells.

        Only an operator that computes sizes by a formula of the sizes of its inputs makes a new size, which the model
        may name; a name of an input's size would say that the size stays.
        """
        declared = self.declared_shape(value)
        if declared is None or len(declared) != len(shape):
            return shape
        shapes = [self.shape(operand) or () for operand in node.inputs]
        taken = {symbol for sizes in shapes for dim in sizes for symbol in dim.symbols}
        return tuple(
            name if is_opaque(dim) and name.static is None and taken.isdisjoint(name.symbols) else dim
            for dim, name in zip(shape, declared, strict=True)
        )

    def _is_computed(self, node: Node) -> bool:
        """Whether ONNX or a function of the model determines the types of a node's outputs.

        A declaration of such a value is a claim that runtimes do not check.
        """
        return self.is_function(node) or defines(node)

    def _input_shape(self, value: Value) -> Shape | None:
        """Return the shape of a value that no node produces.

        Runtimes check what a caller passes for an input of the main graph against the declared shape, but not what a
        node passes to its subgraph.
        """
        if default_tensor(value) is not None:
            declared = self.declared_shape(value)
            if declared is not None and is_static(declared):
                return declared  # also the shape of whatever overrides it
        if (tensor := self._stored(value)) is not None:
            return _stored_shape(tensor)
        scope = value.scope
        if isinstance(scope.proto, onnx.FunctionProto):
            return self._passed(value, self.shape)
        is_fed = scope.parent is None and value.name in scope.interface
        return self.declared_shape(value) if is_fed else None

    # -- views

    def is_view(self, node: Node) -> bool:
        """Whether the output has the input's elements in the same row-major order."""
        if node.is_a(*VIEW_OPS):
            return True
        if not node.is_a("Expand"):
            return False
        shape = self.shape(node.input(0))
        return shape is not None and shape == self.shape(node.output(0))  # exporters write Expand without effect

    def behind_views(self, value: Value | None, op_type: str) -> Node | None:
        """Return the node of this operator whose result a value has, perhaps in another shape; else None."""
        node = None if value is None else value.behind(self.is_view).producer
        return node if node is not None and node.is_a(op_type) else None

    # -- inputs of functions

    def _passed(self, value: Value, fact: Callable[[Value | None], T | None]) -> T | None:
        """Return a fact about a function's input if all calls of the function agree on it, else None."""
        proto = value.scope.proto
        if not isinstance(proto, onnx.FunctionProto) or value.name not in proto.input:
            return None  # a pool's Indices that are still to be added are no input either
        position = list(proto.input).index(value.name)
        operands = [scope.node(at).input(position) for scope, at in self._index.calls(value.scope)]
        found = set(map(fact, operands))
        return found.pop() if len(found) == 1 else None

    # -- constants and integers

    def _constant(self, value: Value, limit: int = MAX_CONSTANT) -> np.ndarray[Any, Any] | None:
        origin = value.origin  # exporters share equal constants by Identity
        tensor = self._stored(origin)
        return None if tensor is None else self._read(origin, lambda: small_array(tensor, self._external, limit))

    def _stored(self, value: Value) -> TensorProto | None:
        """Return the tensor of a constant, or None; a default is one if defaults are trusted."""
        default = None if value.name in self._updated else default_tensor(value)
        if default is None:
            return stored_tensor(value)
        self.depend_on(Reads(defaults=frozenset((value.name,))))
        return default if self.trusts_defaults else None

    def _read(self, value: Value, read: Callable[[], T]) -> T | None:
        """Return the result of `read`; None if it needs external data that cannot be read."""
        try:
            return read()
        except UnreadableError as error:
            self.depend_on(Reads(f"'{value.name}': {error}"))
            return None

    def _integers(self, value: Value) -> Shape | None:
        constant = self.constant(value)
        if constant is not None:
            if constant.ndim > 1 or not np.issubdtype(constant.dtype, np.integer):
                return None
            return tuple(Dim(int(number)) for number in constant.flat)
        node, rule = value.producer, integer_rule(value)
        if node is None or rule is None or self.is_function(node):
            return None
        return by_rule(rule, self, node)

    # -- zeros

    def _is_zero(self, value: Value) -> bool:
        tensor = self._stored(value)
        if tensor is not None:
            return self._is_clear(value, tensor)
        node = value.producer
        if node is None:
            return False
        if node.is_a("ConstantOfShape"):
            stored = attribute(node, "value")
            if not isinstance(stored, TensorProto):
                return stored is None
            return self._is_clear(value, stored)
        moves_data = node.is_a("Cast", "CastLike", "Expand", "Transpose", "Tile", "Slice", *VIEW_OPS)
        return moves_data and self.is_zero(node.input(0)) and self.element_type(value) != _WITHOUT_ZERO

    def _is_clear(self, value: Value, tensor: TensorProto) -> bool:
        """Whether every element of the tensor that a value's node or initializer stores is +0.0."""
        if tensor.data_type == _WITHOUT_ZERO:
            return False
        return bool(self._read(value, lambda: all_bits_clear(tensor, self._external)))


def _stored_shape(tensor: TensorProto) -> Shape | None:
    """Return the shape of a stored tensor, or None if it is malformed."""
    dims = tensor.dims[:]
    return None if min(dims, default=0) < 0 else static_dims(dims)


def _is_complete(shape: Shape | None) -> bool:
    """Whether all sizes are numbers or named by the model."""
    return shape is not None and not any(map(is_opaque, filter(_SYMBOLS, shape)))
