"""Sessions of our provider and onnxruntime's CANN provider, in a process whose device is the strict host library."""

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
from device_models import GRADIENT, POOL
from ep_process import run_python
from host_control import HostLibrary
from oracles import assert_same_bits

from poolgrad_lowering.runtime import get_ep_name, register

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]

CANN = "CANNExecutionProvider"
HOME = Path(__file__).parents[2] / "build" / "cann_ep"  # `make test-cann-ep` fills it

# Which provider comes first.
ORDERS = ("ours_first", "cann_first")

# Options of the CANN provider. A built model would be saved in the current folder, and read from there by others.
MODES = {
    "operators": {"enable_cann_graph": "0"},
    "subgraphs": {"enable_cann_graph": "1", "enable_cann_subgraph": "1", "dump_om_model": "0"},
    "whole_graph": {"dump_om_model": "0"},  # onnxruntime's default
}
GOOD_MODES = ("operators", "subgraphs")

TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3  # kinds of aclrtMemcpy

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
    """Return what the check returns, a function at the top of a test module: JSON, from a process of its own in which
    the device is the strict host library and CANN's libraries are the stand-in.

    Fails if the check fails or breaks a rule of the device.
    """
    module = Path(check.__code__.co_filename).stem
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from host_control import HostLibrary
from {module} import {check.__name__} as check
answer([check(*{arguments!r}), HostLibrary().violations()])
"""
    result, violations = run_python(code, ASCEND_HOME_PATH=str(HOME), ACLNN_HOST_STRICT="1", **environment)
    assert not violations, "\n".join(f"{found['violation']}: {found['message']}" for found in violations)
    return result


def quiet_options() -> Any:
    """Options without onnxruntime's messages, which optimize as little as the models of the stand-in are."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


def open_mixed(
    model: onnx.ModelProto, order: str, mode: str, *, options: Any = None, ours: Mapping[str, str] | None = None
) -> ort.InferenceSession:
    """A session of both providers and the CPU's."""
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


def on_cpu(model: onnx.ModelProto, feeds: Feeds) -> list[Array]:
    """What the CPU provider alone gives, by the bodies of our nodes."""
    session = ort.InferenceSession(model.SerializeToString(), quiet_options(), providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def assert_results(session: ort.InferenceSession, feeds: Feeds, expected: list[Array]) -> None:
    """Run the session: its results have the expected bits."""
    found = session.run(None, dict(feeds))
    for output, wanted, array in zip(session.get_outputs(), expected, found, strict=True):
        try:
            assert_same_bits(array, wanted)
        except AssertionError as error:
            raise AssertionError(f"{output.name}: {error}") from None


def count_copies(run: Callable[[], object]) -> dict[int, int]:
    """How many copies of each kind `run` makes."""
    calls = HostLibrary().trace(run)
    return dict(Counter(call["kind"] for call in calls if str(call.get("call", "")).startswith("aclrtMemcpy")))


def providers_of(session: ort.InferenceSession) -> dict[str, set[str]]:
    """For each provider, the names of the nodes that it was given."""
    found: dict[str, set[str]] = {}
    for subgraph in session.get_provider_graph_assignment_info():
        found.setdefault(subgraph.ep_name, set()).update(node.name for node in subgraph.get_nodes())
    return found


def is_installed() -> bool:
    """Whether this process can make such sessions: the CANN provider is there, and the stand-in was built."""
    return CANN in ort.get_available_providers() and str(HOME / "lib64") in os.environ.get("LD_LIBRARY_PATH", "")


def image(*shape: int, seed: int = 0) -> Array:
    """Numbers of both signs, few of them, so that windows have ties."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)
