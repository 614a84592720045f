# SPDX-License-Identifier: Apache-2.0

"""Measures the cost of a node in one process: `overhead_child.py lenient|strict|mixed LIBRARY ROUNDS`.

The environment (ACLNN_HOST_STRICT) sets the mode of the host library. LIBRARY is the compiled aclnn_calls.cpp. Prints
one line of JSON: for each variant the seconds of one Run, by round. The name of a variant is "calls ARRANGEMENT COUNT",
or "node" or "reference" followed by its case and the count.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import onnxruntime

from benchmarks.measuring import interleaved
from benchmarks.node_models import GRADIENT, node_feeds, node_model
from poolgrad_lowering.runtime import create_session

COUNTS = (1, 50)
"""Numbers of nodes of the models; the difference of their times gives the cost of one node."""

RUNS = {1: 200, 50: 20}
"""The number of Runs per measured call, by the number of nodes."""

SHAPES = {"none": (0, 1, 4, 4), "16": (1, 1, 4, 4)}
"""The shape of every tensor, by its number of elements."""

CASES = (
    ("none", "fed", "chain"),
    ("none", "bound", "chain"),
    ("16", "fed", "chain"),
    ("16", "bound", "chain"),
    ("16", "bound", "parallel"),
)
"""Elements of a tensor, how a Run gets them, and the arrangement of the nodes."""

ARRANGEMENTS = ("chain", "parallel")
"""The arrangements of the nodes: each uses the output of the one before, or all use the same input."""

OPERATORS = {"node": GRADIENT, "reference": "Relu"}
_HUAWEI = 0x19E5


def variants(mode: str, library: str) -> dict[str, tuple[Callable[[], object], int]]:
    """The variants by name: a call, and the number of Runs that it makes."""
    calls = ctypes.CDLL(library)
    calls.MakeNodes.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    calls.CallNodes.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_bool, ctypes.c_bool]
    calls.MakeNodes(max(COUNTS), *SHAPES["16"][2:])
    timed: dict[str, tuple[Callable[[], object], int]] = {}
    for count in COUNTS:
        for arrangement in ARRANGEMENTS:
            call = partial(calls.CallNodes, count, RUNS[count], arrangement == "parallel", mode == "lenient")
            timed[f"calls {arrangement} {count}"] = call, RUNS[count]
        for (kind, op_type), case in product(OPERATORS.items(), CASES):
            run = _run(op_type, count, *case, mode=mode)
            timed[" ".join((kind, *case, str(count)))] = partial(_repeat, run, RUNS[count]), RUNS[count]
    return timed


def _run(op_type: str, count: int, elements: str, given: str, arrangement: str, *, mode: str) -> Callable[[], object]:
    """A Run of a new session. Tensors that are bound to the provider are on the device, except in lenient mode."""
    shape = SHAPES[elements]
    model = node_model(op_type, count, shape, parallel=arrangement == "parallel")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if op_type == GRADIENT:
        mixed = {"backend": "cann", "providers": [("CANNExecutionProvider", {"enable_cann_graph": "0"})]}
        where = mixed if mode == "mixed" else {"backend": "host"}
        session = create_session(model, session_options=options, check_indices="0", **where)
    else:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = node_feeds(op_type, shape)
    if given == "fed":
        return partial(session.run, None, feeds)
    on_device = mode != "lenient" and op_type == GRADIENT
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, _tensor(array, on_device))
    for output in session.get_outputs():
        binding.bind_ortvalue_output(output.name, _tensor(np.zeros(shape, np.float32), on_device))
    return partial(session.run_with_iobinding, binding)


def _tensor(array: np.ndarray, on_device: bool) -> onnxruntime.OrtValue:
    on_host = onnxruntime.OrtValue.ortvalue_from_numpy(array)
    if not on_device:
        return on_host
    tensor = onnxruntime.OrtValue.ortvalue_from_shape_and_type(array.shape, array.dtype, "npu", 0, _HUAWEI)
    if array.size:
        onnxruntime.copy_tensors([on_host], [tensor])
    return tensor


def _repeat(once: Callable[[], object], times: int) -> None:
    for _ in range(times):
        once()


def main() -> None:
    """Measure all variants in the mode of the command line and print the times."""
    mode, library, rounds = sys.argv[1:]
    timed = variants(mode, library)
    timings = interleaved({name: call for name, (call, _) in timed.items()}, int(rounds))
    seconds: dict[str, Any] = {
        name: [each / timed[name][1] for each in timing.seconds] for name, timing in timings.items()
    }
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
