# SPDX-License-Identifier: Apache-2.0

"""The parts of the plugin for ATC that do not need GE, in a program under the sanitizers of addresses and of undefined
behaviour: its reader of JSON, its table of operators, and its checks of attributes."""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import poolgrad_lowering
from tests.harness.ge.compiling import NATIVE, SANITIZED, kept

SOURCES = Path(poolgrad_lowering.__file__).parent / "ge" / "atc" / "plugin"
_FLAGS = ("-std=c++14", "-O1", "-Wall", "-Wextra", "-Werror", *SANITIZED)
_INPUTS = (
    Path(__file__).parent / "parts.cpp",
    *(SOURCES / f"{n}.cpp" for n in ("attributes", "json", "operators")),
)


def without_preloads() -> dict[str, str]:
    """An environment without the libraries of another sanitizer, which `make test-tsan` preloads."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def _program() -> Path:
    if not NATIVE.compiler:
        pytest.skip("there is no C++ compiler")

    def build(folder: Path) -> None:
        command = [NATIVE.compiler, *_FLAGS, "-I", SOURCES, "-o", folder / "parts", *_INPUTS]
        subprocess.run(command, env=without_preloads(), check=True)

    return kept("parts", [*_INPUTS, *SOURCES.glob("*.h")], (NATIVE.compiler, *_FLAGS), build) / "parts"


def run(*arguments: str, texts: Iterable[bytes] = ()) -> list[Any]:
    """What the program answers, for each text if its mode takes texts; an error is ("error", message)."""
    request = b"".join(b"%d\n%s" % (len(text), text) for text in texts)
    done = subprocess.run(
        [_program(), *arguments], input=request, env=without_preloads(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return [ast.literal_eval(line) for line in done.stdout.decode().splitlines()]


def is_error(answer: Any) -> bool:
    """Whether an answer is an error with a message."""
    return isinstance(answer, tuple) and answer[0] == "error" and bool(answer[1])
