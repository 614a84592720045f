# SPDX-License-Identifier: Apache-2.0

"""Runs ONNX's shape inference on copies of parts of the model, for types that no rule of this package gives."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import count

import onnx

from poolgrad_lowering.analysis.declared_shapes import MADE_UP_NUMBER
from poolgrad_lowering.analysis.hiding import Hiding, Op, hide_shapes, with_inner
from poolgrad_lowering.analysis.outlining import Outliner
from poolgrad_lowering.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.io.external_data import ExternalData, UnreadableError
from poolgrad_lowering.ir.dims import Dim
from poolgrad_lowering.ir.index import ModelIndex
from poolgrad_lowering.ir.scopes import LOCAL, canonical_domain

logger = logging.getLogger(__name__)

_KEPT_ELEMENTS = 1 << 10  # shapes and axes have fewer elements, weights have more
_MADE_UP = "unk__"
_MOST_FUNCTIONS = 1 << 11
"""Inference takes time in proportion to the functions for each call of one, and takes no more than 10,000. The results
of calls beyond this number have no inferred types."""
_ONNX_DOMAINS = (onnx.defs.ONNX_DOMAIN, onnx.defs.ONNX_ML_DOMAIN, onnx.defs.AI_ONNX_PREVIEW_TRAINING_DOMAIN)
"""Those of ONNX itself: the process may have registered operators of others."""
_SHAPE_TYPES = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
"""External tensors of other types, mostly biases, are not read."""


class InferredTypes:
    """The types that `onnx.shape_inference` infers for the values of the main graph, asked for by name.

    Each is inferred from the nodes that it is computed from, in a copy of these without weights; what an earlier
    question inferred is an input of the copy.

    A declared shape is only used for inputs of the main graph, and for results of operators that ONNX does not define:
    runtimes check the former, and the graph does not compute the latter. All others are left out of the copy.

    Nothing is known if inference fails, or if the model defines an operator of ONNX anew, which inference would take
    for ONNX's own: unknown facts are always safe. Integers are not propagated (`data_prop`), which would store a
    dimension for each element of an integer vector of any length; the rules of this package evaluate the integers that
    shapes depend on.
    """

    def __init__(self, index: ModelIndex, external: ExternalData | None = None) -> None:
        self._index = index
        self._main = index.scopes[0]
        self._external = external or ExternalData()
        self._types: dict[str, onnx.TypeProto | None] = {}
        self._questions = count()
        self._functions = defaultdict[Op, list[onnx.FunctionProto]](list)
        for function in index.model.functions:
            self._functions[canonical_domain(function.domain), function.name].append(function)
        self._is_sure = not any(
            domain in _ONNX_DOMAINS and onnx.defs.has(name, domain) for domain, name in self._functions
        )

    def get(self, name: str) -> onnx.TypeProto | None:
        """Return the type of a value, or None. A size that inference made up has another name in each question."""
        if name not in self._types:
            inferred, given = self._infer(self._cone(name))
            number = next(self._questions)
            for value in inferred:
                _rename_made_up(value.type, given, number)
        return self._types.get(name)

    def all(self) -> dict[str, onnx.TypeProto]:
        """Return the types of all values."""
        inferred, _ = self._infer(range(len(self._main.proto.node)))
        return {value.name: value.type for value in inferred}

    @cached_property
    def _captures(self) -> dict[int, list[str]]:
        """What the subgraphs of a node use of the main graph, by the node's position."""
        found: dict[int, list[str]] = {}
        for scope in self._index.scopes:
            if scope.parent is self._main:
                found.setdefault(scope.holder, []).extend(scope.captures())
        return found

    @cached_property
    def _unknown(self) -> set[int]:
        """The positions of nodes whose types neither ONNX nor a function of the model determines."""
        return {
            position
            for op, found in self._main.by_op.items()
            if op[0] != LOCAL and op not in self._functions and not onnx.defs.has(op[1], op[0])
            for position in found
        }

    def _cone(self, name: str) -> list[int]:
        """Return the positions of the nodes from which a value is computed, without those that were inferred before."""
        producers, nodes = self._main.producers, self._main.proto.node
        reached, pending = set[int](), [name]
        while pending:
            name = pending.pop()
            position = producers.get(name)
            if position is None or position in reached or name in self._types:
                continue
            reached.add(position)
            if position not in self._unknown:
                pending += nodes[position].input
                pending += self._captures.get(position, ())
        return sorted(reached)

    def _infer(self, positions: Sequence[int]) -> tuple[list[onnx.ValueInfoProto], set[str]]:
        """Infer and store the types of the results of some nodes; return them, and names of sizes that were given."""
        nodes = self._main.proto.node
        results = [name for position in positions for name in nodes[position].output]
        self._types.update(dict.fromkeys(results))
        if not self._is_sure or not positions:
            return [], set()
        copied = self._copy(positions, results)
        given = {dim.dim_param for value in _declared(copied.graph) for dim in value.type.tensor_type.shape.dim}
        try:
            inferred = onnx.shape_inference.infer_shapes(copied.SerializeToString())
        except ONNX_ERRORS as error:
            logger.info("shape inference failed, undeclared shapes stay unknown: %s", error)
            return [], set()
        found = [*inferred.graph.value_info, *inferred.graph.output]
        self._types.update({value.name: value.type for value in found})
        return found, given

    def _copy(self, positions: Sequence[int], results: Sequence[str]) -> onnx.ModelProto:
        """Return a model of some nodes with what their results follow from."""
        model, main = self._index.model, self._main
        source, graph = model.graph, onnx.GraphProto()
        graph.node.extend([source.node[position] for position in positions])
        made = set(results)
        used = {name for node in graph.node for name in node.input}
        used.update(name for position in positions for name in self._captures.get(position, ()))
        believed = {name for position in self._unknown.intersection(positions) for name in source.node[position].output}
        graph.input.extend([value for value in source.input if value.name in used])
        graph.output.extend([value for value in source.output if value.name in made])
        graph.value_info.extend(
            source.value_info[main.value_infos[name]] for name in believed & main.value_infos.keys()
        )
        for value in graph.output:
            if value.name not in believed:
                hide_shapes(value.type)
        for value in _declared(graph):
            _clear_made_up(value.type)
        known = [(name, self._types[name]) for name in sorted((used - made) & self._types.keys())]
        graph.input.extend([onnx.ValueInfoProto(name=name, type=kind) for name, kind in known if kind is not None])
        for value in graph.input:
            if not value.type.HasField("tensor_type"):  # runtimes do not check the tensors in a sequence
                hide_shapes(value.type)
        stored = used & main.initializers.keys()
        for name in sorted(stored - {value.name for value in source.input}):  # inference takes a default for a constant
            graph.initializer.append(_as_inference_needs(source.initializer[main.initializers[name]], self._external))
        return self._without_claims(
            onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, graph=graph)
        )

    def _without_claims(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """Return the model with the functions that it calls, without claims and nodes with subgraphs."""
        model.functions.extend(self._called(model.graph.node)[:_MOST_FUNCTIONS])
        hiding, outliner = Hiding(model.functions), Outliner(model, most=_MOST_FUNCTIONS)
        for function in model.functions[:]:
            hiding.hide(function.node)
            del function.value_info[:]
            for node in function.node:
                outliner.outline(node, function.opset_import)
        for node in model.graph.node:
            if node.attribute or hiding.concerns((canonical_domain(node.domain) or LOCAL, node.op_type)):
                hiding.hide([node])
                outliner.outline(node, model.opset_import)
        return model

    def _called(self, nodes: Iterable[onnx.NodeProto]) -> list[onnx.FunctionProto]:
        """Return the functions that some nodes call, and those that these call, in the order of the model."""
        if not self._functions:
            return []
        called, pending = set[Op](), {(canonical_domain(node.domain), node.op_type) for node in with_inner(nodes)}
        while pending:
            op = pending.pop()
            if op in self._functions and op not in called:
                called.add(op)
                inner = (node for function in self._functions[op] for node in with_inner(function.node))
                pending |= {(canonical_domain(node.domain), node.op_type) for node in inner}
        return [function for op, functions in self._functions.items() if op in called for function in functions]


def is_unnamed(dim: Dim) -> bool:
    """Whether a size contains a symbol that inference made up for an unknown size."""
    return any(symbol.startswith(_MADE_UP) for symbol in dim.symbols)


def _declared(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    return [*graph.input, *graph.output, *graph.value_info]


def _clear_made_up(kind: onnx.TypeProto) -> None:
    """Clear the sizes of a declared tensor whose names are like those that questions give."""
    for dim in kind.tensor_type.shape.dim if kind.HasField("tensor_type") else ():
        if MADE_UP_NUMBER in str(dim.dim_param):  # protobuf returns bytes if it is not UTF-8
            dim.Clear()


def _rename_made_up(kind: onnx.TypeProto, given: Collection[str], number: int) -> None:
    """Give the sizes that a question made up names that no other question makes up."""
    for dim in kind.tensor_type.shape.dim if kind.HasField("tensor_type") else ():
        if str(dim.dim_param).startswith(_MADE_UP) and dim.dim_param not in given:
            dim.dim_param += f"{MADE_UP_NUMBER}{number}"


def _as_inference_needs(tensor: onnx.TensorProto, external: ExternalData) -> onnx.TensorProto:
    """The tensor with its value if shapes may depend on it, else without."""
    without_value = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    if math.prod(tensor.dims) > _KEPT_ELEMENTS:
        return without_value
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return tensor
    try:
        return external.inlined(tensor) if tensor.data_type in _SHAPE_TYPES else without_value
    except UnreadableError:
        return without_value
