# SPDX-License-Identifier: Apache-2.0

"""Validates a model while it is indexed; raises `InvalidModelError` at the first fault."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NoReturn

import onnx
from google.protobuf.message import EncodeError
from onnx import AttributeProto

from poolgrad_lowering.model.diagnostics.errors import InvalidModelError
from poolgrad_lowering.model.diagnostics.faults import Fault, Flaw, shown, shown_path
from poolgrad_lowering.model.gate import flaws
from poolgrad_lowering.model.io.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.model.ir import tensors
from poolgrad_lowering.model.ir.external import ExternalFile, ModelFolder, link_flaw
from poolgrad_lowering.model.ir.graphs import subgraphs
from poolgrad_lowering.model.ir.index import ModelIndex, Visitor
from poolgrad_lowering.model.ir.scopes import Scope

_MODEL = "the model"
_MAX_REMEMBERED = 256
"""Attributes of more bytes than this are validated each time."""

_HOLDER_TYPES = frozenset(
    {
        AttributeProto.TENSOR,
        AttributeProto.TENSORS,
        AttributeProto.SPARSE_TENSOR,
        AttributeProto.SPARSE_TENSORS,
        AttributeProto.GRAPH,
        AttributeProto.GRAPHS,
    }
)


class Gate(Visitor):
    """Validates a model: each method raises `InvalidModelError`.

    `folder` is the folder of the model's external data, None if it is not known. `external` are the external files of
    the validated model, by location.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, folder: ModelFolder | None = None) -> None:
        self.external: dict[str, ExternalFile] = {}
        self.limits = limits
        self.folder = folder
        self._nodes = 0
        self._valid_attributes: dict[bytes, str] = {}  # names by serialised bytes: many nodes share few attributes

    def serialised(self, model: onnx.ModelProto) -> bytes:
        """The serialised model; it must have at most `limits.max_bytes` bytes."""
        try:
            data: bytes = model.SerializeToString()
        except EncodeError as error:
            raise InvalidModelError(Fault.TOO_LARGE, _MODEL, "protobuf cannot serialise it") from error
        if len(data) > self.limits.max_bytes:
            what = f"it has {len(data)} bytes, more than {self.limits.max_bytes}"
            raise InvalidModelError(Fault.TOO_LARGE, _MODEL, what)
        return data

    def index(self, model: onnx.ModelProto) -> ModelIndex:
        """The index of a validated model."""
        _require(flaws.model_flaw(model), _MODEL)
        return ModelIndex(model, self)

    def on_initializer(self, scope: Scope, tensor: onnx.TensorProto) -> None:
        """Validate the tensor."""
        self._check_tensor(scope, -1, tensor.name, tensor)

    def on_scope_opened(self, scope: Scope) -> None:
        """Validate the limits, and the inputs and initializers of the scope."""
        self._nodes += len(scope.proto.node)
        if self._nodes > self.limits.max_nodes:
            what = f"it has more than {self.limits.max_nodes} nodes"
            raise InvalidModelError(Fault.TOO_MANY_NODES, _MODEL, what)
        if scope.depth > self.limits.max_nesting:
            what = f"it is more than {self.limits.max_nesting} levels deep"
            raise InvalidModelError(Fault.NESTING, _place(scope), what)
        if isinstance(scope.proto, onnx.FunctionProto):
            self._check_function(scope, scope.proto)
        else:
            self._check_graph(scope, scope.proto)

    def visit_attributes(
        self, scope: Scope, position: int, attributes: Collection[AttributeProto]
    ) -> Iterable[tuple[str, onnx.GraphProto]]:
        """The subgraphs in the attributes. Validates attributes, and tensors in them."""
        given: set[str] = set()
        graphs: list[tuple[str, onnx.GraphProto]] = []
        for attribute in attributes:
            stored = b"" if attribute.type in _HOLDER_TYPES else attribute.SerializeToString()
            if (name := self._valid_attributes.get(stored)) is None:
                name = self._check_attribute(scope, position, attribute, stored)
                graphs.extend(subgraphs([attribute]))
            given.add(name)
        if len(given) < len(attributes):
            names = [attribute.name for attribute in attributes]
            _require_at(scope, flaws.duplicate_flaw(names, Fault.ATTRIBUTE_TWICE, "attribute"), position)
        return graphs

    def on_duplicate_definition(self, scope: Scope, position: int, name: str) -> NoReturn:
        """Reject the second definition of a name."""
        what = f"the value {shown(name)} is already defined"
        raise InvalidModelError(Fault.NAME_TWICE, _place(scope, position), what)

    def on_scope_closed(self, scope: Scope, *, unsorted: bool) -> None:
        """Validate names, operators and windows of pools, and that the nodes have no cycle."""
        values = (scope.free_names, scope.producers, scope.inputs, scope.outputs, scope.initializers, scope.value_infos)
        groups: list[Collection[str]] = [*values, scope.node_names, *scope.by_op]
        for names in groups:
            _require_at(scope, flaws.encoding_flaw(names))
        for flaws_of in (flaws.operator_flaws, flaws.inputs_flaws, flaws.window_flaws, flaws.shadowing_flaws):
            for position, flaw in flaws_of(scope):
                _require_at(scope, flaw, position)
        if unsorted:
            _require_at(scope, flaws.cycle_flaw(scope))

    def on_indexed(self, index: ModelIndex) -> None:
        """Validate the whole model: every used name is defined, calls are bounded, links stay in the folder."""
        for scope in index.scopes:
            for name in scope.captures() if scope.parent is None else ():
                use = scope.uses(name)[0]
                outside = "" if use.position >= 0 else ", outputs or training"
                what = f"the value {shown(name)} is not defined"
                raise InvalidModelError(Fault.UNMADE_VALUE, _place(use.scope, use.position) + outside, what)
        _require(flaws.calls_flaw(index, self.limits), _MODEL)
        if self.folder is not None:
            for location, file in self.external.items():
                _require(link_flaw(location, self.folder), file.first)

    def _check_graph(self, scope: Scope, graph: onnx.GraphProto) -> None:
        sparse = [tensor.values.name for tensor in graph.sparse_initializer]
        _require_at(scope, flaws.duplicate_flaw([value.name for value in graph.input]))
        if len({*scope.initializers, *sparse}) < len(graph.initializer) + len(sparse):
            _require_at(scope, flaws.duplicate_flaw([*(tensor.name for tensor in graph.initializer), *sparse]))
        for name, tensor in zip(sparse, graph.sparse_initializer, strict=True):
            self._check_sparse(scope, -1, name, tensor)

    def _check_function(self, scope: Scope, function: onnx.FunctionProto) -> None:
        _require_at(scope, flaws.imports_flaw(function.opset_import))
        _require_at(scope, flaws.duplicate_flaw(function.input))
        if self.visit_attributes(scope, -1, function.attribute_proto):
            raise InvalidModelError(Fault.ATTRIBUTE_TYPE, _place(scope), "a default of its attributes is a graph")

    def _check_attribute(self, scope: Scope, position: int, attribute: AttributeProto, stored: bytes) -> str:
        _require_at(scope, flaws.attribute_flaw(attribute), position)
        if attribute.type not in _HOLDER_TYPES and len(stored) <= _MAX_REMEMBERED:
            self._valid_attributes[stored] = attribute.name
        for tensor in (*([attribute.t] if attribute.HasField("t") else ()), *attribute.tensors):
            self._check_tensor(scope, position, attribute.name, tensor)
        one = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
        for sparse in (*one, *attribute.sparse_tensors):
            self._check_sparse(scope, position, attribute.name, sparse)
        return attribute.name

    def _check_sparse(self, scope: Scope, position: int, name: str, sparse: onnx.SparseTensorProto) -> None:
        _require_at(scope, tensors.dims_flaw(sparse.dims), position, name)
        self._check_tensor(scope, position, name, sparse.values)
        self._check_tensor(scope, position, name, sparse.indices)

    def _check_tensor(self, scope: Scope, position: int, name: str, tensor: onnx.TensorProto) -> None:
        _require_at(scope, tensors.tensor_flaw(tensor), position, name)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            reference, where = tensors.external_reference(tensor), _place(scope, position, name)
            self.external.setdefault(reference.location, ExternalFile(where)).add(reference, where)


def _place(scope: Scope, position: int = -1, held: str = "") -> str:
    """The place of something for messages: at a node, or (position −1) in the scope itself."""
    path = shown_path(scope.path)
    if position < 0:
        return f"{path}, {shown(held)}" if held else path
    node = scope.node(position)
    place = f"{path}, node {position} {shown(node.label)} ({shown_path(node.proto.op_type)})"
    return f"{place}, attribute {shown(held)}" if held else place


def _require(flaw: Flaw | None, where: str) -> None:
    if flaw is not None:
        raise InvalidModelError(flaw.fault, where, flaw.what)


def _require_at(scope: Scope, flaw: Flaw | None, position: int = -1, held: str = "") -> None:
    """As `_require` with the result of `_place`, which is computed only if there is a flaw."""
    if flaw is not None:
        _require(flaw, _place(scope, position, held))
