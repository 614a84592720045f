"""The gate itself: goes along while a model is indexed, asks what there is to ask, and turns the model away."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NoReturn

import onnx
from google.protobuf.message import EncodeError
from onnx import AttributeProto

from poolgrad_lowering.diagnostics.errors import InvalidModelError
from poolgrad_lowering.diagnostics.faults import Fault, Flaw, shown, shown_path
from poolgrad_lowering.gate import names
from poolgrad_lowering.gate.attributes import POOLS, attribute_flaw, given_twice, window_flaw
from poolgrad_lowering.gate.calls import calls_flaw
from poolgrad_lowering.gate.imports import imports_flaw
from poolgrad_lowering.gate.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.gate.model import model_flaw
from poolgrad_lowering.gate.operators import operator_flaw
from poolgrad_lowering.gate.order import cycle_flaw
from poolgrad_lowering.ir import tensors
from poolgrad_lowering.ir.attributes import Form
from poolgrad_lowering.ir.external import ExternalFile, ModelFolder, link_flaw
from poolgrad_lowering.ir.index import ModelIndex, Visitor, held_graphs
from poolgrad_lowering.ir.model import Graph, Model
from poolgrad_lowering.ir.scopes import Scope

_MODEL = "the model"
_LONG_FORM = 256
"""Attributes of more bytes are not remembered."""

_HOLDERS = frozenset(
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
    """Turns away what is no sound model: each method raises `InvalidModelError`.

    `folder` is where the model's external data lies, None where that is not known. `external` are the external files
    that were seen, by their locations.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, folder: ModelFolder | None = None) -> None:
        self.external: dict[str, ExternalFile] = {}
        self.limits = limits
        self.folder = folder
        self._nodes = 0
        self._forms: dict[bytes, str] = {}  # attributes that are in order, as bytes: few forms, many nodes
        self._sound: set[Form] = set()  # the same of whole nodes

    def serialised(self, model: Model) -> bytes:
        """The bytes of a model, which protobuf does not write beyond 2 GiB."""
        try:
            data: bytes = model.SerializeToString()
        except EncodeError as error:
            raise InvalidModelError(Fault.TOO_LARGE, _MODEL, "protobuf cannot serialise it") from error
        if len(data) > self.limits.max_bytes:
            what = f"it has {len(data)} bytes, more than {self.limits.max_bytes}"
            raise InvalidModelError(Fault.TOO_LARGE, _MODEL, what)
        return data

    def index(self, model: Model) -> ModelIndex:
        """The index of a model that is sound. Raises `DecodeError` as `ModelIndex` does, which `naming` explains."""
        _require(model_flaw(model), _MODEL)
        return ModelIndex(model, self)

    def stored(self, scope: Scope, tensor: onnx.TensorProto) -> None:
        """Tensors, one by one."""
        self._check_tensor(scope, -1, tensor.name, tensor)

    def opened(self, scope: Scope) -> None:
        """Limits, inputs and what the scope itself stores."""
        self._nodes += len(scope.proto.node)
        if self._nodes > self.limits.max_nodes:
            _reject(Flaw(Fault.TOO_MANY_NODES, f"it has more than {self.limits.max_nodes} nodes"), _MODEL)
        if scope.depth > self.limits.max_nesting:
            _reject(Flaw(Fault.NESTING, f"it is more than {self.limits.max_nesting} levels deep"), _place(scope))
        if isinstance(scope.proto, onnx.FunctionProto):
            self._open_function(scope, scope.proto)
        else:
            self._open_graph(scope, scope.proto)

    def knows(self, form: Form) -> bool:
        """Whether a node of the same operator and attributes was there before."""
        return form in self._sound

    def graphs_of(
        self, scope: Scope, position: int, form: Form, attributes: Collection[AttributeProto]
    ) -> Iterable[tuple[str, onnx.GraphProto]]:
        """Attributes, the tensors in them, and the windows of pools."""
        given, graphs = set(), list[tuple[str, onnx.GraphProto]]()
        for attribute in attributes:
            stored = b"" if attribute.type in _HOLDERS else attribute.SerializeToString()
            if (name := self._forms.get(stored)) is None:
                name = self._check_attribute(scope, position, attribute, stored)
                graphs.extend(held_graphs(attribute))
            given.add(name)
        if len(given) < len(attributes):
            _reject(given_twice(attributes), _place(scope, position))
        if scope.operator(form.domain, form.op_type) in POOLS:
            _require_of(scope, window_flaw(attributes), position)
        if form.attributes and self._forms.keys() >= set(form.attributes):
            self._sound.add(form)
        return graphs

    def on_duplicate_definition(self, scope: Scope, position: int, name: str) -> NoReturn:
        """One name, two values."""
        _reject(Flaw(Fault.NAME_TWICE, f"the value {shown(name)} is there already"), _place(scope, position))

    def closed(self, scope: Scope, *, backward: bool) -> None:
        """Names, operators, and whether the nodes have an order."""
        for group in names.scope_names(scope):
            _require_of(scope, names.not_text(group))
        for found in (operator_flaw(scope), names.shadowing(scope)):
            if found is not None:
                position, flaw = found
                _reject(flaw, _place(scope, position))
        if backward:
            _require_of(scope, cycle_flaw(scope))

    def finished(self, index: ModelIndex) -> None:
        """What only the whole model tells: makers, calls, and where links lead."""
        for scope in index.scopes:
            if scope.parent is None:
                _require_makers(scope)
        _require(calls_flaw(index.scopes, self.limits), _MODEL)
        if self.folder is not None:
            for location, file in self.external.items():
                _require(link_flaw(location, self.folder), file.first)

    def _open_graph(self, scope: Scope, graph: Graph) -> None:
        sparse = [tensor.values.name for tensor in graph.sparse_initializer]
        _require_of(scope, names.twice([value.name for value in graph.input]))
        if len({*scope.initializers, *sparse}) < len(graph.initializer) + len(sparse):
            _require_of(scope, names.twice([*(tensor.name for tensor in graph.initializer), *sparse]))
        for name, tensor in zip(sparse, graph.sparse_initializer, strict=True):
            self._check_sparse(scope, -1, name, tensor)

    def _open_function(self, scope: Scope, function: onnx.FunctionProto) -> None:
        _require_of(scope, imports_flaw(function.opset_import))
        _require_of(scope, names.twice(function.input))
        if self.graphs_of(scope, -1, Form("", ""), function.attribute_proto):
            _reject(Flaw(Fault.ATTRIBUTE_TYPE, "a default of its attributes is a graph"), _place(scope))

    def _check_attribute(self, scope: Scope, position: int, attribute: AttributeProto, form: bytes) -> str:
        if (flaw := attribute_flaw(attribute)) is not None:
            _reject(flaw, _place(scope, position))
        if attribute.type in _HOLDERS:
            self._check_held(scope, position, attribute)
        elif len(form) <= _LONG_FORM:
            self._forms[form] = attribute.name
        return attribute.name

    def _check_held(self, scope: Scope, position: int, attribute: AttributeProto) -> None:
        for tensor in (*([attribute.t] if attribute.HasField("t") else ()), *attribute.tensors):
            self._check_tensor(scope, position, attribute.name, tensor)
        one = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
        for sparse in (*one, *attribute.sparse_tensors):
            self._check_sparse(scope, position, attribute.name, sparse)

    def _check_sparse(self, scope: Scope, position: int, name: str, sparse: onnx.SparseTensorProto) -> None:
        _require_of(scope, tensors.dims_flaw(sparse.dims), position, name)
        self._check_tensor(scope, position, name, sparse.values)
        self._check_tensor(scope, position, name, sparse.indices)

    def _check_tensor(self, scope: Scope, position: int, name: str, tensor: onnx.TensorProto) -> None:
        if (flaw := tensors.tensor_flaw(tensor)) is not None:
            _reject(flaw, _place(scope, position, name))
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            reference, where = tensors.external_reference(tensor), _place(scope, position, name)
            self.external.setdefault(reference.location, ExternalFile(where)).add(reference, where)


