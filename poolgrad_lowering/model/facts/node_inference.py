# SPDX-License-Identifier: Apache-2.0

"""Runs ONNX's shape inference on one node, with what is known of its inputs.

A node with subgraphs, or one that calls a function of the model, is inferred as a model of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import NamedTuple

import onnx
from onnx import FunctionProto, TypeProto, numpy_helper

from poolgrad_lowering.model.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.model.facts.hiding import (
    Hiding,
    Op,
    may_drop_windows,
    refers,
    sizes_in,
    with_inner,
    without_ignored_pads,
)
from poolgrad_lowering.model.facts.shape_rules import Known, opaque
from poolgrad_lowering.model.facts.type_rules import ONNX_DOMAINS
from poolgrad_lowering.model.ir.dims import Dim, Shape, size
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import LOCAL, Node, Value, canonical_domain

_MOST_FUNCTIONS = 1 << 11
"""The number of functions that a call may reach: inference takes time in proportion to them."""

_INTEGERS = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
_MOST_INTEGERS, _MOST_SCALES = 1 << 10, 8
"""The elements of a constant from which sizes may follow: integers such as axes and shapes, or a factor for each axis.
Weights have more, or are not read from external data for it."""

Types = Mapping[str, TypeProto]


def defines(node: Node) -> bool:
    """Whether ONNX defines the node's operator, and so the types of its outputs."""
    domain, op_type = node.op
    return bool(onnx.defs.has(op_type, domain))


def _may_tell_sizes(known: Known, operand: Value) -> bool:
    """Whether sizes of a result may follow from the elements of an operand."""
    shape, is_integer = known.shape(operand), known.element_type(operand) in _INTEGERS
    count = None if shape is None else size(shape).static
    return count is not None and count <= (_MOST_INTEGERS if is_integer else _MOST_SCALES)


def _infer_alone(node: Node, operands: Types, data: Mapping[str, onnx.TensorProto]) -> Types:
    domain, op_type = node.op
    schema = onnx.defs.get_schema(op_type, node.scope.opsets.get(domain, 0), domain)
    found = onnx.shape_inference.infer_node_outputs(
        schema, without_ignored_pads(node.proto), dict(operands), dict(data)
    )
    return dict(found)


class _Called(NamedTuple):
    """Functions in which nothing misleads inference, and what hides this in the nodes that call them."""

    functions: list[FunctionProto]
    hiding: Hiding

    @classmethod
    def prepared(cls, functions: Iterable[FunctionProto]) -> _Called:
        """Return copies of functions, without what they declare."""
        copied = list(map(deepcopy, functions))
        hiding = Hiding(copied)
        for function in copied:
            hiding.hide(function.node)
            del function.value_info[:]
        return cls(copied, hiding)


