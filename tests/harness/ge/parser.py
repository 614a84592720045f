# SPDX-License-Identifier: Apache-2.0

"""GE's ONNX front end: from a model to the operators of a GE graph, or the errors that ATC ends with.

It looks at keys, names, callbacks, positions, and at the types of inputs and constants; shapes, formats and the types
between operators are looked at in `kernels.py` while the graph runs. The steps come in GE's order, because the first
that fails decides the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from tests.harness.ge import faults
from tests.harness.ge.driver import ONNX, SUCCESS, AnyPlugin, Attribute, Tensor
from tests.harness.ge.faults import Fault, GeError
from tests.harness.ge.pb2json import source_attributes
from tests.harness.ge.plugin_rules import Context, Library
from tests.harness.ge.prototypes import Prototype, Release, prototype
from tests.harness.ge.standard import input_count, is_registered, lacks_prototype, plugin_refusal

DEFAULT_DOMAIN = "ai.onnx"
WITHOUT_PLUGIN = {"Data", "Constant", "FileConstant"}
"""Operators that GE knows by itself, whatever their domain."""

FLOAT8 = {TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2}
ELEMENT_TYPES = {*range(TensorProto.FLOAT, TensorProto.BFLOAT16 + 1), *FLOAT8, TensorProto.INT4}
"""The element types that GE's graph has (ge:parser/parser/onnx/onnx_util.cc)."""
CONSTANT_TYPES = ELEMENT_TYPES - FLOAT8
"""Those whose data GE reads (ge:parser/parser/onnx/onnx_constant_parser.cc)."""

BRANCHES = {"then_branch", "else_branch"}


@dataclass(frozen=True)
class GeOperator:
    """One operator of the GE graph.

    Attributes:
        node: the node with its name in GE.
        key: `<domain>::<version>::<operator>`.
        type: the GE type that a plugin gave it; empty for an operator of ATC's own plugins.
        attributes: what the plugin left in the operator, and the prototype's defaults.
        inputs: the descriptions of the prototype's inputs.
        outputs: those of its outputs.
        branches: for an If, its graphs by the name of the attribute.
    """

    node: NodeProto
    key: str
    type: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    inputs: Sequence[Tensor] = ()
    outputs: Sequence[Tensor] = ()
    branches: Mapping[str, GeGraph] = field(default_factory=dict)


@dataclass(frozen=True)
class GeGraph:
    """A model, or a branch of an If in it, that GE has taken.

    Attributes:
        model: its graph with the names of GE.
        first: whose plugins for ONNX's operators were loaded first.
    """

    model: ModelProto
    operators: Sequence[GeOperator]
    first: Library = "ops-math"

    @property
    def opset(self) -> int:
        """The version of ONNX's operators."""
        return _versions(self.model)[DEFAULT_DOMAIN]


@dataclass(frozen=True)
class _Front:
    """What a model is parsed with."""

    model: ModelProto
    plugin: AnyPlugin
    release: Release
    first: Library

    @property
    def versions(self) -> Mapping[str, int]:
        return _versions(self.model)

    @property
    def context(self) -> Context:
        return Context(self.versions.get(DEFAULT_DOMAIN, 0), first=self.first)


def parse(model: ModelProto, plugin: AnyPlugin, release: Release = "9.0.0", *, first: Library = "ops-math") -> GeGraph:
    """Return the operators that GE makes of a model.

    Args:
        model: an ONNX model.
        plugin: the plugin for the dialect.
        release: of CANN.
        first: whose plugins for ONNX's operators are loaded first. ops-math and ops-nn both register ScatterND.

    Raises:
        GeError: GE does not take the model.
        PluginError: the plugin's process ended.
    """
    if not model.HasField("graph"):
        raise GeError.of(faults.NO_GRAPH, "the model has no graph")
    graph = GraphProto()
    graph.CopyFrom(model.graph)
    _name_nodes(graph)
    _check_branches(graph)
    _check_ends(graph)
    return _parsed_graph(graph, _Front(model, plugin, release, first))


