# SPDX-License-Identifier: Apache-2.0

"""Finds the reasons why a site is not proven although all its runs gave equal results.

Data can only be a sample, and a site that is wrong for one value could agree on it. So the nodes between the operators
of the dialect and the values of the model may only move elements, and indices may only be computed by arithmetic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from onnx import ModelProto, TensorProto

from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.dialect.functions import body_bytes
from poolgrad_lowering.dialect.op import ASCEND_TYPES, Part
from poolgrad_lowering.model.ir.tensors import type_name
from poolgrad_lowering.verification.graph import roles
from poolgrad_lowering.verification.graph.flat import FlatNode, Unit
from poolgrad_lowering.verification.graph.protos import attribute_values, default_opset
from poolgrad_lowering.verification.graph.types import HALVES, TensorTypes, elements_around
from poolgrad_lowering.verification.graph.windows import StridedWindow, known_integers, windows_of
from poolgrad_lowering.verification.sites.cut import Cut
from poolgrad_lowering.verification.sites.declared import node_flaw, own_bodies
from poolgrad_lowering.verification.sites.regions import ChangedRegion

_MAXIMA = ("ArgMax", "ReduceMax", "TopK")
"""Operators by which pools are written out."""


def foreign_bodies(lowered: ModelProto) -> frozenset[str]:
    """Return the operators of the dialect whose function body in a model is not the one that this version makes."""
    opset = default_opset(lowered)
    bodies = [function for function in lowered.functions if function.domain == DOMAIN and function.name in OPS]
    return frozenset(body.name for body in bodies if body_bytes(body) not in own_bodies(body.name, opset))


def doubt(cut: Cut, types: TensorTypes, foreign: Collection[str], units: tuple[Unit, Unit], opset: int) -> str | None:
    """Return why a site is not proven although all runs gave the same results, or None.

    `foreign` are the operators whose body is not this version's; `units` are the original and the lowered one, and
    `opset` is the version of the default domain.
    """
    strange = sorted({node.op[1] for node in cut.region.added if roles.is_dialect(node)}.intersection(foreign))
    if strange:
        return f"the function body of {strange[0]} differs from this version's; in these runs it gave the same results"
    return _flow_flaw(cut.region, types) or _other_windows(cut) or _declared_flaw(cut, types, units, opset)


def _declared_flaw(cut: Cut, types: TensorTypes, units: tuple[Unit, Unit], opset: int) -> str | None:
    """Return a text on the first result of a node of the dialect that is declared with another element type, or None.

    Runs ignore declarations; no runtime takes such a model. What the original declares so, tools left there.
    """
    known = {value: found.element for value, found in types.items() if not found.claimed}
    known |= elements_around(cut.lowered, known, opset)
    before, declared = map(_declared_elements, units)
    for node in [node for node in cut.region.added if roles.is_dialect(node) and node_flaw(node) is None]:
        op, values = OPS[node.op[1]], attribute_values(node.proto)
        for operand, value in zip(op.outputs, node.outputs, strict=True):
            index = ASCEND_TYPES.get(values.get(op.index_type or "", 0))
            element = index if operand.part is Part.ARGMAX else known.get(node.outputs[0])
            if element is not None and declared.get(value) not in (None, before.get(value), element):
                return f"'{value}' is declared as {type_name(declared[value])}, but is {type_name(element)}"
    return None


def _declared_elements(unit: Unit) -> dict[str, int]:
    """Return the element types that a unit declares of values, by name."""
    return {
        ("" if path == unit.name else f"{path}: ") + value.name: value.type.tensor_type.elem_type
        for path, scope in unit.scopes.items()
        for value in scope.value_info
        if value.type.tensor_type.elem_type
    }


def _other_windows(cut: Cut) -> str | None:
    """Return a text on the first gradient whose windows are not those of a pool of the original, or None.

    Results may be the same with others at the sizes that were tried. Nothing is said where a pool's windows are not
    known. Average pools have their windows in their gradients, which are known unless one is written out.
    """
    constants = known_integers(cut.original, cut.constants)
    of_pools = [node for node in cut.original if roles.is_pool(node) or node.op[1] in _MAXIMA]
    maxima = [node for node in of_pools if not roles.is_average_gradient(node)]
    averages = [node for node in cut.region.removed if roles.is_average_gradient(node)]
    added = [node for node in cut.region.added if roles.is_dialect_gradient(node)]
    new = [node for node in added if roles.is_average_gradient(node)]
    if len(averages) < len(new):
        averages = []
    for gradients, nodes in (([node for node in added if node not in new], maxima), (new, averages)):
        pools = [windows_of(node, constants) for node in nodes]
        for node in gradients if pools and all(pools) else ():
            own = windows_of(node, {})
            if own and not any(_fit(own, pool, widens=nodes is maxima) for pool in pools):
                return f"the windows of '{node.label}' are not those of the pool"
    return None


def _fit(own: Sequence[StridedWindow], pool: Sequence[StridedWindow], *, widens: bool) -> bool:
    """Whether windows of a gradient are those of a pool, or with `widens` wider, for the same padding at both ends."""
    missing = len(own) - len(pool)
    if missing < 0 or any(window != (1, 1, 0, 0) for window in own[:missing]):
        return False
    return all(
        window.stride == of_pool.stride
        and window.extent - of_pool.extent in (0, abs(of_pool.begin - of_pool.end) if widens else 0)
        for window, of_pool in zip(own[missing:], pool, strict=True)
    )


_ARITHMETIC = frozenset(
    {"Add", "Cast", "Concat", "Constant", "ConstantOfShape", "Div", "Gather", "MaxPool", "Mod", "Mul"}
    | {"ReduceProd", "Shape", "Sub"}
)
"""Operators by which indices and shapes are computed."""

_INTEGERS = (TensorProto.INT32, TensorProto.INT64)


def _flow_flaw(region: ChangedRegion, types: TensorTypes) -> str | None:
    """Return a text on the first node of the lowered side that computes with values, or None.

    `types` are the known types of values that both sides define.
    """
    bodies = {key for gradient in region.expanded for key in gradient.nodes}
    nodes = [node for node in region.added if not roles.is_dialect(node) and node.key not in bodies]
    for node in nodes:
        if node.op[0] or node.op[1] not in roles.MOVING | _ARITHMETIC:
            return _text(node)
    producers = {value: node for node in nodes for value in node.outputs if value}
    pending, seen = list(_values(region, types)), set[str]()
    while pending:
        value = pending.pop()
        made_by = producers.get(value)
        if made_by is None or value in seen or _is_pool_of_the_original(region, made_by):
            continue
        if not made_by.inputs or not (
            made_by.op[1] in roles.MOVING
            or _divides(made_by, producers, region)
            or _casts_to_divide(made_by, producers, region, types)
        ):
            return _text(made_by)
        seen.add(value)
        pending.append(made_by.inputs[0])
    return None


def _values(region: ChangedRegion, types: TensorTypes) -> Iterator[str]:
    """Yield the values that must have flowed through operators that move elements: results, x and gradients."""
    for node in region.added:
        x = None if roles.is_average_gradient(node) else roles.pooled(node)  # of an average's x only the sizes are read
        for value in (x, roles.incoming_gradient(node)):
            if value is not None:
                yield value
    yield from (gradient.grad for gradient in region.expanded)
    for value in region.outputs:
        if value not in types or types[value].element not in _INTEGERS:
            yield value


def _divides(node: FlatNode, producers: Mapping[str, FlatNode], region: ChangedRegion) -> bool:
    """Whether the node divides the gradient of an average pool by constants: the divisors of its windows."""
    by = producers.get(node.inputs[1]) if node.op == ("", "Div") else None
    users = _readers(node, region)
    users += [other for cast in users if cast.op == ("", "Cast") for other in _readers(cast, region)]
    averages = [other for other in users if roles.incoming_gradient(other) and roles.is_average_gradient(other)]
    return by is not None and by.op == ("", "Constant") and bool(averages)


def _casts_to_divide(
    node: FlatNode, producers: Mapping[str, FlatNode], region: ChangedRegion, types: TensorTypes
) -> bool:
    """Whether the node casts a gradient of a half type to float32 before such a division, or the quotient back."""
    if node.op != ("", "Cast"):
        return False
    to, before = attribute_values(node.proto).get("to"), producers.get(node.inputs[0])
    if to in HALVES and before is not None:
        return _divides(before, producers, region)
    value = node.inputs[0]
    while value in producers and producers[value].inputs and producers[value].op[1] in roles.MOVING:
        value = producers[value].inputs[0]
    is_half = value in types and types[value].element in HALVES
    divided = any(_divides(other, producers, region) for other in _readers(node, region))
    return to == TensorProto.FLOAT and is_half and divided


def _readers(node: FlatNode, region: ChangedRegion) -> list[FlatNode]:
    """Return the added nodes that read the first output of a node as their first input, or as their gradient."""
    value = node.outputs[0]
    return [other for other in region.added if value in (*other.inputs[:1], roles.incoming_gradient(other))]


def _is_pool_of_the_original(region: ChangedRegion, node: FlatNode) -> bool:
    """Whether the original has the MaxPool too, with another number of outputs."""
    same = [other for other in region.removed if other.op == node.op and other.inputs == node.inputs]
    return node.op == ("", "MaxPool") and any(
        list(other.proto.attribute) == list(node.proto.attribute) and other.outputs[0] == node.outputs[0]
        for other in same
    )


def _text(node: FlatNode) -> str:
    return f"node '{node.label}' ({node.op[1]}) computes with values; only operators of the dialect may"
