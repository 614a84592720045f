# SPDX-License-Identifier: Apache-2.0

"""Runs ONNX's shape inference on one node, with what is known of its inputs.

A node with subgraphs, or one that calls a function of the model, is inferred as a model of its own. Hidden from
inference is what makes it infer sizes that a run does not have: windows that runtimes drop, pads that they ignore,
bounds of Slices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, numpy_helper

from poolgrad_lowering.model.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.model.facts.known import Known, opaque
from poolgrad_lowering.model.ir.attributes import ONNX_DOMAINS
from poolgrad_lowering.model.ir.dims import Dim, Shape, size
from poolgrad_lowering.model.ir.graphs import subgraphs, with_inner
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


class NodeInference:
    """ONNX's inference for the nodes of a model. Returns no types where it fails: unknown facts are always safe."""

    def __init__(self, index: ModelIndex) -> None:
        self._index = index
        self._sizes: dict[str, Dim] = {}  # by their text, which is their name for ONNX
        self._called: dict[frozenset[Op], Hiding | None] = {}
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
        called.hide(model.graph.node)
        inferred = onnx.shape_inference.infer_shapes(model.SerializeToString())
        return {value.name: value.type for value in inferred.graph.output}

    def _operators(self, nodes: Iterable[onnx.NodeProto]) -> set[Op]:
        """Return the operators of nodes that functions of the model define."""
        return {(canonical_domain(node.domain), node.op_type) for node in nodes} & self._functions.keys()

    def _functions_of(self, operators: frozenset[Op]) -> Hiding | None:
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
            self._called[operators] = Hiding(functions) if usable else None
        return self._called[operators]


Op = tuple[str, str]
_UNKNOWN = "?"
"""The name of no operator."""


class Hiding:
    """Removes what misleads onnx's inference: bounds of Slices, pools whose windows it miscounts, types in subgraphs.

    Of a Slice, inference then propagates only type and rank; the rules derive more. With known bounds, its inference
    ends the process if a window larger than its input made a size negative. Of such a pool, and of a call whose
    attributes make one, it infers nothing. `functions` are copies of those of the model, without what they declare.
    """

    def __init__(self, functions: Iterable[FunctionProto]) -> None:
        """Take the model's functions, whose calls are not recursive.

        The attributes of a call may be those of a pool in the function, or in one that it calls.
        """
        self._referring: defaultdict[Op, list[tuple[FunctionProto, list[NodeProto]]]] = defaultdict(list)
        self.functions = list(map(deepcopy, functions))
        for function in self.functions:
            referring = [node for node in with_inner(function.node) if refers(node)]
            if referring:
                self._referring[canonical_domain(function.domain) or LOCAL, function.name].append((function, referring))
        self._found: dict[tuple[Op, tuple[tuple[str, bytes], ...]], bool] = {}
        for function in self.functions:
            self.hide(function.node)
            del function.value_info[:]

    def hide(self, nodes: Iterable[NodeProto]) -> None:
        """Change nodes, and those in their subgraphs."""
        for node in nodes:
            if node.op_type == "Slice":
                node.input[1:] = [""] * (len(node.input) - 1)
            elif not refers(node) and self._is_miscounted(node, {}):
                node.op_type = _UNKNOWN
            for _, graph in subgraphs(node.attribute):
                del graph.value_info[:]
                for tensor in (each for value in (*graph.input, *graph.output) for each in _tensors(value.type)):
                    tensor.ClearField("shape")
                self.hide(graph.node)

    def _is_miscounted(self, node: NodeProto, given: Mapping[str, AttributeProto]) -> bool:
        """Whether a node, or one that it calls, may be miscounted in a function with the attributes `given`.

        An attribute that refers to nothing in `given` is absent.
        """
        values = {held.name: given.get(held.ref_attr_name) if held.ref_attr_name else held for held in node.attribute}
        held = {name: value for name, value in values.items() if value is not None}
        op = canonical_domain(node.domain) or LOCAL, node.op_type
        if op not in self._referring:
            return may_drop_windows(node.op_type, held) or has_ignored_pads(node.op_type, held)
        key = op, tuple(sorted((name, attribute.SerializeToString()) for name, attribute in held.items()))
        if key not in self._found:
            self._found[key] = any(
                self._is_miscounted(inner, {default.name: default for default in function.attribute_proto} | held)
                for function, referring in self._referring[op]
                for inner in referring
            )
        return self._found[key]


