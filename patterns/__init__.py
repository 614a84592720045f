# SPDX-License-Identifier: Apache-2.0

"""How each producer spells a pool gradient: one module per form, each with a `match` under `@form`.

A form is added by adding its module; nothing here names it. Forms of other packages, registered under the entry point
group `poolgrad_lowering.patterns`, come after them. An entry point names a `Form`, or a module with a `FORM`. An
entry that cannot be loaded is skipped and reported: it does not stop a lowering.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import NamedTuple

from poolgrad_lowering.compiler.families.gradient import OWN_FORMS, Form

logger = logging.getLogger(__name__)

GROUP = "poolgrad_lowering.patterns"


class BrokenPlugin(NamedTuple):
    """An entry point that is not used: its name in the group, and the reason."""

    name: str
    reason: str


def all_forms() -> tuple[Form, ...]:
    """Every form: those of this package by name, then those of others. They are tried by their `Form.order`."""
    return (*own_forms(), *_plugins()[0])


def broken_plugins() -> tuple[BrokenPlugin, ...]:
    """The registered forms of other packages that are not used, and why."""
    return _plugins()[1]


@lru_cache(maxsize=1)
def own_forms() -> tuple[Form, ...]:
    """The forms of this package."""
    names = sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
    for name in names:
        import_module(f"{__name__}.{name}")
    return tuple(map(OWN_FORMS.__getitem__, names))


@lru_cache(maxsize=1)
def _plugins() -> tuple[tuple[Form, ...], tuple[BrokenPlugin, ...]]:
    return load_plugins(form.name for form in own_forms())


def load_plugins(taken: Iterable[str]) -> tuple[tuple[Form, ...], tuple[BrokenPlugin, ...]]:
    """Return the forms of other packages, sorted by entry point, and the entry points that cannot be used.

    A form with a name in `taken` is not used.
    """
    names = set(taken)
    forms: list[Form] = []
    broken: list[BrokenPlugin] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        loaded = _load(entry, names)
        if isinstance(loaded, Form):
            names.add(loaded.name)
            forms.append(loaded)
        else:
            logger.warning("form '%s' of another package is not used: %s", loaded.name, loaded.reason)
            broken.append(loaded)
    return tuple(forms), tuple(broken)


def _load(entry: EntryPoint, names: set[str]) -> Form | BrokenPlugin:
    try:
        loaded = entry.load()  # code of another package: may raise any error
    except Exception as error:
        return BrokenPlugin(entry.name, f"{entry.value} cannot be loaded: {type(error).__name__}: {error}")
    form = loaded if isinstance(loaded, Form) else getattr(loaded, "FORM", None)
    if not isinstance(form, Form):
        return BrokenPlugin(entry.name, f"{entry.value} is neither a Form nor a module with a FORM")
    if not _is_well_formed(form):
        return BrokenPlugin(
            entry.name,
            f"{entry.value} needs a name, anchors as pairs (domain, op type), a match function and a priority",
        )
    if form.name in names:
        return BrokenPlugin(entry.name, f"{entry.value} has the same name as another form, '{form.name}'")
    return form


def _is_well_formed(form: Form) -> bool:
    pairs = isinstance(form.anchors, tuple) and all(
        isinstance(anchor, tuple) and len(anchor) == 2 and all(isinstance(part, str) for part in anchor)
        for anchor in form.anchors
    )
    named = isinstance(form.name, str) and bool(form.name) and isinstance(form.priority, int)
    return pairs and named and callable(form.match)
