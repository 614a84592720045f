# SPDX-License-Identifier: Apache-2.0

"""Sessions that run a training step, and the times of the pools in their profiles. Knows no network."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from poolgrad_lowering.dialect import OPS
from poolgrad_lowering.runtime import create_session

Session = onnxruntime.InferenceSession
Open = Callable[..., Session]


def cpu_session(model: str | bytes, profile: Path | None = None, *, threads: int = 0) -> Session:
    """A session of onnxruntime's CPU provider, which inlines the function bodies of the dialect's nodes."""
    return onnxruntime.InferenceSession(model, _options(profile, threads), providers=["CPUExecutionProvider"])


def provider_session(model: str | bytes, profile: Path | None = None, *, threads: int = 0) -> Session:
    """A session of this project's execution provider with the host library."""
    return create_session(model, backend="host", session_options=_options(profile, threads))


def load_feeds(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file."""
    with np.load(path) as archive:
        return dict(archive)


def _options(profile: Path | None, threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads  # 0: one per core
    options.log_severity_level = 3  # errors only: no warning about nodes that stay on the CPU
    # By default threads wait in a loop even between runs, for longer than other variants may be slowed.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    return options


def seconds_by_node(
    open_session: Open, model: str, feeds: Mapping[str, np.ndarray], runs: int, work: Path
) -> dict[str, float]:
    """The median seconds of every node of a session's optimised graph in onnxruntime's profile, by node name."""
    session = open_session(model, work / "profile")
    for _ in range(runs):
        session.run(None, feeds)
    return node_seconds(json.loads(Path(session.end_profiling()).read_text(encoding="utf-8")))


def node_seconds(events: Iterable[Mapping[str, object]]) -> dict[str, float]:
    """The median seconds of every node in a profile's events, without the first Run, which allocates memory."""
    suffix = "_kernel_time"
    micros: dict[str, list[float]] = defaultdict(list)
    for event in events:
        name = str(event["name"])
        if event.get("cat") == "Node" and name.endswith(suffix):
            micros[name.removesuffix(suffix)].append(float(str(event["dur"])))
    return {name: statistics.median(times[1:] or times) / 1e6 for name, times in micros.items()}


def pooling_seconds(seconds: Mapping[str, float], model: onnx.ModelProto, other: onnx.ModelProto) -> float:
    """The total seconds of the nodes of `model` that `other` does not have, including inlined function bodies.

    onnxruntime names the nodes of inlined bodies and of inlined `If` branches by prefixes; the models have no other.
    """
    names = {node.name for node in model.graph.node} - {node.name for node in other.graph.node}
    inlined = ("_if_", *(f"_inlfunc_{op_type}_" for op_type in OPS))
    return sum(time for name, time in seconds.items() if name in names or name.startswith(inlined))
