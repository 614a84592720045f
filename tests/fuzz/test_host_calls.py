# SPDX-License-Identifier: Apache-2.0

"""The search of the host library's calls, without its guide: always the same random inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.cann.installations import build_over_host
from tests.harness.sessions.ep_process import run_python

CPP = Path(__file__).parents[1] / "harness" / "fuzz"
SOURCES = Path(__file__).parents[2] / "runtime" / "src"

CODE = """
import ctypes, random
search = ctypes.CDLL({library!r})
chance = random.Random(0)
for _ in range(20_000):
    data = chance.randbytes(chance.choice((8, 64, 256)))
    search.LLVMFuzzerTestOneInput(data, ctypes.c_size_t(len(data)))
answer("done")
"""


def test_random_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", f"{CPP}:{SOURCES}")
    library = build_over_host(tmp_path / "libsearch.so", (CPP / "host_calls.cpp").read_text(encoding="utf-8"))
    assert run_python(CODE.format(library=str(library))) == "done"
