# SPDX-License-Identifier: Apache-2.0

"""Sessions of our provider and onnxruntime's CANN provider, in processes without an NPU. `make test-cann-ep` runs them.

Real parts: the package onnxruntime-cann of PyPI with its libonnxruntime_providers_cann.so, unchanged, and our wheel.

The stand-in for CANN is a folder that serves as ASCEND_HOME_PATH and is on LD_LIBRARY_PATH.

* Runtime, streams, events, memory, copies and the operators of aclnn are those of libaclnn_host.so in its strict mode
  (docs/host.md), for both providers: libacl_rt.so, libnnopbase.so and libopapi_nn.so are links to it. Work is queued
  and runs as late as possible; memory that is not written yet holds NaN; every violation is recorded.
* The other functions that the CANN provider calls are in the library of `tests/harness/cann/cann_ep/`, under the names
  libascendcl.so, libacl_op_compiler.so and libfmk_onnx_parser.so. It computes with onnxruntime's CPU provider, the
  libonnxruntime.so of the same package: a single operator as a model of one ONNX node, a graph of GE as the ONNX model
  that `graph_engine` builds of it, as strict as GE. Both read their inputs and write their outputs when the stream runs
  them. It has only the single operators that these models use, and no graphs whose output shapes depend on values.

So a result has the bits of onnxruntime's CPU provider if both use the same kernel on the same shapes. Each check runs
in a process of its own (`on_device`), because the device is chosen once per process.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort

from poolgrad_lowering import export_cann
from poolgrad_lowering.runtime import get_ep_name, register
from tests.harness.sessions.ep_process import run_python
from tests.harness.sessions.host_control import HostLibrary
from tests.oracles import assert_same_bits
from tests.runtime.device_models import GRADIENT, POOL

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]

CANN = "CANNExecutionProvider"
ROOT = Path(__file__).parents[3]
HOME = ROOT / "build" / "cann_ep"  # `make test-cann-ep` fills it

# Which provider comes first.
ORDERS = ("ours_first", "cann_first")

# Options of the CANN provider. A built model would be saved in the current folder, and read from there by others.
# Without a precision mode float32 would be computed in float16.
_GRAPHS = {"dump_om_model": "0", "precision_mode": "must_keep_origin_dtype"}
MODES = {
    "operators": {"enable_cann_graph": "0"},
    "subgraphs": {"enable_cann_graph": "1", "enable_cann_subgraph": "1", **_GRAPHS},
    "whole_graph": _GRAPHS,  # onnxruntime's default otherwise
}
GOOD_MODES = ("operators", "subgraphs")

TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3  # kinds of aclrtMemcpy
PIECE = 2 << 20  # kChunkBytes of runtime/src/aclnn/pinned_copier.h

# A pool and its gradient among elementwise nodes; every value but argmax goes from one provider to the other.
ALTERNATING = f"""
alternating (float[N, C, H, W] x, float[N, C, H, W] b) => (float[N, C, H, W] out, float[N, C, h, w] y) {{
  r = Relu (x)
  y, argmax = {POOL} (r)
  grad = Relu (y)
  dx = {GRADIENT} (r, grad, argmax)
  s = Add (dx, b)
  out = Relu (s)
}}"""


def on_device(check: Callable[..., Any], *arguments: str, **environment: str) -> Any:
    """Run the check, a function at the top level of a test module, in a process whose device is the strict host library
    and whose CANN libraries are the stand-in. Return its result, which must be JSON.

    Fails if the check fails or violates a rule of the device.
    """
    code = f"""
from tests.harness.sessions.host_control import HostLibrary
from {check.__module__} import {check.__name__} as check
from pathlib import Path
from tests.harness.cann.graph_engine import ENGINE, install
install(Path({str(HOME)!r}))
try:
    answer([check(*{arguments!r}), HostLibrary().violations()])
except BaseException:
    print(*ENGINE.refusals(), sep="\\n", file=sys.stderr)
    raise
