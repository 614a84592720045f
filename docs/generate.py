# SPDX-License-Identifier: Apache-2.0

"""Generates the pages of this folder that show tables of the code, each from its template in `templates/`.

It also draws the pictures of the code. `make docs` runs this module; tests compare the committed files with its output.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from argparse import Action
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from string import Template

import onnx
from onnx import AttributeProto

from docs import before_after, flow, rooms, torch_lists, torch_npu_calls
from docs.api_reference import reference
from docs.markdown import table
from poolgrad_lowering import inspect as inspect_model
from poolgrad_lowering import lower
from poolgrad_lowering.compiler.families.gradient import Form
from poolgrad_lowering.compiler.families.max_pool.legality import WINDOWED_GRADIENTS
from poolgrad_lowering.dialect import DOMAIN, OPS, TYPES, VERSION, Attribute, Op
from poolgrad_lowering.dialect.targets import DEFAULT_TARGET, TARGETS, Target
from poolgrad_lowering.entry.cli import build_parser
from poolgrad_lowering.entry.cli.exit_codes import MEANINGS
from poolgrad_lowering.entry.cli.parser import Parser
from poolgrad_lowering.entry.listing import OperatorRecord, list_targets, type_names
from poolgrad_lowering.model.diagnostics.codes import Code
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.diagnostics.diagnostic import Diagnostic
from poolgrad_lowering.model.diagnostics.faults import Fault
from poolgrad_lowering.model.diagnostics.note_codes import NoteCode
from poolgrad_lowering.model.diagnostics.obstacles import Obstacle
from poolgrad_lowering.model.io.limits import Limits
from poolgrad_lowering.patterns import own_forms
from poolgrad_lowering.report.drawing.markup import MAX_NAME
from poolgrad_lowering.report.drawing.parts import MAX_AROUND, MAX_NODES
from poolgrad_lowering.report.html.page import PAGE_SIZE
from poolgrad_lowering.report.html.places import MAX_CELLS
from poolgrad_lowering.report.html.record import MAX_DRAWN
from poolgrad_lowering.standard.definition import Definition
from poolgrad_lowering.standard.table import DEFINITIONS, UNDEFINED
from tests.other_tools.after_lowering import OUTCOMES, TOOLS, VERSIONS, Outcome, Tool

DOCS = Path(__file__).parent
_MANY = 3
"""The commands from which on an option is described once for all of them."""


def code_sections() -> str:
    """A section per refusal code, which the search of the site finds by its heading."""
    rows = sorted((row.value, row.meaning, row.advice) for row in Code)
    return "\n\n".join("### `{}`\n\n{}\n\n{}".format(*row) for row in rows)


def faults() -> str:
    """The table of faults of an input: meaning and advice."""
    return _diagnostics(Fault, ("fault", "what is rejected", "what to do"))


def obstacles() -> str:
    """The table of obstacles to a conversion with ATC: meaning and advice."""
    return _diagnostics(Obstacle, ("code", "what ATC cannot convert", "what to do"))


def notes() -> str:
    """The table of notes on a model: meaning, advice, and whether it is a warning."""
    return _diagnostics(NoteCode, ("code", "when", "what to do", "severity"))


def _diagnostics(kind: type[Diagnostic], header: Sequence[str]) -> str:
    rows = sorted((f"`{row.value}`", row.meaning, row.advice, row.severity.value) for row in kind)
    return table(header, (row[: len(header)] for row in rows))


def definition_codes() -> str:
    """The table of reasons why an operator of a training runtime has no definition: meaning and advice."""
    return _diagnostics(DefinitionCode, ("code", "when a node stays as it is", "what to do"))


def undefined() -> str:
    """The table of operators without a definition, by the reason."""
    operators: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (_, operator), (code, reason) in sorted(UNDEFINED.items(), key=lambda each: (each[1][0].value, each[0])):
        operators[reason, code.value].append(f"`{operator}`")
    rows = ((", ".join(names), _code(code), reason) for (reason, code), names in operators.items())
    return table(("operators", "code", "why"), rows)


def definitions() -> str:
    """A list of the definitions: the operator as a call, and its formula."""
    return "\n".join(f"* {_definition(each)}" for each in sorted(DEFINITIONS.values(), key=lambda each: each.op[::-1]))


def _definition(found: Definition) -> str:
    domain = f"{found.domain}." if found.domain else ""
    inputs, outputs = found.operands.inputs.replace(" ", ", "), found.operands.outputs.replace(" ", ", ")
    return f"`{outputs} = {domain}{found.operator}({inputs})`: {found.formula}"


def limits() -> str:
    """The table of limits: field of `Limits`, flag, default and meaning."""
    rows = (
        (f"`{limit.name}`", f"`--{limit.name.replace('_', '-')}`", str(limit.default), limit.metadata["help"])
        for limit in fields(Limits)
    )
    return table(("`Limits`", "flag", "default", "meaning"), rows)


def products() -> str:
    """The table of products: name for `--target`, operator for 2-D pools, SoC names."""
    rows = ((f"`{t.name}`", t.title, _code(_of_two_axes(t)), ", ".join(t.socs)) for t in TARGETS.values())
    return table(("target", "product", "2-D max pool becomes", "SoC names"), rows)


def _of_two_axes(target: Target) -> str | None:
    return next((name for name in WINDOWED_GRADIENTS if name in target.operators), None)


def operators() -> str:
    """The table of operators: aclnn functions, element types and limits, and the products that have them so."""
    targets: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for target in list_targets():
        for operator in target.operators:
            targets[_operator(operator)].append(f"`{target.name}`")
    head = ("operator", "run by", "element types", "elements of a plane, at most", "targets")
    return table(head, ((*row, ", ".join(names)) for row, names in targets.items()))


def room_table() -> str:
    """The table of rooms and their purposes, from the top of the picture to the bottom."""
    return table(("room", "what it is for"), ((f"`{name}`", text) for name, text in rooms.descriptions().items()))


def forms() -> str:
    """A section per form of this package: the docstring of its module, and an example graph with its lowering."""
    return "\n\n".join(f"{_form(pattern)}\n\n{_example(pattern)}" for pattern in own_forms())


def ops() -> str:
    """A section per operator of the dialect."""
    return "\n\n".join(_op(op) for op in OPS.values())


def _example(pattern: Form) -> str:
    """The example of a form, and the nodes that a lowering adds to it, or the refusal."""
    model = onnx.parser.parse_model((DOCS / "examples" / f"{pattern.name}.onnxtxt").read_text(encoding="utf-8"))
    result = lower(model)
    [anchor] = result.report.anchors
    before = _graph_text(model)
    if anchor.status == "refused":
        return f"{_block(before)}\n\nRefused, `{anchor.code}`: {anchor.reason}."
    if anchor.pattern != pattern.name:
        raise ValueError(f"the example of {pattern.name} is lowered as {anchor.pattern}")
    lines = (line for line in _graph_text(result.model)[1:] if line not in before and not line.startswith("   <"))
    written = (line.strip() for line in lines if " = " in line)
    return f"{_block(before)}\n\nbecomes\n\n{_block(written)}"


def _graph_text(model: onnx.ModelProto) -> list[str]:
    """The lines of the graph as text: no node names, types of attributes or quotes around names, long constants cut."""
    text = onnx.printer.to_text(model.graph)
    text = re.sub(r'^( +)\["[^"]*"\] ', r"\1", text, flags=re.MULTILINE)
    text = re.sub(r'"(\w+/\w+)"', r"\1", text)
    text = re.sub(r"\{((?:\d+,){8})[\d,]+\}", r"{\1…}", text)
    text = re.sub(r"(\w+): (?:int|ints|float|string|tensor) = ", r"\1 = ", text)
    return [line.rstrip() for line in text.strip().splitlines()]


def _block(lines: Iterable[str]) -> str:
    return "\n".join(("```", *lines, "```"))


def exit_codes() -> str:
    """The table of the command's exit codes."""
    return table(("code", "meaning"), ((str(int(code)), meaning) for code, meaning in MEANINGS.items()))


