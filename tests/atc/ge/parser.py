# SPDX-License-Identifier: Apache-2.0

"""GE's ONNX front end: from a model to the operators of a GE graph, or the errors that ATC ends with.

Of subgraphs only the keys are looked at; the stand-in knows no pool operator of the dialect inside of them.

It looks at keys, names, callbacks and positions only; types, shapes and formats are looked at in `kernels.py` while the
graph runs. The steps come in GE's order, because the first that fails decides the code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnx import GraphProto, ModelProto, NodeProto

from tests.atc.ge import faults
from tests.atc.ge.driver import ONNX, SUCCESS, AnyPlugin, Attribute, Tensor
from tests.atc.ge.faults import Fault, GeError
from tests.atc.ge.pb2json import source_attributes
from tests.atc.ge.prototypes import Prototype, Release, prototype
from tests.atc.ge.standard import is_registered, plugin_refusal

DEFAULT_DOMAIN = "ai.onnx"
WITHOUT_PLUGIN = {"Data", "Constant", "FileConstant"}
"""Operators that GE knows by itself, whatever their domain."""


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
    """

    node: NodeProto
    key: str
    type: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    inputs: Sequence[Tensor] = ()
    outputs: Sequence[Tensor] = ()


@dataclass(frozen=True)
class GeGraph:
    """A model that GE has taken."""

    model: ModelProto
    operators: Sequence[GeOperator]


def parse(model: ModelProto, plugin: AnyPlugin, release: Release = "9.0.0") -> GeGraph:
    """Return the operators that GE makes of a model.

    Raises:
        GeError: GE does not take the model.
        PluginError: the plugin's process ended.
    """
    if not model.HasField("graph"):
        raise GeError.of(faults.NO_GRAPH, "the model has no graph")
    graph = GraphProto()
    graph.CopyFrom(model.graph)
    versions = {entry.domain or DEFAULT_DOMAIN: entry.version for entry in model.opset_import}
    _name_nodes(graph)
    _check_ends(graph)
    _check_names_and_keys(graph, versions, plugin)
    operators = [_operator(node, versions, plugin, release) for node in graph.node]
    _check_positions(operators)
    _check_outputs(graph)
    _join_missing_operands(graph)
    joined = [replace(operator, node=node) for operator, node in zip(operators, graph.node, strict=True)]
    taken = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, graph=graph)
    return GeGraph(taken, joined)


def _name_nodes(graph: GraphProto) -> None:
    """Give each node without a name one of its operator and a number."""
    unnamed = (node for node in graph.node if not node.name)
    for number, node in enumerate(unnamed):
        node.name = f"{node.op_type}_{number}"


def _check_ends(graph: GraphProto) -> None:
    for what, values in {"input": graph.input, "output": graph.output}.items():
        if not values:
            raise GeError.of(faults.NO_INPUT_OR_OUTPUT, f"the graph has no {what}")


def _check_names_and_keys(graph: GraphProto, versions: Mapping[str, int], plugin: AnyPlugin) -> None:
    found: list[Fault] = []
    names: set[str] = set()
    for name, node in _named(graph):
        key = _key(node, versions) if node else None
        if name in names:
            found.append(Fault(faults.NAME_REPEATED, f"two nodes are called {name}"))
        names.add(name)
        if key and not (_own_type(key, plugin) or is_registered(key)):
            found.append(Fault(faults.TYPE_UNREGISTERED, f"no plugin takes {key}, the type of {name}"))
    for node in _inner_nodes(graph):
        key = _key(node, versions)
        if key and not is_registered(key):
            raise GeError.of(faults.TYPE_UNREGISTERED, f"no plugin takes {key}, the type of {node.name} in a subgraph")
    if found:
        raise GeError(*found)


def _named(graph: GraphProto) -> Iterator[tuple[str, NodeProto | None]]:
    """Yield what becomes a node of GE's graph, with its name: nodes, graph inputs, initializers."""
    initializers = sorted(tensor.name for tensor in graph.initializer)
    yield from ((node.name, node) for node in graph.node)
    yield from ((value.name, None) for value in graph.input if value.name not in initializers)
    yield from ((f"{name}_Initializer_{number}", None) for number, name in enumerate(initializers))


def _inner_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                yield from subgraph.node
                yield from _inner_nodes(subgraph)


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


def _operator(node: NodeProto, versions: Mapping[str, int], plugin: AnyPlugin, release: Release) -> GeOperator:
    key = _key(node, versions)
    if (ge_type := _own_type(key, plugin)) is None:
        if refusal := plugin_refusal(node):
            raise GeError.of(faults.PLUGIN_FAILED, f"the plugin of {node.name} ({key}) failed: {refusal}")
        return GeOperator(node, key or node.op_type)
    declared = prototype(ge_type, release)
    if declared is None:
        raise GeError.of(faults.NO_PROTOTYPE, f"{node.name}: {ge_type} has no prototype in CANN {release}")
    return _parsed(node, str(key), ge_type, declared, plugin)


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


def _check_positions(operators: Sequence[GeOperator]) -> None:
    """Check that each edge between operators leads from an output to an input that their prototypes have."""
    producers = {name: (operator, at) for operator in operators for at, name in enumerate(operator.node.output)}
    for operator in operators:
        for at, name in enumerate(operator.node.input):
            producer, output = producers.get(name, (None, 0))
            if operator.type and at >= len(operator.inputs):
                raise GeError.of(faults.INNER, f"{operator.node.name} ({operator.type}) has no input {at}")
            if producer and producer.type and output >= len(producer.outputs):
                raise GeError.of(faults.INNER, f"{producer.node.name} ({producer.type}) has no output {output}")


def _check_outputs(graph: GraphProto) -> None:
    made = {name for node in graph.node for name in node.output}
    made |= {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for value in graph.output:
        if value.name not in made:
            raise GeError.of(faults.INNER, f"nothing makes the output {value.name}")


def _join_missing_operands(graph: GraphProto) -> None:
    """Join inputs without a name to the last output without a name, as GE does, which takes "" for a value."""
    outputs = [(node, at) for node in graph.node for at, name in enumerate(node.output) if not name]
    if not outputs:
        return
    joined = "an output without a name"
    last, position = outputs[-1]
    last.output[position] = joined
    for node in graph.node:
        node.input[:] = [name or joined for name in node.input]
