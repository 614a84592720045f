# SPDX-License-Identifier: Apache-2.0

"""Runs one task in a separate process, to measure its memory: `child.py TASK SOURCE OTHER`.

OTHER is the destination file of a task that writes one, or the feeds of a training step.

Prints one line of JSON: `seconds` of the task, and the peak resident set in MiB after the imports (`imported`) and
after the task (`peak`).
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

Task = Callable[[str, str], object]


def _load_and_save() -> Task:
    import onnx

    return lambda source, destination: onnx.save(onnx.load(source), destination)


def _lower() -> Task:
    from poolgrad_lowering.entry.files import lower_file

    return lower_file


def _step_on_cpu() -> Task:
    from benchmarks.training_sessions import cpu_session, load_feeds

    return lambda model, feeds: cpu_session(model).run(None, load_feeds(feeds))


def _step_on_provider() -> Task:
    from benchmarks.training_sessions import load_feeds, provider_session

    return lambda model, feeds: provider_session(model).run(None, load_feeds(feeds))


TASKS = {
    "load_and_save": _load_and_save,
    "lower": _lower,
    "step_on_cpu": _step_on_cpu,
    "step_on_provider": _step_on_provider,
}
"""Functions that import the modules of a task and return the task."""


def _peak() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise RuntimeError("/proc/self/status has no VmHWM: this needs Linux")
    return int(found[1]) / 1024


def main() -> None:
    """Run the task named on the command line."""
    name, source, other = sys.argv[1:]
    task, imported = TASKS[name](), _peak()
    started = time.perf_counter()
    task(source, other)
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "imported": imported, "peak": _peak()}))


if __name__ == "__main__":
    main()
