# SPDX-License-Identifier: Apache-2.0

"""How each producer spells a pool gradient: one module per form, each with a `PATTERN`.

A form is added by adding its module; nothing here names it. Forms of other packages come after them.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules

from poolgrad_lowering.compiler.families.gradient import Pattern
from poolgrad_lowering.compiler.families.plugins import BrokenPlugin, load_plugins


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