"""
    result, violations = run_python(code, ASCEND_HOME_PATH=str(HOME), ACLNN_HOST_STRICT="1", **environment)
    assert not violations, "\n".join(f"{found['violation']}: {found['message']}" for found in violations)
    return result


def quiet_options() -> Any:
    """Options that turn onnxruntime's messages off and give sums the same bits as the stand-in."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


def open_mixed(
    model: onnx.ModelProto, order: str, mode: str, *, options: Any = None, ours: Mapping[str, str] | None = None
) -> ort.InferenceSession:
    """A session of both providers and the CPU provider."""
    register()
    options = options if options is not None else quiet_options()
    device = next(device for device in ort.get_ep_devices() if device.ep_name == get_ep_name())
    add = [
        lambda: options.add_provider_for_devices([device], {"backend": "cann", **(ours or {})}),
        lambda: options.add_provider(CANN, MODES[mode]),
    ]
    for add_provider in add if order == "ours_first" else reversed(add):
        add_provider()
    session = ort.InferenceSession(model.SerializeToString(), options, enable_fallback=0)
    assert {get_ep_name(), CANN} <= set(session.get_providers())
    return session


def as_graph_mode_needs_it(model: onnx.ModelProto, mode: str) -> onnx.ModelProto:
    """The lowered model, exported for graph mode if it is the mode, as `create_session` does it."""
    return export_cann(model, target="ascend950").model if mode == "subgraphs" else model


def is_fetched_by_cann(order: str, mode: str) -> bool:
    """Whether outputs of such a session may race because of the CANN provider.

    Its Reshape writes an output of the graph by the copy of the provider that comes first. The CANN provider's copy
    does not wait for the stream: see test_built_models.
    """
    return order == "cann_first" and mode == "operators"


def without_reshaped_outputs(model: onnx.ModelProto) -> None:
    """Remove the graph's outputs that a Reshape computes."""
    reshaped = {node.output[0] for node in model.graph.node if node.op_type == "Reshape"}
    kept = [output for output in model.graph.output if output.name not in reshaped]
    del model.graph.output[:]
    model.graph.output.extend(kept)


def on_cpu(model: onnx.ModelProto, feeds: Feeds) -> list[Array]:
    """The results of the CPU provider alone, which runs the function bodies of our nodes."""
    session = ort.InferenceSession(model.SerializeToString(), quiet_options(), providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def assert_results(session: ort.InferenceSession, feeds: Feeds, expected: list[Array]) -> None:
    """Run the session and require the expected bits."""
    for found, wanted in zip(session.run(None, dict(feeds)), expected, strict=True):
        assert_same_bits(np.asarray(found), np.asarray(wanted))


def count_copies(run: Callable[[], object]) -> dict[int, int]:
    """The number of copies of each kind that `run` makes. One in pieces, through the device's pinned memory, is one."""
    calls = [call for call in HostLibrary().trace(run) if str(call.get("call", "")).startswith("aclrtMemcpy")]
    begun = [call for before, call in zip([{}, *calls], calls, strict=False) if not _goes_on(before, call)]
    return dict(Counter(call["kind"] for call in begun))


def _goes_on(before: Mapping[str, Any], call: Mapping[str, Any]) -> bool:
    """Whether a copy is the next piece of the one before it: it goes on where a whole piece ended on the device."""
    side = "src" if call["kind"] == TO_HOST else "dst"
    if before.get("kind") != call["kind"] or before["count"] != PIECE:
        return False
    return bool(before[side] + PIECE == call[side])


def providers_of(session: ort.InferenceSession) -> dict[str, set[str]]:
    """For each provider, the names of its nodes."""
    found: dict[str, set[str]] = {}
    for subgraph in session.get_provider_graph_assignment_info():
        found.setdefault(subgraph.ep_name, set()).update(node.name for node in subgraph.get_nodes())
    return found


def is_installed() -> bool:
    """Whether this process can create such sessions: the CANN provider is installed, and the stand-in is built."""
    return CANN in ort.get_available_providers() and str(HOME / "lib64") in os.environ.get("LD_LIBRARY_PATH", "")


def image(*shape: int, seed: int = 0) -> Array:
    """Few distinct numbers of both signs, so that windows have ties."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)
