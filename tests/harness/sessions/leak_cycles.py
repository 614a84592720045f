# SPDX-License-Identifier: Apache-2.0

"""Creates, runs and ends sessions repeatedly, and measures the growth of the process.

Runs in a process of its own: its functions are for `run_python`.
"""

from __future__ import annotations

import ctypes
import gc
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

from poolgrad_lowering.runtime import create_session
from tests.harness.sessions.failure_sweep import quiet_options
from tests.harness.sessions.host_control import HostLibrary
from tests.runtime.device_models import CHAIN, GRADIENT, POOL, image, model_of

FEEDS = {"x": image(1, 2, 8, 8)}
NODES = 4


def measure_sessions(cycles: int) -> dict[str, int]:
    """The growth by sessions of NODES nodes that are created, run and ended."""
    model = _many_nodes().SerializeToString()

    def cycle() -> None:
        _open(model).run(None, FEEDS)

    return _growth(cycle, cycles)


def measure_runs(cycles: int) -> dict[str, int]:
    """The growth by Runs of one session with three sizes in turn."""
    session = _open(model_of(CHAIN).SerializeToString())
    feeds = [{"x": image(1, 2, size, size)} for size in (4, 8, 6)]
    turn = iter(range(10**9))
    return _growth(lambda: session.run(None, feeds[next(turn) % len(feeds)]), cycles)


def _open(model: bytes) -> Any:
    return create_session(model, backend="host", session_options=quiet_options())


def _many_nodes() -> Any:
    """NODES nodes: pools of one x, each with its gradient."""
    pairs = range(NODES // 2)
    nodes = [f"y{i}, a{i} = {POOL} (x)\n g{i} = {GRADIENT} (x, y{i}, a{i})" for i in pairs]
    total = f"sum = Sum ({', '.join(f'g{i}' for i in pairs)})"
    text = "many (float[1, 2, 8, 8] x) => (float[1, 2, 8, 8] sum) {\n" + "\n".join([*nodes, total]) + "}"
    return model_of(text)


def _growth(cycle: Callable[[], object], cycles: int) -> dict[str, int]:
    """By how many live objects of the library and bytes of resident memory the process grew over the last four of five
    parts of the cycles; the first fills what is kept.
    """
    library = HostLibrary()
    for _ in range(cycles // 5):
        cycle()
    objects, resident = _objects(library), _resident_bytes()
    for _ in range(cycles - cycles // 5):
        cycle()
    return {"objects": _objects(library) - objects, "bytes": _resident_bytes() - resident}


def _objects(library: HostLibrary) -> int:
    gc.collect()
    return library.live_objects()


def _resident_bytes() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was freed and is only kept by malloc
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()
