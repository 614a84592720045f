# SPDX-License-Identifier: Apache-2.0

"""Runs ONNX's shape inference on one node, with what is known of its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
from onnx import AttributeProto, numpy_helper

from poolgrad_lowering.analysis.pool import may_drop_windows, without_ignored_pads
from poolgrad_lowering.analysis.shape_rules import Known, opaque
from poolgrad_lowering.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.ir.dims import Dim, Shape
from poolgrad_lowering.ir.scopes import Node, Value

_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def defines(node: Node) -> bool:
    """Whether ONNX defines the node's operator, and so the types of its outputs."""
    domain, op_type = node.op
    return bool(onnx.defs.has(op_type, domain))


def infer_type(known: Known, node: Node, value: Value) -> onnx.TypeProto | None:
    """Return the type that ONNX infers for an output of a node; None if it infers none.

    A name in its shape stands for one unknown size of an input; it is no name of the model.
    """
    held = node.attributes.values()
    if any(attribute.ref_attr_name or attribute.type in _GRAPHS for attribute in held):
        return None
    operands = [operand for operand in node.inputs if operand is not None]
    names = {dim: name for name, dim in _unknown_sizes(known, operands).items()}
    types = {operand.name: _type(known, operand, names) for operand in operands}
    if not all(given.tensor_type.elem_type for given in types.values()):
        return None
    constants = {operand.name: known.constant(operand) for operand in operands}
    data = {name: numpy_helper.from_array(array, name) for name, array in constants.items() if array is not None}
    domain, op_type = node.op
    try:
        schema = onnx.defs.get_schema(op_type, node.scope.opsets.get(domain, 0), domain)
        found = onnx.shape_inference.infer_node_outputs(schema, without_ignored_pads(node.proto), types, data)
    except (*ONNX_ERRORS, KeyError):  # KeyError: an input that nothing defines
        return None
    return found.get(value.name)


def infer_shape(known: Known, node: Node, value: Value) -> Shape | None:
    """Return the shape that ONNX infers for an output of a node; None if it infers none, or a negative size."""
    operands = [operand for operand in node.inputs if operand is not None]
    if all(known.shape(operand) is None for operand in operands) or may_drop_windows(node.op[1], node.attributes):
        return None
    inferred = infer_type(known, node, value)
    if inferred is None or not inferred.tensor_type.HasField("shape"):
        return None
    sizes = _unknown_sizes(known, operands)
    shape = tuple(
        Dim(dim.dim_value) if dim.HasField("dim_value") else sizes.get(dim.dim_param) or opaque(value, axis)
        for axis, dim in enumerate(inferred.tensor_type.shape.dim)
    )
    return None if any(dim.coefficient < 0 for dim in shape) else shape


def _unknown_sizes(known: Known, operands: Iterable[Value]) -> dict[str, Dim]:
    """The sizes of some values that are not numbers, by a name for each."""
    shapes = [known.shape(operand) or () for operand in operands]
    sizes = dict.fromkeys(dim for shape in shapes for dim in shape if dim.static is None)
    return {f"size_{number}": dim for number, dim in enumerate(sizes)}


def _type(known: Known, value: Value, names: Mapping[Dim, str]) -> onnx.TypeProto:
    shape = known.shape(value)
    sizes = None if shape is None else [names.get(dim, dim.static) for dim in shape]
    return onnx.helper.make_tensor_type_proto(known.element_type(value) or 0, sizes)