def _parsed_graph(graph: GraphProto, front: _Front, *, is_branch: bool = False) -> GeGraph:
    """Return a graph whose nodes have names, with its branches."""
    _check_names_and_keys(graph, front)
    operators = [_operator(node, front) for node in graph.node]
    if not is_branch:
        _check_inputs(graph)
    _check_constants(graph.initializer)
    _check_positions(operators, graph)
    _check_outputs(graph)
    _join_missing_operands(graph)
    joined = [replace(operator, node=node) for operator, node in zip(operators, graph.node, strict=True)]
    joined = [replace(operator, branches=_branches(operator.node, front)) for operator in joined]
    taken = ModelProto(ir_version=front.model.ir_version, opset_import=front.model.opset_import, graph=graph)
    return GeGraph(taken, joined, front.first)


def _branches(node: NodeProto, front: _Front) -> dict[str, GeGraph]:
    """Return the parsed branches of an If. Each has what the branches read from around them as inputs, by name."""
    if node.op_type != "If":
        return {}
    graphs = {attribute.name: GraphProto() for attribute in node.attribute}
    for attribute in node.attribute:
        graphs[attribute.name].CopyFrom(attribute.g)
    captured = sorted(set().union(*map(_read_from_around, graphs.values())))
    for graph in graphs.values():
        for name in captured:
            graph.input.add(name=name)
    return {name: _parsed_graph(graph, front, is_branch=True) for name, graph in graphs.items()}


