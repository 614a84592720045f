# SPDX-License-Identifier: Apache-2.0

"""Functions of a model that keep what they returned, with `functools.lru_cache`: they keep no tensors of a trace."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from torch._subclasses.fake_tensor import FakeTensor

from poolgrad_lowering.torch.explanations import is_file_of_a_model

_Cached = functools._lru_cache_wrapper  # noqa: SLF001 - the class has no other name


@contextmanager
def caches_without_fakes() -> Iterator[None]:
    """After it, also after an error, caches with tensors of a trace are empty: a model would read them ever after."""
    try:
        yield
    finally:
        for cached in _cached_functions():
            if _has_fakes(gc.get_referents(cached)):
                cached.cache_clear()


def _cached_functions() -> Iterator[_Cached[Any]]:
    """Yield those of modules that torch is not, of their classes, and those that a decorator has in a closure."""
    for name, module in list(sys.modules.items()):
        named = getattr(module, "__dict__", {})  # a program may put any object there
        file = named.get("__file__")
        if name != "__main__" and (file is None or not is_file_of_a_model(file)):
            continue
        values = list(named.values())
        classes = (value for value in values if isinstance(value, type) and value.__module__ == name)
        for each in (*values, *(value for kind in classes for value in vars(kind).values())):
            function = getattr(each, "__func__", each) if isinstance(each, (staticmethod, classmethod)) else each
            inner = function.__closure__ or () if type(function) is FunctionType else ()
            yield from (value for value in (function, *map(content, inner)) if type(value) is _Cached)


def content(cell: Any) -> Any:
    """Return the value of a variable that a function has from outside, or None before it has one."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _has_fakes(held: Any) -> bool:
    """Whether this is a tensor of a trace, or a container with one at any depth."""
    if isinstance(held, dict):
        held = (*held, *held.values())
    return any(map(_has_fakes, held)) if isinstance(held, (list, tuple)) else isinstance(held, FakeTensor)