class NodeInference:
    """ONNX's inference for the nodes of a model. Returns no types where it fails: unknown facts are always safe."""

    def __init__(self, index: ModelIndex) -> None:
        self._index = index
        self._sizes: dict[str, Dim] = {}  # by their text, which is their name for ONNX
        self._called: dict[frozenset[Op], _Called | None] = {}
        self._functions: dict[Op, list[FunctionProto]] = {}
        for function in index.model.functions:
            self._functions.setdefault((canonical_domain(function.domain), function.name), []).append(function)

    def type(self, known: Known, value: Value) -> TypeProto | None:
        """Return the type that ONNX infers for a value from what is known of its node's inputs; None if it infers none.

        A name of a size in it is the text of a size of an input.
        """
        node = value.producer
        return None if node is None else self._infer(known, node).get(value.name)

    def shape(self, known: Known, value: Value) -> Shape | None:
        """Return the shape that ONNX infers for a value; None if it infers none, or a negative size."""
        node = value.producer
        if node is None or may_drop_windows(node.op[1], node.attributes):
            return None
        operands = self._operands(node)
        shapes = [known.shape(operand) for operand in operands]
        if all(shape is None for shape in shapes) and all(map(known.element_type, operands)):
            return None  # of tensors without known shapes ONNX tells nothing either
        inferred = known.inferred_type(value)
        if inferred is None or not inferred.tensor_type.HasField("shape"):
            return None
        shape = tuple(
            Dim(dim.dim_value) if dim.HasField("dim_value") else self._sizes.get(dim.dim_param) or opaque(value, axis)
            for axis, dim in enumerate(inferred.tensor_type.shape.dim)
        )
        return None if any(dim.coefficient < 0 for dim in shape) else shape

    def _operands(self, node: Node) -> list[Value]:
        """Return the inputs of a node, and what its subgraphs use."""
        inner = self._index.subgraphs_of(node)
        used = (node.scope.resolve(name) for scope in inner for name in scope.captures())
        return [operand for operand in dict.fromkeys((*node.inputs, *used)) if operand is not None]

    def _infer(self, known: Known, node: Node) -> Types:
        if refers(node.proto):
            return {}
        is_model = node.op in self._functions or bool(self._index.subgraphs_of(node))
        if node.op[0] == LOCAL or not (is_model or defines(node)):
            return {}
        operands = self._operands(node)
        types = {operand.name: self._type(known, operand) for operand in operands}
        given = {name: kind for name, kind in types.items() if kind is not None}
        if not is_model and len(given) < len(types):
            return {}
        constants = {operand.name: known.constant(operand) for operand in operands if _may_tell_sizes(known, operand)}
        data = {name: numpy_helper.from_array(array, name) for name, array in constants.items() if array is not None}
        try:
            found = self._infer_model(node, given, data) if is_model else _infer_alone(node, given, data)
        except (*ONNX_ERRORS, KeyError):  # KeyError: an input that nothing defines
            return {}
        names = {dim.dim_param for kind in given.values() for dim in sizes_in(kind)}
        for dim in (dim for kind in found.values() for dim in sizes_in(kind)):
            if dim.dim_param not in names:
                dim.ClearField("dim_param")  # made up, for this node only
        return found

    def _type(self, known: Known, value: Value) -> TypeProto | None:
        """Return what is known of an operand, as a type; of what is no tensor, that is what ONNX infers."""
        element_type = known.element_type(value)
        if not element_type:
            inferred = known.inferred_type(value)
            return inferred if inferred is not None and not inferred.HasField("tensor_type") else None
        shape = known.shape(value)
        self._sizes.update({str(dim): dim for dim in shape or ()})
        sizes = None if shape is None else [str(dim) if dim.static is None else dim.static for dim in shape]
        return onnx.helper.make_tensor_type_proto(element_type, sizes)

    def _infer_model(self, node: Node, operands: Types, data: Mapping[str, onnx.TensorProto]) -> Types:
        """Infer a model of the node, with the functions that it calls, in which nothing is declared of other values."""
        nodes = list(with_inner([node.proto]))
        called = self._functions_of(frozenset(self._operators(nodes)))
        if called is None or (len(nodes) > 1 and any(map(refers, nodes))):
            return {}
        graph = onnx.GraphProto(name="node", node=[node.proto], initializer=data.values())
        graph.input.extend(onnx.ValueInfoProto(name=name, type=kind) for name, kind in operands.items())
        graph.output.extend(onnx.ValueInfoProto(name=value.name) for value in node.outputs if value is not None)
        opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in node.scope.opsets.items()]
        model = onnx.ModelProto(ir_version=self._index.model.ir_version, opset_import=opsets, graph=graph)
        model.functions.extend(called.functions)
        called.hiding.hide(model.graph.node)
        inferred = onnx.shape_inference.infer_shapes(model.SerializeToString())
        return {value.name: value.type for value in inferred.graph.output}

    def _operators(self, nodes: Iterable[onnx.NodeProto]) -> set[Op]:
        """Return the operators of nodes that functions of the model define."""
        return {(canonical_domain(node.domain), node.op_type) for node in nodes} & self._functions.keys()

    def _functions_of(self, operators: frozenset[Op]) -> _Called | None:
        """Return the functions of operators and those that these call, prepared for inference once.

        None if they are too many, or if one defines an operator of ONNX anew, which inference takes for ONNX's own.
        """
        if operators not in self._called:
            reached = list(operators)
            for op in reached:  # grows
                if len(reached) > _MOST_FUNCTIONS:
                    break
                inner = (node for function in self._functions[op] for node in with_inner(function.node))
                reached += sorted(self._operators(inner).difference(reached))
            is_own = any(domain in ONNX_DOMAINS and onnx.defs.has(name, domain) for domain, name in reached)
            functions = [function for op in reached for function in self._functions[op]]
            usable = len(reached) <= _MOST_FUNCTIONS and not is_own
            self._called[operators] = _Called.prepared(functions) if usable else None
        return self._called[operators]
