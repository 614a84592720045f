# SPDX-License-Identifier: Apache-2.0

"""The flaws of a model's parts: each function checks one aspect of the protobuf and returns a `Flaw` or None."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, KeysView, Sequence
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter

import onnx
from onnx import AttributeProto, ModelProto

from poolgrad_lowering.model.diagnostics.faults import Fault, Flaw, shown, shown_path
from poolgrad_lowering.model.io.limits import Limits
from poolgrad_lowering.model.ir.attributes import onnx_schema
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import LOCAL, Scope, Use, canonical_domain

_SHORT = {"FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g", "TYPE_PROTO": "tp"}
_FIELDS = {number: _SHORT.get(kind, kind.lower()) for kind, number in AttributeProto.AttributeType.items() if number}
"""The field of an attribute's value by its type; UNDEFINED, which is 0, has none."""
_NEVER_EMPTY = frozenset(
    {AttributeProto.TENSOR, AttributeProto.GRAPH, AttributeProto.SPARSE_TENSOR, AttributeProto.TYPE_PROTO}
)
"""Types whose field must be present: an absent number, string or list means 0, "" or []."""
_DESCRIBING = frozenset({"name", "type", "doc_string", "ref_attr_name"})

_LEAST = {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 0}
_MOST = 2**31 - 1
"""Many runtimes store kernels, strides and pads as C ints."""

_POOLS = frozenset(
    (domain, op_type)
    for domain in ("", "com.microsoft")
    for op_type in ("MaxPool", "MaxPoolGrad", "AveragePool", "AveragePoolGrad", "LpPool", "MaxUnpool")
)
_CONVOLUTIONS = frozenset((("", "Conv"), ("", "ConvTranspose")))


def attribute_flaw(attribute: AttributeProto) -> Flaw | None:
    """The flaw of an attribute's name, type or stored field, or None. Does not check tensors and graphs in it."""
    name = attribute.name
    if not name:
        return Flaw(Fault.ATTRIBUTE_NAME, "an attribute has no name")
    if (flaw := encoding_flaw((name,))) is not None:
        return flaw
    if (field := _FIELDS.get(attribute.type)) is None:
        return Flaw(Fault.ATTRIBUTE_TYPE, f"attribute {shown(name)} has a type that ONNX does not define")
    filled = {descriptor.name for descriptor, _ in attribute.ListFields()} - _DESCRIBING
    if attribute.ref_attr_name:
        return Flaw(Fault.ATTRIBUTE_TYPE, _mismatch(attribute, filled)) if filled else None
    if filled <= {field} and (filled or attribute.type not in _NEVER_EMPTY):
        return None
    return Flaw(Fault.ATTRIBUTE_TYPE, _mismatch(attribute, filled))


def window_flaws(scope: Scope) -> Iterator[tuple[int, Flaw]]:
    """The positions and flaws of the window attributes of a scope's pools and convolutions. Checks numbers of pools."""
    nodes = ((position, op in _POOLS) for op in _POOLS | _CONVOLUTIONS for position in scope.by_op.get(op, ()))
    for position, is_pool in sorted(nodes):
        for attribute in scope.proto.node[position].attribute:
            if attribute.name not in _LEAST or attribute.ref_attr_name:
                continue
            if attribute.type != AttributeProto.INTS:
                what = f"attribute '{attribute.name}' is not a list of integers"
                yield position, Flaw(Fault.ATTRIBUTE_TYPE, what)
            for number in attribute.ints[:] if is_pool else ():
                if not _LEAST[attribute.name] <= number <= _MOST:
                    what = f"attribute '{attribute.name}' has the value {number}"
                    yield position, Flaw(Fault.ATTRIBUTE_VALUE, what)


def _mismatch(attribute: AttributeProto, filled: Iterable[str]) -> str:
    kind = AttributeProto.AttributeType.Name(attribute.type)
    held = ", ".join(sorted(filled)) or "nothing"
    source = " and comes from the function's caller" if attribute.ref_attr_name else ""
    return f"attribute {shown(attribute.name)} is of type {kind}{source}, but holds {held}"


