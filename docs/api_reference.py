# SPDX-License-Identifier: Apache-2.0

"""The Python reference: every public name of the package with its signature and docstring, as Markdown."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import poolgrad_lowering
from poolgrad_lowering import gradient, runtime
from poolgrad_lowering.runtime import training

PUBLIC: dict[str, tuple[ModuleType, list[str]]] = {
    "poolgrad_lowering": (poolgrad_lowering, poolgrad_lowering.__all__),
    "poolgrad_lowering.runtime": (runtime, runtime.__all__),
    "poolgrad_lowering.runtime.training": (training, training.__all__),
    "poolgrad_lowering.gradient": (gradient, ["Pattern", "PoolGradient"]),
}
"""The public modules, each with its public names."""


def reference() -> str:
    """The reference as Markdown, with a section per public module."""
    return "\n\n".join(_module(name, module, names) for name, (module, names) in PUBLIC.items())


def _module(name: str, module: ModuleType, names: list[str]) -> str:
    entries = (_entry(entry, getattr(module, entry)) for entry in names if not entry.startswith("__"))
    return "\n\n".join([f"## {name}", inspect.cleandoc(module.__doc__ or ""), *entries])


def _entry(name: str, thing: Any) -> str:
    parts = [f"### {name}", f"```text\n{_signature(name, thing)}\n```", _docstring(thing), *_members(thing)]
    return "\n\n".join(part for part in parts if part)


def _signature(name: str, thing: Any) -> str:
    if inspect.isclass(thing) and issubclass(thing, (enum.Enum, Exception)):
        return f"class {name}({', '.join(base.__name__ for base in thing.__bases__)})"
    keyword = "class" if inspect.isclass(thing) else "def"
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(thing)))  # removes the quotes of annotations
    return f"{keyword} {name}{re.sub(r'= Limits[(].*?[)]', '= Limits()', text)}"


def _members(thing: Any) -> Iterator[str]:
    """A list of the public properties and methods of a class, each with the first line of its docstring."""
    if not inspect.isclass(thing) or issubclass(thing, enum.Enum):
        return
    fields = {field.name for field in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else set()
    rows = [
        f"* `{name}{'' if isinstance(member, property) else '()'}`: {_docstring(member).splitlines()[0]}"
        for name, member in vars(thing).items()
        if not name.startswith("_") and name not in fields and (isinstance(member, property) or callable(member))
    ]
    if rows:
        yield "\n".join(rows)


def _docstring(thing: Any) -> str:
    """The docstring, with its sections (Args, Raises) as lists."""
    text = inspect.cleandoc(thing.__doc__ or "")
    text = re.sub(r"^(Args|Raises|Returns):\n", r"\1:\n\n", text, flags=re.MULTILINE)
    return re.sub(r"^    (\S[^:\n]*: )", r"* \1", text, flags=re.MULTILINE)
