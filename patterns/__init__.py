# SPDX-License-Identifier: Apache-2.0

"""How each producer spells a pool gradient: one module per form, each with a `PATTERN`.

A form is added by adding its module; nothing here names it. Forms of other packages, registered under the entry point
group `poolgrad_lowering.patterns`, come after them. An entry point names a `Pattern`, or a module with a `PATTERN`. An
entry that cannot be loaded is skipped and reported: it does not stop a lowering.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules

from poolgrad_lowering.compiler.families.gradient import Pattern


def all_patterns() -> tuple[Pattern, ...]:
    """Every form: those of this package by name, then those of others. They are tried by their `Pattern.order`."""
    return (*own_patterns(), *_plugins()[0])


def broken_plugins() -> tuple[BrokenPlugin, ...]:
    """The registered forms of other packages that are not used, and why."""
    return _plugins()[1]


@lru_cache(maxsize=1)
def own_patterns() -> tuple[Pattern, ...]:
    """The forms of this package."""
    names = sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
    return tuple(import_module(f"{__name__}.{name}").PATTERN for name in names)


@lru_cache(maxsize=1)
def _plugins() -> tuple[tuple[Pattern, ...], tuple[BrokenPlugin, ...]]:
    return load_plugins(pattern.name for pattern in own_patterns())


logger = logging.getLogger(__name__)

GROUP = "poolgrad_lowering.patterns"


@dataclass(frozen=True)
class BrokenPlugin:
    """An entry point that is not used: its name in the group, and the reason."""

    name: str
    reason: str


def load_plugins(taken: Iterable[str]) -> tuple[tuple[Pattern, ...], tuple[BrokenPlugin, ...]]:
    """Return the forms of other packages, sorted by entry point, and the entry points that cannot be used.

    A form with a name in `taken` is not used.
    """
    names = set(taken)
    patterns: list[Pattern] = []
    broken: list[BrokenPlugin] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        loaded = _load(entry, names)
        if isinstance(loaded, Pattern):
            names.add(loaded.name)
            patterns.append(loaded)
        else:
            logger.warning("form '%s' of another package is not used: %s", loaded.name, loaded.reason)
            broken.append(loaded)
    return tuple(patterns), tuple(broken)


def _load(entry: EntryPoint, names: set[str]) -> Pattern | BrokenPlugin:
    try:
        loaded = entry.load()  # code of another package: may raise any error
    except Exception as error:
        return BrokenPlugin(entry.name, f"{entry.value} cannot be loaded: {type(error).__name__}: {error}")
    pattern = loaded if isinstance(loaded, Pattern) else getattr(loaded, "PATTERN", None)
    if not isinstance(pattern, Pattern):
        return BrokenPlugin(entry.name, f"{entry.value} is neither a Pattern nor a module with a PATTERN")
    if not _is_well_formed(pattern):
        return BrokenPlugin(
            entry.name,
            f"{entry.value} needs a name, anchors as pairs (domain, op type), a match function and a priority",
        )
    if pattern.name in names:
        return BrokenPlugin(entry.name, f"{entry.value} has the same name as another form, '{pattern.name}'")
    return pattern


def _is_well_formed(pattern: Pattern) -> bool:
    pairs = isinstance(pattern.anchors, tuple) and all(
        isinstance(anchor, tuple) and len(anchor) == 2 and all(isinstance(part, str) for part in anchor)
        for anchor in pattern.anchors
    )
    named = isinstance(pattern.name, str) and bool(pattern.name) and isinstance(pattern.priority, int)
    return pairs and named and callable(pattern.match)