def _read_from_around(graph: GraphProto) -> set[str]:
    made = {name for node in graph.node for name in node.output} | {tensor.name for tensor in graph.initializer}
    branches = (attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g"))
    inner = map(_read_from_around, branches)
    return {name for node in graph.node for name in node.input}.union(*inner) - made - {""}


def _versions(model: ModelProto) -> dict[str, int]:
    return {entry.domain or DEFAULT_DOMAIN: entry.version for entry in model.opset_import}


def _name_nodes(graph: GraphProto) -> None:
    """Give each node without a name one of its operator and a number; nodes of branches come after the others."""
    unnamed = (node for node in _by_depth(graph) if not node.name)
    for number, node in enumerate(unnamed):
        node.name = f"{node.op_type}_{number}"


def _by_depth(graph: GraphProto) -> Iterator[NodeProto]:
    graphs = [graph]
    while graphs:
        nodes = graphs.pop(0).node
        yield from nodes
        graphs += [attribute.g for node in nodes for attribute in node.attribute if node.op_type == "If"]


def _check_branches(graph: GraphProto) -> None:
    for node in _by_depth(graph):
        if node.op_type == "If" and sorted(attribute.name for attribute in node.attribute) != sorted(BRANCHES):
            raise GeError.of(faults.INNER, f"{node.name} has not just {sorted(BRANCHES)}")


def _check_ends(graph: GraphProto) -> None:
    for what, values in {"input": graph.input, "output": graph.output}.items():
        if not values:
            raise GeError.of(faults.NO_INPUT_OR_OUTPUT, f"the graph has no {what}")


def _check_names_and_keys(graph: GraphProto, front: _Front) -> None:
    found: list[Fault] = []
    names: set[str] = set()
    for name, node in _named(graph):
        key = _key(node, front.versions) if node else None
        if name in names:
            found.append(Fault(faults.NAME_REPEATED, f"two nodes are called {name}"))
        names.add(name)
        if key and not (_own_type(key, front.plugin) or is_registered(key)):
            message = f"type[{key}] is not supported: no plugin takes {key}, the type of {name}"
            found.append(Fault(faults.TYPE_UNREGISTERED, message))
    if found:
        raise GeError(*found)


def _named(graph: GraphProto) -> Iterator[tuple[str, NodeProto | None]]:
    """Yield what becomes a node of GE's graph, with its name: nodes, graph inputs, initializers."""
    initializers = sorted({tensor.name for tensor in graph.initializer} - {""})
    yield from ((node.name, node) for node in graph.node)
    yield from ((value.name, None) for value in graph.input if value.name not in initializers)
    yield from ((f"{name}_Initializer_{number}", None) for number, name in enumerate(initializers))


def _key(node: NodeProto, versions: Mapping[str, int]) -> str | None:
    """Return the key that a plugin has to be registered for; None for what GE knows by itself."""
    if node.op_type in WITHOUT_PLUGIN:
        return None
    domain = node.domain or DEFAULT_DOMAIN
    if domain not in versions:
        raise GeError.of(faults.INNER, f"the model does not import domain {domain} of node {node.name}")
    return f"{domain}::{versions[domain]}::{node.op_type}"


def _own_type(key: str | None, plugin: AnyPlugin) -> str | None:
    """Return the GE type that the plugin has registered for a key of ONNX."""
    own = plugin.registrations.get(key or "")
    return own.type if own and own.framework == ONNX and own.by_operator else None


def _operator(node: NodeProto, front: _Front) -> GeOperator:
    key = _key(node, front.versions)
    if (ge_type := _own_type(key, front.plugin)) is None:
        return _standard_operator(node, key or node.op_type, front.context)
    declared = prototype(ge_type, front.release)
    if declared is None:
        raise GeError.of(faults.NO_PROTOTYPE, f"{node.name}: {ge_type} has no prototype in CANN {front.release}")
    return _parsed(node, str(key), ge_type, declared, front.plugin)


def _standard_operator(node: NodeProto, key: str, context: Context) -> GeOperator:
    if not node.domain:
        if lacks_prototype(node, context):
            raise GeError.of(faults.NO_PROTOTYPE, f"{node.name}: the operator of GE for {key} has no open prototype")
        if refusal := plugin_refusal(node, context):
            raise GeError.of(faults.PLUGIN_FAILED, f"the plugin of {node.name} ({key}) failed: {refusal}")
        if node.op_type == "Constant":
            _check_constants(attribute.t for attribute in node.attribute if attribute.name == "value")
    return GeOperator(node, key)


def _parsed(node: NodeProto, key: str, ge_type: str, declared: Prototype, plugin: AnyPlugin) -> GeOperator:
    parsed = plugin.parse(
        key,
        source_attributes(node, key),
        inputs=declared.inputs,
        outputs=declared.outputs,
        defaults=declared.defaults(),
    )
    if parsed.status != SUCCESS:
        raise GeError.of(faults.PLUGIN_FAILED, f"the plugin of {node.name} ({key}) failed: {parsed.written.strip()}")
    for name, kind in declared.types().items():
        found = parsed.attributes.get(name)
        if found is None or found.type != kind:
            what = "is missing" if found is None else f"is {found.type} instead of {kind}"
            raise GeError.of(faults.INNER, f"attribute {name} of {node.name} ({ge_type}) {what}")
    return GeOperator(node, key, ge_type, parsed.attributes, parsed.inputs, parsed.outputs)


def _check_inputs(graph: GraphProto) -> None:
    """Check the element types of the inputs of a model. Those of a branch have none."""
    constants = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        element = value.type.tensor_type.elem_type
        if value.name not in constants and element not in ELEMENT_TYPES:
            raise GeError.of(faults.INNER, f"input {value.name}: data type {element} is undefined")


def _check_constants(tensors: Iterable[TensorProto]) -> None:
    for tensor in tensors:
        types = CONSTANT_TYPES if 0 not in tensor.dims else ELEMENT_TYPES
        if tensor.data_type not in types:
            raise GeError.of(faults.INNER, f"constant {tensor.name}: data type {tensor.data_type} is not supported")


def _check_positions(operators: Sequence[GeOperator], graph: GraphProto) -> None:
    """Check that each edge between operators leads from an output to an input that their prototypes have."""
    producers = {name: (operator, at) for operator in operators for at, name in enumerate(operator.node.output)}
    made = {*producers, *(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)}
    for operator in operators:
        count = len(operator.inputs) if operator.type else input_count(operator.node)
        for at, name in enumerate(operator.node.input):
            producer, output = producers.get(name, (None, 0))
            if count is not None and at >= count and name in made:
                what = f"{operator.node.name} ({operator.type or operator.key})"
                raise GeError.of(faults.INNER, f"{what} has no input {at}")
            if producer and producer.type and output >= len(producer.outputs):
                raise GeError.of(faults.INNER, f"{producer.node.name} ({producer.type}) has no output {output}")


def _check_outputs(graph: GraphProto) -> None:
    made = {name for node in graph.node for name in node.output}
    made |= {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for value in graph.output:
        if value.name not in made:
            raise GeError.of(faults.INNER, f"nothing makes the output {value.name}")


def _join_missing_operands(graph: GraphProto) -> None:
    """Join inputs without a name to the last output without a name, as GE does, which takes "" for a value.

    Not those of a Clip: its plugin makes a graph that has no such input.
    """
    outputs = [(node, at) for node in graph.node for at, name in enumerate(node.output) if not name]
    if not outputs:
        return
    joined = "an output without a name"
    last, position = outputs[-1]
    last.output[position] = joined
    for node in graph.node:
        if node.domain or node.op_type != "Clip":
            node.input[:] = [name or joined for name in node.input]
