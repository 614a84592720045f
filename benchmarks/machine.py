# SPDX-License-Identifier: Apache-2.0

"""Describes the machine that the benchmarks run on."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path


def machine() -> dict[str, str]:
    """Processor, cores, memory, system, and the versions of Python and the main packages."""
    return {
        "processor": _found(r"^model name\s*:\s*(.*)$", "/proc/cpuinfo") or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": platform.python_version(),
        **{package: version(package) for package in ("onnx", "onnxruntime", "protobuf", "numpy")},
    }


def _found(pattern: str, path: str) -> str | None:
    found = re.search(pattern, Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    return None if found is None else found[1]