def duplicate_flaw(names: Sequence[str], fault: Fault = Fault.NAME_TWICE, what: str = "the name") -> Flaw | None:
    """The flaw of a list with a duplicate name, or None."""
    if len(set(names)) == len(names):
        return None
    [(name, _)] = Counter(names).most_common(1)
    return Flaw(fault, f"{what} {shown(name)} is given twice")


def encoding_flaw(names: Collection[str]) -> Flaw | None:
    """The flaw of a name that is not UTF-8, or None. protobuf returns such a name as `bytes`."""
    try:
        "".join(names)  # raises for bytes, and is faster than a loop over the names
    except TypeError:
        bad = next(name for name in names if not isinstance(name, str))
        return Flaw(Fault.NAME_NOT_UTF8, f"the name {shown(bad)} is not UTF-8 text")
    return None


def shadowing_flaws(scope: Scope) -> Iterator[tuple[int, Flaw]]:
    """The positions and flaws of the nodes of a subgraph that redefine a name of an enclosing scope, in order.

    As in onnxruntime, a name that is defined after the node that holds the subgraph does not count, and inputs and
    initializers of a subgraph may shadow outer values.
    """
    outside = _defined_outside(scope, scope.producers.keys()) if scope.holder >= 0 else ()
    for position, name in sorted((scope.producers[name], name) for name in outside):
        yield position, Flaw(Fault.NAME_SHADOWED, f"the value {shown(name)} shadows a value outside the subgraph")


def _defined_outside(scope: Scope, names: KeysView[str]) -> Iterator[str]:
    """The names that are defined in an enclosing scope before the subgraph."""
    while scope.parent is not None:
        around, holder = scope.parent, scope.holder
        yield from names & around.inputs
        yield from names & around.initializers.keys()
        for name in names & around.producers.keys():
            if holder < 0 or around.producers[name] < holder:
                yield name
        scope = around


def cycle_flaw(scope: Scope) -> Flaw | None:
    """The flaw of a dependency cycle between nodes of the scope, or None. Captures of subgraphs count as uses."""
    needs: dict[int, set[int]] = {}
    for name, producer in scope.producers.items():
        for use in scope.uses(name):
            needs.setdefault(_consumer(scope, use), set()).add(producer)
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        cycle: list[int] = error.args[1]
        labels = " → ".join(shown(scope.node(position).label) for position in cycle[:4])
        return Flaw(Fault.CYCLE, f"its nodes depend on each other: {labels}{' → …' if len(cycle) > 4 else ''}")
    return None


def _consumer(scope: Scope, use: Use) -> int:
    """The position in `scope` of the node that has the use, itself or in a subgraph that it holds."""
    inner, position = use
    while inner is not scope and inner.parent is not None:
        inner, position = inner.parent, inner.holder
    return position


def calls_flaw(index: ModelIndex, limits: Limits) -> Flaw | None:
    """The flaw of recursive calls, of too deep nesting, or of too many nodes when all calls are inlined, or None."""
    roots = [scope for scope in index.scopes if scope.parent is None]
    calls: dict[Scope, Counter[tuple[Scope, int]]] = {root: Counter() for root in roots}
    for function in roots:
        for scope, _ in index.calls(function):
            calls[scope.root][function, scope.depth] += 1
    try:
        order = list(TopologicalSorter({root: [f for f, _ in called] for root, called in calls.items()}).static_order())
    except CycleError as error:
        return Flaw(Fault.RECURSION, " calls ".join(shown_path(scope.path) for scope in reversed(error.args[1])))
    return _size_flaw(order, index.scopes, calls, limits)


def _size_flaw(
    order: Iterable[Scope], scopes: Iterable[Scope], calls: dict[Scope, Counter[tuple[Scope, int]]], limits: Limits
) -> Flaw | None:
    nodes: Counter[Scope] = Counter()
    depths: dict[Scope, int] = {}
    for scope in scopes:
        nodes[scope.root] += len(scope.proto.node)
        depths[scope.root] = max(depths.get(scope.root, 0), scope.depth)
    for root in order:
        nodes[root] += sum(nodes[function] * count for (function, _), count in calls[root].items())
        depths[root] = max([depths[root], *(depth + 1 + depths[function] for function, depth in calls[root])])
        if depths[root] > limits.max_nesting:
            return Flaw(Fault.NESTING, f"{root.path} nests {depths[root]} levels, more than {limits.max_nesting}")
        if nodes[root] > limits.max_nodes:
            return Flaw(Fault.TOO_MANY_NODES, f"{root.path} has {nodes[root]} nodes, more than {limits.max_nodes}")
    return None