def commands() -> str:
    """A section per command, from its parser, without the meaning of the options that many commands have."""
    many = {row for row, count in _counted_options().items() if count >= _MANY}
    return "\n\n".join(_command(name, parser, many) for name, parser in build_parser().commands.items())


def of_many() -> str:
    """The table of the options that many commands have."""
    return _options(row for row, count in _counted_options().items() if count >= _MANY)


def everywhere() -> str:
    """The table of the options that all commands have."""
    return _options(_rows(build_parser(), hidden=("help",)))


def _counted_options() -> Counter[tuple[str, str]]:
    return Counter(
        row for parser in build_parser().commands.values() for row in _rows(parser) if row[0].startswith("-")
    )


def plan_example() -> str:
    """An example of a plan, as JSON."""
    source = DOCS.parent / "models" / "built" / "torch" / "lenet.onnx"
    report = inspect_model(onnx.load(source), target="ascend950")
    return report.plan(sha256(source.read_bytes()).hexdigest()).to_json().rstrip()


def example() -> str:
    """An example of a report, as JSON with lists of numbers on one line and a fixed wall time.

    It has two anchors, and the operators whose number changes.
    """
    model = onnx.load(DOCS.parent / "models" / "built" / "torch" / "lenet.onnx")
    report = inspect_model(model, target="Ascend910B3").to_dict()
    report["summary"]["seconds"] = 0.004
    report["anchors"] = report["anchors"][:2]
    report["operators"] = [counts for counts in report["operators"] if counts["before"] != counts["after"]]
    numbers = re.compile(r"\[\s+(\d+(?:,\s+\d+)*)\s+\]")
    return numbers.sub(lambda found: f"[{', '.join(found[1].replace(',', ' ').split())}]", json.dumps(report, indent=2))


