# SPDX-License-Identifier: Apache-2.0

"""The section of the page on one anchor: its place in the model, and its lowering or its refusal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from poolgrad_lowering.compiler.families.shared.derivation import HOLDS, AxisDerivation, Derivation, Step
from poolgrad_lowering.dialect.targets import aclnn_function
from poolgrad_lowering.model.diagnostics.codes import Code
from poolgrad_lowering.model.diagnostics.diagnostic import Status
from poolgrad_lowering.model.diagnostics.text import operator_text
from poolgrad_lowering.model.ir.dims import Dim, Shown
from poolgrad_lowering.model.ir.tensors import type_name
from poolgrad_lowering.report.drawing.graph import Graph
from poolgrad_lowering.report.drawing.markup import Markup, element, joined, shown
from poolgrad_lowering.report.drawing.svg import in_words, svg
from poolgrad_lowering.report.html.record import AnchorRecord
from poolgrad_lowering.report.html.tables import code, name, scrolled, table
from poolgrad_lowering.report.report import AnchorReport

KEY = (
    ("anchor", "the anchor"),
    ("removed", "removed"),
    ("kept", "unchanged or added"),
    ("npu", "runs on the NPU"),
    ("outside", "a value from or for the rest of the model"),
)
"""What the kinds of boxes in a drawing mean: the class of the box, and its meaning."""

_MAX_REASON = 600
_MAX_VALUES = 16
"""The number of inputs and of outputs that are listed."""
_MAX_SYMBOL = 40
"""The number of characters of a symbolic size that are shown."""


def anchor_section(number: int, anchor: AnchorReport, record: AnchorRecord) -> Markup:
    """The collapsed section of an anchor; the first one is open if it was lowered.

    `number` counts from 1 and is its id in links.

    All but the place in the model is in a `noscript` element: the script makes elements of it when the section is
    opened, and without the script it is part of the page.
    """
    is_lowered = anchor.status == Status.LOWERED
    details = _lowered(anchor, record) if is_lowered else _not_lowered(anchor, record)
    return element(
        "details",
        element("summary", *_headline(number, anchor)),
        element("div", _place(number, anchor, record), element("noscript", *details), class_="body"),
        id=f"anchor-{number}",
        open=number == 1 and is_lowered,
        class_="anchor",
        data_status=anchor.status,
        data_form=anchor.pattern or "",
        data_code=anchor.code or "",
    )


def _headline(number: int, anchor: AnchorReport) -> Iterator[Markup]:
    yield element("span", number, class_="number")
    yield element("span", anchor.status, class_=f"status {anchor.status}")
    layer = [element("strong", shown(anchor.layer, 120)), " "] if anchor.layer else []
    yield element("span", *layer, code(shown(anchor.site, 240)), class_="name")
    yield element("span", anchor.op or anchor.code or "", class_="became")


def _place(number: int, anchor: AnchorReport, record: AnchorRecord) -> Markup:
    operator = operator_text(anchor.domain, anchor.op_type)
    rows: tuple[tuple[str, Sequence[str]], ...] = (
        *([("Layer", (anchor.layer,))] if anchor.layer else []),
        ("Site", (anchor.site,)),
        ("Node", (anchor.name,)),
        ("Operator", (operator,)),
        ("Graph", (anchor.scope,)),
        ("Outputs", record.outputs),
        ("Inputs", record.inputs),
    )
    entries: list[Markup] = []
    for heading, values in rows:
        entries.append(element("dt", heading))
        entries += [element("dd", name(value)) for value in values[:_MAX_VALUES]]
        if len(values) > _MAX_VALUES:
            entries.append(element("dd", f"and {len(values) - _MAX_VALUES} more"))
    entries += [
        element("dt", "Position"),
        element("dd", f"{record.position}, counted from 0 in its graph"),
        element("dt", "Link"),
        element("dd", element("a", f"#anchor-{number}", href=f"#anchor-{number}")),
    ]
    return joined(element("h3", "In the model"), element("dl", *entries, class_="place"))


def _not_lowered(anchor: AnchorReport, record: AnchorRecord) -> Iterator[Markup]:
    reason = Code(anchor.code or "")
    refused = anchor.status == Status.REFUSED
    yield element("h3", "Why it was refused" if refused else "Why it is no gradient of a pool")
    yield element("p", shown(anchor.reason or "", _MAX_REASON), class_="reason")
    named = code(reason.value)
    meaning = joined(element("a", named, href=f"#code-{reason.value}") if refused else named, ": ", reason.meaning)
    if anchor.pattern:
        form = element("a", code(shown(anchor.pattern)), href=f"#form-{anchor.pattern}")
        meaning = joined(meaning, " It is a proven gradient of the form ", form, ".")
    yield element("p", meaning)
    if refused:
        yield element("h3", "What would have to change")
        yield element("p", reason.advice)
    if record.before is not None:
        yield _figure("The nodes that it depends on", record.before)


def _lowered(anchor: AnchorReport, record: AnchorRecord) -> Iterator[Markup]:
    if record.derivation is None:
        raise AssertionError(f"the lowered anchor '{anchor.name}' has no derivation")
    yield element("h3", "What it becomes")
    yield from _becomes(anchor, record.derivation)
    if anchor.trusted_defaults:
        names = shown(", ".join(anchor.trusted_defaults), _MAX_REASON)
        yield element("p", "It is right if no caller overrides the defaults of these graph inputs: ", code(names), ".")
    if record.before is not None and record.after is not None:
        before, after = _figure("Before", record.before), _figure("After", record.after)
        yield element("div", before, after, class_="pair")
        yield element("p", *(element("span", text, class_=kind) for kind, text in KEY), class_="key")
    yield from _arithmetic(anchor, record.derivation)


def _becomes(anchor: AnchorReport, derivation: Derivation) -> Iterator[Markup]:
    form = element("a", code(shown(anchor.pattern or "")), href=f"#form-{anchor.pattern}")
    yield element("p", "Form ", form, ", ", derivation.windows, ".")
    yield element("p", *_run(anchor.op or "", derivation))
    if anchor.forward_op:
        yield element("p", "Its forward pool becomes ", *_run(anchor.forward_op, derivation))
    elif anchor.forward_code:
        stays = Code(anchor.forward_code)
        why = shown(anchor.forward_reason or "", _MAX_REASON)
        yield element(
            "p", "Its forward pool is not lowered, ", code(stays.value), f": {why}. To lower it: {stays.advice}"
        )


def _run(op: str, derivation: Derivation) -> tuple[Markup | str, ...]:
    """A dialect operator, and the function of aclnn that runs it."""
    return code(f"npu.{op}"), ", run by ", code(aclnn_function(op, derivation.rank)), "."


def _arithmetic(anchor: AnchorReport, derivation: Derivation) -> Iterator[Markup]:
    yield element("h3", "Attributes and their derivation")
    if anchor.attributes:
        values = [
            code(", ".join(map(str, value)) if isinstance(value, list) else str(value))
            for value in anchor.attributes.values()
        ]
        yield table(f"Attributes of npu.{anchor.op}", list(anchor.attributes), [values], stacked=False)
    else:
        yield element("p", code(f"npu.{anchor.op}"), " has no attributes: its windows follow from the shapes.")
    yield from _steps("The gradient, axis by axis", derivation.axes)
    yield from _steps("The forward pool, axis by axis", derivation.forward_axes)
    operands = [
        (role.what, name(role.name), code(shown(f"{type_name(role.element_type)} {Shown(role.shape)}")))
        for role in derivation.roles
    ]
    yield table("Operands", ("operand", "value", "type and shape"), operands, stacked=False)


def _steps(caption: str, axes: Sequence[AxisDerivation]) -> Iterator[Markup]:
    """The steps of all axes: one table per list of formulas, with a column for each axis that uses it."""
    groups: dict[tuple[tuple[str, str], ...], list[AxisDerivation]] = {}
    for axis in axes:
        groups.setdefault(tuple((step.what, step.formula) for step in axis.steps), []).append(axis)
    for formulas, group in groups.items():
        columns = [f"{axis.axis}: I = {_size(axis.size)}, n = {_size(axis.pooled)}" for axis in group]
        rows = [
            (what, code(formula), *(code(_result(axis.steps[number])) for axis in group))
            for number, (what, formula) in enumerate(formulas)
        ]
        yield table(caption, ("quantity", "formula", *columns), rows, stacked=False)


def _size(dim: Dim) -> str:
    return shown(str(dim), _MAX_SYMBOL)


def _result(step: Step) -> str:
    """The formula with its numbers, and its value if that is a different text."""
    if step.value == HOLDS and step.numbers is not None:
        return step.numbers
    return step.value if step.numbers in (None, step.value) else f"{step.numbers} = {step.value}"


def _figure(caption: str, graph: Graph) -> Markup:
    more = ". Nodes further back are not drawn" if graph.cut else ""
    words = element("ul", *(element("li", line) for line in in_words(graph)))
    return element(
        "figure",
        element("figcaption", caption, more),
        scrolled(svg(graph, caption), f"{caption}, drawing"),
        element("details", element("summary", "In words"), words, class_="words"),
    )
