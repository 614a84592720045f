# SPDX-License-Identifier: Apache-2.0

"""Notes on a model as a whole: no gradients in it, a model that is lowered already, damage by another tool.

They come from operators and names alone, and never decide what is lowered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.dialect.targets import TARGETS, Target
from poolgrad_lowering.model.diagnostics.diagnostic import Severity
from poolgrad_lowering.model.diagnostics.note_codes import NoteCode
from poolgrad_lowering.model.diagnostics.text import counted, either
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.report.damage import damages, declared_element_type, dialect_nodes, is_body
from poolgrad_lowering.report.report import Note

Operators = Counter[tuple[str, str]]
"""The number of nodes of each operator, a domain and an op type; ONNX's own domain is the empty string."""


def count_operators(index: ModelIndex) -> Operators:
    """Return the counts of an indexed model, without function bodies of the dialect."""
    found: Operators = Counter()
    for scope in index.scopes:
        if not is_body(scope.root.proto):
            found.update({op: len(positions) for op, positions in scope.by_op.items()})
    return found


def notes(
    index: ModelIndex, operators: Operators, target: Target, *, has_anchors: bool, in_onnx: int = 0
) -> tuple[Note, ...]:
    """Return the notes on a model before its lowering, with its index and its operators.

    `has_anchors` is whether the model has a node that can be a gradient, `in_onnx` the number of sites whose gradient
    is written in operators of ONNX.
    """
    on_model = list(_on_dialect(index, operators))
    if in_onnx:
        what = f"{counted(in_onnx, 'gradient')} of average pools written in operators of ONNX"
        on_model.append((NoteCode.IN_ONNX, NoteCode.IN_ONNX.with_advice(what)))
    if not (on_model or has_anchors):
        on_model.append(_without_gradients(operators))
    return tuple(
        Note(code.value, code.severity is Severity.WARNING, text) for code, text in (*_on_target(target), *on_model)
    )


def _on_target(target: Target) -> Iterator[tuple[NoteCode, str]]:
    if target.operators:
        return
    able = {soc: other for other in TARGETS.values() if other.operators for soc in other.socs}
    similar = [soc for soc in able if soc.startswith(target.socs)]
    wanted = (
        either(similar) + f", {able[similar[0]].title}"
        if similar
        else either(target.name for target in TARGETS.values() if target.operators)
    )
    yield (
        NoteCode.TARGET_WITHOUT_OPERATORS,
        f"{target.title} has no operator for the gradient of a pool: every gradient is refused. Did you mean {wanted}?",
    )


def _on_dialect(index: ModelIndex, operators: Operators) -> Iterator[tuple[NoteCode, str]]:
    """Yield notes on nodes of the dialect, and on what other tools left of them."""
    count = {op_type: number for (domain, op_type), number in operators.items() if domain == DOMAIN}
    if known := {op_type: count[op_type] for op_type in count if op_type in OPS}:
        yield NoteCode.ALREADY_LOWERED, _lowered_for(known, index)
    yield from ((code, code.with_advice(found)) for code, found in damages(index))


def _lowered_for(count: dict[str, int], index: ModelIndex) -> str:
    nodes = [node for node in dialect_nodes(index) if node.proto.op_type in count]
    needed = {(node.proto.op_type, declared_element_type(node)) for node in nodes}
    able = [target.name for target in TARGETS.values() if all(target.supports(*each) for each in needed)]
    operators = ", ".join(sorted(count))
    made_for = f"for {either(able)}" if able else "for no target that has all of these operators for their types"
    return f"already lowered: {counted(sum(count.values()), f'{DOMAIN} node')} ({operators}), {made_for}"


def _without_gradients(operators: Operators) -> tuple[NoteCode, str]:
    pools = {op: n for (_, op), n in sorted(operators.items()) if op.endswith("MaxPool") or op == "AveragePool"}
    unknown = "no node has a known form of a pool's gradient"
    if not pools:
        return NoteCode.NO_POOL, f"the model has no MaxPool or AveragePool, and {unknown}"
    shown = ", ".join(f"{number} {op_type}" for op_type, number in pools.items())
    code = NoteCode.FORWARD_GRAPH
    return code, code.with_advice(f"{unknown}, as in a forward graph: {shown}")
