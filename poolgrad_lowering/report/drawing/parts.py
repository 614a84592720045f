# SPDX-License-Identifier: Apache-2.0

"""The parts of a model to draw: a site before and after its lowering, and a refused anchor with the nodes it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto

from poolgrad_lowering.compiler.families.verdicts import Lowered
from poolgrad_lowering.compiler.lowering.pipeline import Decisions
from poolgrad_lowering.compiler.rewriting.rewrite import Replacement
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import Shown
from poolgrad_lowering.model.ir.scopes import Node, Scope, Value
from poolgrad_lowering.model.ir.tensors import type_name
from poolgrad_lowering.report.drawing.graph import Graph, Kind, Operation, draw
from poolgrad_lowering.report.drawing.markup import Markup, element, shown
from poolgrad_lowering.report.drawing.svg import scoped, svg

MAX_NODES = 40
"""The largest number of nodes of a drawing; those nearest to the result are drawn."""

MAX_AROUND = 14
"""The largest number of nodes of the drawing of a refused anchor."""

_MAX_ELEMENTS = 8
_MAX_TEXT = 300
_PLAIN = (AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.STRING, AttributeProto.INTS, AttributeProto.FLOATS)


class Parts:
    """The parts of one model. The model must not be rewritten yet."""

    def __init__(self, facts: Facts, replaced: Sequence[Replacement]) -> None:
        self._facts = facts
        self._roots = {one.root: one for one in replaced}
        self._removed = {node for one in replaced for node in one.region.nodes}

    def before(self, site: Lowered[Any], replacement: Replacement) -> Graph:
        """The nodes that are removed with a site, including those shared with other sites, and its pool in any case."""
        root, pool = replacement.root, site.gradient.pool
        nodes, cut = _backwards(root, MAX_NODES, lambda node: node in self._removed and node not in self._roots)
        if pool is not None and pool not in nodes:
            nodes.append(pool)
        results = [site.gradient.dx.value]
        if pool is not None and (pooled := pool.output(0)) is not None:
            results.append(pooled)
        kinds = {node: Kind.REMOVED if node in self._removed else Kind.KEPT for node in nodes}
        return self._graph(nodes, kinds | {site.anchor: Kind.ANCHOR}, results, cut=cut)

    def around(self, anchor: Node) -> Graph:
        """A refused anchor with the nearest nodes that it depends on."""
        nodes, cut = _backwards(anchor, MAX_AROUND, lambda _: True)
        kinds = dict.fromkeys(nodes, Kind.KEPT) | {anchor: Kind.ANCHOR}
        return self._graph(nodes, kinds, [value for value in anchor.outputs if value is not None], cut=cut)

    def after(self, site: Lowered[Any], replacement: Replacement) -> Graph:
        """The nodes that replace a site, with its pool or the nodes that replace the pool."""
        pool, results = site.gradient.pool, [site.gradient.dx.value]
        moved = self._roots.get(pool) if pool is not None else None
        operations = [_existing(pool, Kind.KEPT)] if pool is not None and moved is None else []
        literals: dict[Value, str] = {}
        for one in (moved, replacement):
            for node in one.nodes if one is not None else ():
                operation = _written(node, replacement.root.scope)
                if node.op_type == "Constant":
                    content = _content(onnx.numpy_helper.to_array(node.attribute[0].t))
                    literals |= dict.fromkeys(filter(None, operation.outputs), content)
                else:
                    operations.append(operation)
        if pool is not None and (pooled := pool.output(0)) is not None:
            results.append(pooled)
        literals |= self._literals(value for operation in operations for value in operation.inputs)
        return draw(operations, results, self._describe, literals)

    def _describe(self, value: Value) -> str:
        """The element type and shape of a value; empty for a new one, of which there are no facts."""
        return value_text(self._facts, value) if value.scope.defines(value.name) else ""

    def _graph(self, nodes: Sequence[Node], kinds: dict[Node, Kind], results: Sequence[Value], *, cut: bool) -> Graph:
        ordered = sorted(nodes, key=lambda node: (node.scope.depth, node.scope.path, node.position))
        operations = [_existing(node, kinds[node]) for node in ordered if not node.is_a("Constant")]
        literals = self._literals(value for operation in operations for value in operation.inputs)
        return draw(operations, results, self._describe, literals, cut=cut)

    def _literals(self, values: Iterable[Value | None]) -> dict[Value, str]:
        """The contents of the values that are small constants."""
        found = {}
        for value in dict.fromkeys(values):
            content = self._facts.constant(value) if value is not None else None
            if value is not None and content is not None and content.size <= _MAX_ELEMENTS:
                found[value] = _content(content)
        return found


def value_text(facts: Facts, value: Value) -> str:
    """Element type and shape of a value, as `float32 [2, N, 7]`; an unknown part is left out."""
    element_type, shape = facts.element_type(value), facts.shape(value)
    name = type_name(element_type) if element_type else ""
    return " ".join(filter(None, (name, "" if shape is None else str(Shown(shape)))))


def _backwards(start: Node, limit: int, belongs: Callable[[Node], bool]) -> tuple[list[Node], bool]:
    """A node and the nodes that it depends on, breadth first, at most `limit`; and whether there are more."""
    found, seen, cut = [start], {start}, False
    for node in found:  # grows
        for value in node.inputs:
            producer = value.producer if value is not None else None
            if producer is None or producer in seen or producer.is_a("Constant") or not belongs(producer):
                continue
            if len(found) == limit:
                cut = True
                continue
            found.append(producer)
            seen.add(producer)
    return found, cut


def _existing(node: Node, kind: Kind) -> Operation:
    return Operation(kind, node.op[1], node.label, node.inputs, node.outputs, _attributes(node.proto))


def _written(proto: NodeProto, scope: Scope) -> Operation:
    kind = Kind.NPU if proto.domain == DOMAIN else Kind.NEW
    inputs, outputs = ([_named(scope, name) for name in names] for names in (proto.input, proto.output))
    return Operation(kind, proto.op_type, proto.name, tuple(inputs), tuple(outputs), _attributes(proto))


def _named(scope: Scope, name: str) -> Value | None:
    """The value that a name of a new node refers to: a value of the model, or a new one."""
    return (scope.resolve(name) or Value(scope, name)) if name else None


def _attributes(proto: NodeProto) -> str:
    return ", ".join(
        f"{stored.name}={_plain(onnx.helper.get_attribute_value(stored))}"
        for stored in proto.attribute
        if stored.type in _PLAIN and not stored.ref_attr_name
    )


def _plain(content: Any) -> str:
    if isinstance(content, bytes):
        return content[:_MAX_TEXT].decode("utf-8", "replace")
    return _content(np.asarray(content)) if isinstance(content, Sequence) else str(content)


def _content(elements: np.ndarray[Any, Any]) -> str:
    """The elements of a tensor on one line; of a larger tensor the first `_MAX_ELEMENTS`."""
    flat = elements.reshape(-1)
    shown = [str(element) for element in flat[:_MAX_ELEMENTS].tolist()]
    if elements.ndim == 0:
        return shown[0]
    return f"[{', '.join([*shown, *(['…'] if flat.size > _MAX_ELEMENTS else [])])}]"


_CLASS = "poolgrad-drawing"


def first_site(decisions: Decisions) -> Markup:
    """Return the first site before and after its lowering, for a part of a page of other origin; empty without a site.

    The drawings have their own style sheet. They are named by the site's layer, or its identifier without one.
    """
    site = next(iter(decisions.joined.sites), None)
    if site is None:
        return Markup()
    replaced = decisions.replaced
    [replacement] = [one for one in replaced if one.site == site.site]
    pools = [one for one in replaced if one.site is None and one.root == site.gradient.pool]
    parts, name = Parts(decisions.facts, [replacement, *pools]), shown(replacement.layer or site.site)
    figures = [
        element("figure", element("figcaption", caption), svg(graph, caption), style="margin: 0 1.5rem 0 0")
        for caption, graph in (
            (f"{name} before", parts.before(site, replacement)),
            (f"{name} after", parts.after(site, replacement)),
        )
    ]
    style = element("style", Markup(scoped(f".{_CLASS}")))
    frame = "display: flex; flex-wrap: wrap; overflow-x: auto; padding: 0.5rem; color: #1c2024; background: #fff"
    return element("div", style, *figures, class_=_CLASS, style=frame)