def _require_makers(root: Scope) -> None:
    """Nothing may be left that a root scope or what is in it reads, and nobody makes."""
    for name in root.captures():
        use = root.uses(name)[0]
        where = _place(use.scope, use.position) if use.position >= 0 else f"{_place(use.scope)}, outputs or training"
        _reject(Flaw(Fault.UNMADE_VALUE, f"nothing makes the value {shown(name)}"), where)


def _place(scope: Scope, position: int = -1, held: str = "") -> str:
    """Where something is, for people: at a node, or (position −1) in the scope itself."""
    path = shown_path(scope.path)
    if position < 0:
        return f"{path}, {shown(held)}" if held else path
    node = scope.node(position)
    place = f"{path}, node {position} {shown(node.label)} ({shown_path(node.proto.op_type)})"
    return f"{place}, attribute {shown(held)}" if held else place


def _require(flaw: Flaw | None, where: str) -> None:
    if flaw is not None:
        _reject(flaw, where)


def _require_of(scope: Scope, flaw: Flaw | None, position: int = -1, held: str = "") -> None:
    """As `_require`, of what `_place` would name: hardly anything needs a name."""
    if flaw is not None:
        _reject(flaw, _place(scope, position, held))


def _reject(flaw: Flaw, where: str) -> NoReturn:
    raise InvalidModelError.of(flaw, where)