def imports_flaw(imports: Iterable[onnx.OperatorSetIdProto]) -> Flaw | None:
    """The flaw of the operator sets that a model or function imports, or None."""
    newest = onnx.defs.onnx_opset_version()
    versions: dict[str, int] = {}
    for entry in imports:
        domain, version = canonical_domain(entry.domain), entry.version
        if (flaw := encoding_flaw((domain,))) is not None:
            return flaw
        if version < 1:
            return Flaw(Fault.OPSET_VERSION, f"domain {shown(domain)} is imported in version {version}")
        if domain == "" and version > newest:
            what = f"ONNX's operators are imported in version {version}; onnx {onnx.__version__} knows {newest}"
            return Flaw(Fault.OPSET_VERSION, what)
        if (first := versions.setdefault(domain, version)) != version:
            return Flaw(Fault.OPSET_TWICE, f"domain {shown(domain)} is imported in versions {first} and {version}")
    return None


def model_flaw(model: ModelProto) -> Flaw | None:
    """The flaw of a model's top level, or None. Does not check nodes."""
    if not model.HasField("graph"):
        return Flaw(Fault.NOT_ONNX, "it has no graph")
    version = model.ir_version
    if not 0 < version <= onnx.IR_VERSION:
        knows = f"; onnx {onnx.__version__} knows {onnx.IR_VERSION}" if version > 0 else ""
        return Flaw(Fault.IR_VERSION, f"its ir_version is {version}{knows}")
    if not model.opset_import:
        return Flaw(Fault.DOMAIN_NOT_IMPORTED, "it imports no operator set")
    if (flaw := imports_flaw(model.opset_import)) is not None:
        return flaw
    if not model.graph.output:
        return Flaw(Fault.NO_OUTPUT, "its graph has no outputs")
    keys = Counter((canonical_domain(f.domain), f.name, f.overload) for f in model.functions)
    for key, count in keys.items():
        if (flaw := encoding_flaw(key)) is not None:
            return flaw
        if count > 1:
            return Flaw(Fault.FUNCTION_TWICE, f"function {shown('.'.join(filter(None, key)))} is defined {count} times")
    return None


def operator_flaws(scope: Scope) -> Iterator[tuple[int, Flaw]]:
    """The position of the first node with each faulty operator, and the flaw."""
    for (domain, op_type), positions in scope.by_op.items():
        imported = "" if domain == LOCAL else domain
        if not op_type:
            yield positions[0], Flaw(Fault.NO_OPERATOR, "it has no op_type")
        elif imported not in scope.opsets:
            yield positions[0], Flaw(Fault.DOMAIN_NOT_IMPORTED, f"domain {shown(imported)} is not imported")


def inputs_flaws(scope: Scope) -> Iterator[tuple[int, Flaw]]:
    """The positions and flaws of nodes of ONNX without an input that their operator requires."""
    for (domain, op_type), positions in scope.by_op.items():
        required = _required_inputs(op_type, domain, scope.opsets.get(domain))
        for position in positions if required else ():
            given = scope.proto.node[position].input
            for place in required:
                if place >= len(given) or not given[place]:
                    yield position, Flaw(Fault.INPUT_MISSING, f"it has no input {place}, which {op_type} requires")


@lru_cache(maxsize=256)
def _required_inputs(op_type: str, domain: str, version: int | None) -> tuple[int, ...]:
    schema = onnx_schema(op_type, domain, version)
    if schema is None:
        return ()
    kinds = [operand.option for operand in schema.inputs]
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    return tuple(place for place in range(schema.min_input) if kinds[min(place, len(kinds) - 1)] != optional)
