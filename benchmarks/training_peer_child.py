"""Runs models of onnxruntime-training when told to, by lines on stdin; each is answered with `done`.

A line with the paths of a model and of its inputs, a tab between, makes a session of them; an empty one runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import onnxruntime


def main() -> None:
    """Answer until stdin ends."""
    run = None
    for line in sys.stdin:
        if paths := line.rstrip("\n"):
            run = _runner(*paths.split("\t"))
        elif run is not None:
            run()
        print("done", flush=True)


def _runner(model: str, arrays: str) -> Callable[[], None]:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # as of the others
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    with np.load(arrays) as stored:
        values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in stored.items()}
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name)

    def run(_kept: object = values) -> None:  # the binding does not keep the arrays
        session.run_with_iobinding(binding)

    return run


if __name__ == "__main__":
    main()
