# SPDX-License-Identifier: Apache-2.0

"""The Python reference: every public name of the package with its signature and docstring, as Markdown."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import poolgrad_lowering
from poolgrad_lowering import runtime
from poolgrad_lowering.compiler.families import gradient
from poolgrad_lowering.compiler.families.max_pool import gradient as max_pool_gradient
from poolgrad_lowering.runtime import training

TASKS: Mapping[str, Sequence[str]] = {
    "Lower a model in memory": ("lower", "LoweringResult", "inspect"),
    "Lower files and folders": ("lower_file", "lower_folder", "FileResult", "lower_artifacts"),
    "Checkpoints of onnxruntime's artifacts": ("read_checkpoint", "write_checkpoint"),
    "Read the report": ("Report", "AnchorReport", "DataWarning"),
    "Choose operators by a plan": ("read_plan", "LoweringPlan", "SiteChoice"),
    "Verify a lowered model": ("verify", "verify_files", "Verification"),
    "Convert with ATC": (
        "export_atc",
        "export_atc_file",
        "write_atc_plugin",
        "AtcExport",
        "AtcReport",
        "AtcPlugin",
        "NodeObstacle",
    ),
    "Run beside onnxruntime's CANN provider": ("export_cann", "export_cann_file", "CannExport", "CannReport"),
    "List targets and forms": (
        "list_targets",
        "TargetRecord",
        "OperatorRecord",
        "list_patterns",
        "PatternRecord",
    ),
    "Limit what is accepted": ("Limits",),
    "Handle errors": (
        "PoolgradError",
        "FileError",
        "InvalidModelError",
        "Fault",
        "UnknownTargetError",
        "PlanError",
        "VerificationError",
    ),
}
"""The public names of the package, by what they are for; names that are in no task stand at the end."""

PUBLIC: dict[str, tuple[ModuleType, Mapping[str, Sequence[str]]]] = {
    "poolgrad_lowering": (poolgrad_lowering, TASKS),
    "poolgrad_lowering.runtime": (runtime, {}),
    "poolgrad_lowering.runtime.training": (training, {}),
    "poolgrad_lowering.compiler.families.gradient": (gradient, {"Write a form": ("Form", "Operand", "View")}),
    "poolgrad_lowering.compiler.families.max_pool.gradient": (
        max_pool_gradient,
        {"Return a gradient": ("MaxPoolGradient",)},
    ),
}
"""The public modules, each with its names by task."""

_WIDTH = 100
"""The characters of a signature on one line; a longer one has a line for each parameter."""


def reference() -> str:
    """The reference as Markdown, with a section per public module."""
    return "\n\n".join(section(name, module, tasks) for name, (module, tasks) in PUBLIC.items())


def section(name: str, module: ModuleType, tasks: Mapping[str, Sequence[str]]) -> str:
    """The section of a public module: its names by task, and the others behind."""
    listed: dict[int, str] = {}
    in_tasks = {entry for entries in tasks.values() for entry in entries}
    others = [entry for entry in getattr(module, "__all__", ()) if entry not in in_tasks and not entry.startswith("__")]
    parts = [f"## {name}", inspect.cleandoc(module.__doc__ or "")]
    for task, entries in tasks.items():
        parts += [f"### {task}", *(_entry("####", entry, getattr(module, entry), listed) for entry in entries)]
    return "\n\n".join([*parts, *(_entry("###", entry, getattr(module, entry), listed) for entry in others)])


def _entry(level: str, name: str, thing: Any, listed: dict[int, str]) -> str:
    """A function or a class. Of its members that are `listed`, by identity, with another class, the names alone."""
    signature = f"```text\n{_signature(name, thing)}\n```"
    parts = [f"{level} {name}", signature, _docstring(thing), *_fields(thing), *_members(name, thing, listed)]
    return "\n\n".join(part for part in parts if part)


def _signature(name: str, thing: Any) -> str:
    if inspect.isclass(thing) and issubclass(thing, (enum.Enum, Exception)):
        return f"class {name}({', '.join(base.__name__ for base in thing.__bases__)})"
    head = f"{'class' if inspect.isclass(thing) else 'def'} {name}"
    signature = inspect.signature(thing)
    line = head + _plain(str(signature))
    return line if len(line) <= _WIDTH else f"{head}(\n{''.join(_parameters(signature))}){_returned(signature)}"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    """A line for each parameter, and for the star before parameters that are keywords only."""
    starred = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            yield "    *,\n"
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        yield f"    {_plain(str(parameter))},\n"


def _returned(signature: inspect.Signature) -> str:
    return _plain(str(signature.replace(parameters=()))).removeprefix("()")


def _plain(text: str) -> str:
    """A signature without the quotes of annotations, and with short defaults."""
    text = re.sub(r"ForwardRef\(('.*?')\)", r"\1", text)  # of a named tuple
    text = re.sub(r"(: |-> )(['\"])(.*?)\2", r"\1\3", text)
    return re.sub(r"= Limits[(].*?[)]", "= Limits()", text)


def _fields(thing: Any) -> Iterator[str]:
    """A list of the fields of a dataclass that are described where they are defined."""
    fields = dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ()
    rows = [f"* `{field.name}`: {field.metadata['help']}" for field in fields if "help" in field.metadata]
    if rows:
        yield "\n".join(rows)


def _members(name: str, thing: Any, listed: dict[int, str]) -> Iterator[str]:
    """A list of the public properties and methods of a class, each with the first line of its docstring."""
    if not inspect.isclass(thing) or issubclass(thing, enum.Enum):
        return
    fields = {field.name for field in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else set()
    rows: dict[str, str] = {}
    for attribute, member in _attributes(thing).items():
        if attribute.startswith("_") or attribute.isupper() or attribute in fields:
            continue
        if isinstance(member, property) or callable(member):
            code = f"`{attribute}{'' if isinstance(member, property) else '()'}`"
            if (owner := listed.setdefault(id(member), name)) == name:
                rows[code] = f"* {code}: {_docstring(member).splitlines()[0]}"
            else:
                rows[owner] = f"{rows[owner]}, {code}" if owner in rows else f"* as `{owner}`: {code}"
    if rows:
        yield "\n".join(rows.values())


def _attributes(thing: type) -> dict[str, Any]:
    """What a class and the dataclasses that it extends define, but what an abstract class asks of it."""
    asked = {name for each in thing.__mro__ if inspect.isabstract(each) for name in vars(each)}
    return {
        name: member
        for each in reversed(thing.__mro__)
        if dataclasses.is_dataclass(each) or each is thing
        for name, member in vars(each).items()
        if name not in asked
    }


def _docstring(thing: Any) -> str:
    """The docstring, with its sections (Args, Raises) as lists and its example as a block."""
    text, _, example = inspect.cleandoc(thing.__doc__ or "").partition("\nExample:\n")
    text = re.sub(r"^(Args|Raises|Returns):\n", r"\1:\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"^    (\w[^:\n]*): ", r"* `\1`: ", text, flags=re.MULTILINE)
    text = re.sub(r"^ {8}(?=\S)", "  ", text, flags=re.MULTILINE)
    return f"{text.rstrip()}\n\nExample:\n\n```text\n{inspect.cleandoc(example)}\n```" if example else text
