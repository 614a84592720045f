# SPDX-License-Identifier: Apache-2.0

"""Runs models in onnxruntime-training, controlled by lines on stdin. Answers each line with `done`.

A line `MODEL<tab>INPUTS` with two paths creates a session; an empty line runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from benchmarks.bound_session import bound_runner


def main() -> None:
    """Answer lines until stdin ends."""
    run = None
    for line in sys.stdin:
        if paths := line.rstrip("\n"):
            run = _runner(*paths.split("\t"))
        elif run is not None:
            run()
        print("done", flush=True)


def _runner(model: str, arrays: str) -> Callable[[], None]:
    with np.load(arrays) as stored:
        return bound_runner(model, dict(stored))


if __name__ == "__main__":
    main()
