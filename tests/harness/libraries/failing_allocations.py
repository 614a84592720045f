# SPDX-License-Identifier: Apache-2.0

"""A library to preload that makes the C++ allocations of a process fail, one after the other."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from poolgrad_lowering.runtime import get_host_library_path
from tests.harness.cann.installations import build_library

_SOURCE = Path(__file__).parent / "fail_allocations.cpp"


def _has_own_allocation() -> str:
    """Return why preloaded allocation functions have no effect on the libraries under test; empty if they do."""
    if any(hasattr(ctypes.CDLL(None), f"__{name}_init") for name in ("asan", "tsan", "ubsan")):
        return "a sanitizer has allocation functions of its own"
    if b"libstdc++.so" not in Path(get_host_library_path()).read_bytes():
        return "the libraries of a wheel have the C++ library, and its operator new, linked in"
    return ""


takes_preloaded = pytest.mark.skipif(bool(_has_own_allocation()), reason=_has_own_allocation())


def build_failing(folder: Path) -> str:
    """Build the library into a folder and return its path, for LD_PRELOAD."""
    return str(build_library(folder / "libfail_allocations.so", _SOURCE.read_text(encoding="utf-8")))