def program() -> str:
    """The C++ program that runs a lowered model, without its licence."""
    text = (DOCS / "examples" / "run_lowered.cpp").read_text(encoding="utf-8")
    return text.partition("\n\n")[2].rstrip()


def page_limits() -> dict[str, object]:
    """The limits of what the HTML report shows, by the name of their placeholder."""
    limits = {"max_name": MAX_NAME, "max_nodes": MAX_NODES, "max_around": MAX_AROUND, "max_drawn": MAX_DRAWN}
    return {**limits, "page_size": PAGE_SIZE, "max_cells": MAX_CELLS}


def outcomes() -> str:
    """The table of what other tools leave of a lowered model."""
    header = ("outcome", "what is left", "plain onnxruntime", "the execution provider", "warning of `inspect`")
    return table(header, OUTCOMES.values())


def tools() -> str:
    """The table of other tools, of what each leaves of a lowered model, and of what `verify` says."""
    return table(("package", "tool", "outcome", "`verify`", "remarks"), map(_tool, TOOLS))


def coverage() -> str:
    """The table of training steps beside the CANN provider, as the session `coverage` measured them.

    Steps of a network with different optimizers are one row where they differ in the number of nodes alone.
    """
    nodes: dict[tuple[str, ...], list[str]] = {}
    for row in json.loads((DOCS / "graph_mode.json").read_text(encoding="utf-8")):
        bits = "yes" if row["same_bits"] else row["why"]
        key = (row["network"], *(str(row[name]) for name in ("parts", "on_cpu", "copies")), bits)
        nodes.setdefault(key, []).append(f"{row['nodes']} {row['optimizer']}")
    head = ("network", "nodes", "parts", "nodes on the CPU", "copies inside a step", "bits of the CPU provider")
    return table(head, [(network, ", ".join(counts), *rest) for (network, *rest), counts in nodes.items()])


def torch_reference() -> str:
    """The reference of the module that needs PyTorch, as `docs.torch_reference` wrote it."""
    return (DOCS / "torch_reference.txt").read_text(encoding="utf-8").rstrip()


PAGES: dict[str, Callable[[], dict[str, object]]] = {
    "api": lambda: {"reference": reference(), "torch": torch_reference()},
    "architecture": lambda: {"rooms": room_table()},
    "command-line": lambda: {
        "everywhere": everywhere(),
        "of_many": of_many(),
        "commands": commands(),
        "exit_codes": exit_codes(),
    },
    "forms": lambda: {"forms": forms()},
    "dialect": lambda: {
        "domain": DOMAIN,
        "version": VERSION,
        "ops": ops(),
        "products": products(),
        "runs": operators(),
        "default": DEFAULT_TARGET,
    },
    "legality": lambda: {"codes": code_sections()},
    "from-pytorch": torch_lists.parts,
    "from-python-cpp-csharp": lambda: {"program": program()},
    "offline-with-atc": lambda: {"obstacles": obstacles()},
    "other-tools": lambda: {
        "outcomes": outcomes(),
        "tools": tools(),
        "versions": ", ".join(" ".join(release) for release in VERSIONS.items()),
    },
    "report": lambda: {"example": example(), "notes": notes(), "plan": plan_example(), **page_limits()},
    "standard-operators": lambda: {
        "codes": definition_codes(),
        "undefined": undefined(),
        "definitions": definitions(),
    },
    "security": lambda: {"faults": faults(), "limits": limits()},
    "torch-npu": torch_npu_calls.parts,
    "with-onnxruntime-cann": lambda: {"coverage": coverage()},
}

PICTURES: dict[str, Callable[[], str]] = {
    "before_after": before_after.picture,
    "flow": flow.picture,
    "rooms": rooms.picture,
}


def page(name: str) -> str:
    """The text of one generated page."""
    template = Template((DOCS / "templates" / f"{name}.md").read_text(encoding="utf-8"))
    return template.substitute(PAGES[name]())


def main() -> None:
    """Write all pages and pictures."""
    for name, draw in PICTURES.items():
        (DOCS / "images" / f"{name}.svg").write_text(draw(), encoding="utf-8")
    for name in PAGES:
        (DOCS / f"{name}.md").write_text(page(name), encoding="utf-8")


def _operator(found: OperatorRecord) -> tuple[str, ...]:
    functions = ", ".join(map(_code, found.functions))
    return _code(found.name), functions, ", ".join(found.element_types), str(found.max_plane)