def refers(node: NodeProto) -> bool:
    """Whether an attribute of the node comes from the caller of its function."""
    return any(attribute.ref_attr_name for attribute in node.attribute)


def sizes_in(kind: onnx.TypeProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    """Yield the sizes in the type of a tensor, or of the tensors in a sequence, an optional or a map."""
    for tensor in _tensors(kind):
        yield from tensor.shape.dim


def _tensors(kind: onnx.TypeProto) -> Iterator[onnx.TypeProto.Tensor | onnx.TypeProto.SparseTensor]:
    """Yield the type of a tensor, or that of the tensors in a sequence, an optional or a map."""
    held = kind.WhichOneof("value")
    if held in ("tensor_type", "sparse_tensor_type"):
        yield getattr(kind, held)
    elif held in ("sequence_type", "optional_type"):
        yield from _tensors(getattr(kind, held).elem_type)
    elif held == "map_type":
        yield from _tensors(kind.map_type.value_type)


COUNTED = ("AveragePool", "LpPool", "MaxPool")
"""Pools of ONNX, whose windows `ceil_mode` counts."""
_PADDED = (*COUNTED, "Conv", "ConvTranspose")


def may_drop_windows(op_type: str, held: Mapping[str, onnx.AttributeProto]) -> bool:
    """Whether runtimes may make fewer windows of a pool than ONNX's shape inference counts.

    With `ceil_mode` the last window may start behind x and the padding before it. Runtimes drop that one, inference
    does not. It can only be there if stride + padding behind > effective kernel. A pool that cannot be read may drop.
    `held` are the attributes of the node, with the values that its function is given.
    """
    ceil, auto_pad = held.get("ceil_mode"), held.get("auto_pad")
    if op_type not in COUNTED or ceil is None or not ceil.i:
        return False
    if auto_pad is not None and auto_pad.s.startswith(b"SAME"):
        return False
    kernel = held["kernel_shape"].ints if "kernel_shape" in held else ()
    rank = len(kernel)
    strides, dilations = (held[name].ints if name in held else [1] * rank for name in ("strides", "dilations"))
    pads = held["pads"].ints if "pads" in held else [0] * 2 * rank
    if not rank or (len(strides), len(dilations), len(pads)) != (rank, rank, 2 * rank):
        return True
    axes = zip(strides, pads[rank:], dilations, kernel, strict=True)
    return any(stride + end > dilation * (taps - 1) + 1 for stride, end, dilation, taps in axes)


def has_ignored_pads(op_type: str, held: Mapping[str, onnx.AttributeProto]) -> bool:
    """Whether the `pads` of a pool or a convolution say nothing beside its `auto_pad`; ONNX's inference reads them.

    Runtimes ignore those of pools. onnxruntime refuses a convolution with both; onnx's newer evaluators ignore them.
    """
    auto_pad = held.get("auto_pad")
    is_given = auto_pad is not None and not auto_pad.ref_attr_name and auto_pad.s not in (b"", b"NOTSET")
    return is_given and op_type in _PADDED and "pads" in held


def without_ignored_pads(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return the node, or a copy without `pads` if runtimes ignore them."""
    if not has_ignored_pads(node.op_type, {held.name: held for held in node.attribute}):
        return node
    copied = onnx.NodeProto()
    copied.CopyFrom(node)
    del copied.attribute[:]
    copied.attribute.extend(held for held in node.attribute if held.name != "pads")
    return copied
