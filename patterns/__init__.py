"""How each producer spells a pool gradient: one module per form, each with a `PATTERN`.

A form is added by adding its module; nothing here names it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules

from poolgrad_lowering.gradient import Pattern


@lru_cache(maxsize=1)
def all_patterns() -> tuple[Pattern, ...]:
    """Every form, in the order of its name."""
    names = sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
    return tuple(import_module(f"{__name__}.{name}").PATTERN for name in names)
