# SPDX-License-Identifier: Apache-2.0

"""Runs a model repeatedly in onnxruntime's CPU provider. Needs only numpy and any onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime


def bound_runner(model: str | bytes, feeds: Mapping[str, np.ndarray[Any, Any]]) -> Callable[[], None]:
    """A function that runs a model, given as path or bytes, on inputs that are bound once."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(
        "session.intra_op.allow_spinning", "0"
    )  # spinning threads would slow the other variants
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in feeds.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name)

    def run(_kept: object = values) -> None:  # the binding does not keep the arrays alive
        session.run_with_iobinding(binding)

    return run