def _tool(tool: Tool) -> tuple[str, ...]:
    def name(outcome: Outcome) -> str:
        return OUTCOMES[outcome][0]

    others = (f"; {name(outcome)} for {model}" for model, outcome in tool.but.items())
    outcome = "".join((f"**{name(tool.outcome)}**", *others))
    refused = f"Does not take {', '.join(tool.refuses)}, lowered or not." if tool.refuses else ""
    return tool.package, tool.call, outcome, tool.verified.value, " ".join(filter(None, (tool.remark, refused)))


def _command(name: str, parser: Parser, many: Container[tuple[str, str]]) -> str:
    lines = [f"poolgrad {name} {_usage(parser)}", *(f"# {what}\n{line}" for line, what in parser.examples)]
    shown = "\n\n".join(lines)
    block = f"<!-- not run: an overview -->\n```sh\n{shown}\n```"
    own = [row for row in _rows(parser) if row not in many]
    shared = [row[0] for row in _rows(parser) if row in many]
    others = ", ".join(f"`{option}`" for option in shared if not option.startswith("--max-"))
    limits = " and the limits `--max-…`" if any(option.startswith("--max-") for option in shared) else ""
    parts = [parser.description, block, _options(own) if own else "", f"Also {others}{limits}." if others else ""]
    return "\n\n".join([f"## poolgrad {name}", *filter(None, parts)])


def _usage(parser: Parser) -> str:
    """The required arguments of a command, and in brackets those that are no options."""
    shown = [argument for argument in parser.arguments if argument.required or not argument.option_strings]
    words = (_spelled(argument)[0] if argument.required else f"[{_spelled(argument)[0]}]" for argument in shown)
    return " ".join([*words, "[OPTION…]"])


def _rows(parser: Parser, hidden: Sequence[str] = ("help", "help_all", "verbose", "quiet")) -> list[tuple[str, str]]:
    """A command's arguments with their meaning, without those named in `hidden`, by default those of every command."""
    shown = [argument for argument in parser.arguments if argument.dest not in hidden]
    return [(", ".join(_spelled(argument)), str(argument.help)) for argument in shown]


def _options(rows: Iterable[tuple[str, str]]) -> str:
    cells = ((f"`{names}`".replace("|", "\\|"), meaning.replace("|", "\\|")) for names, meaning in rows)
    return table(("argument", "meaning"), cells)


def _spelled(argument: Action) -> list[str]:
    """The spellings of an argument: its placeholder, or its flags with the placeholder of their value."""
    names = argument.metavar or "|".join(argument.choices or ()) or argument.dest.upper()
    if not argument.option_strings:
        return [str(names)]
    value = "" if argument.nargs == 0 else f" {names}"
    return [f"{flag}{value}" for flag in argument.option_strings]


def _form(pattern: Form) -> str:
    text = inspect.cleandoc(sys.modules[pattern.match.__module__].__doc__ or "")
    anchors = ", ".join(f"`{op_type}` (domain `{domain or 'ai.onnx'}`)" for domain, op_type in pattern.anchors)
    return f"## {pattern.name}\n\n{pattern.summary}.\n\nAnchor: {anchors}\n\n{text}"


def _op(op: Op) -> str:
    operands = [("input", operand) for operand in op.inputs] + [("output", operand) for operand in op.outputs]
    tensors = table(
        ("", "name", "element types", "meaning"),
        ((kind, f"`{o.name}`", _types(TYPES[o.type_variable]), o.doc) for kind, o in operands),
    )
    attributes = table(("attribute", "type", "values", "meaning"), map(_attribute, op.attributes))
    ranks = " or ".join(map(str, op.ranks))
    return f"## {op.name}\n\n{op.doc}\n\nRank of every operand: {ranks}.\n\n{tensors}\n\n" + (
        attributes if op.attributes else "No attributes."
    )


def _attribute(attribute: Attribute) -> tuple[str, ...]:
    kind = AttributeProto.AttributeType.Name(attribute.type).lower()
    return (
        f"`{attribute.name}`",
        kind if attribute.length is None else f"{attribute.length} {kind}",
        _values(attribute),
        attribute.doc,
    )


def _values(attribute: Attribute) -> str:
    parts = [
        " or ".join(map(str, attribute.allowed)) if attribute.allowed is not None else "",
        f"each ≥ {attribute.minimum}" if attribute.minimum is not None else "",
        "required" if attribute.required else f"default {_plain(attribute.default)}",
    ]
    return "; ".join(part for part in parts if part)


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _types(element_types: Iterable[int]) -> str:
    return ", ".join(type_names(element_types))


def _code(name: str | None) -> str:
    return f"`{name}`" if name else "–"


if __name__ == "__main__":
    main()
