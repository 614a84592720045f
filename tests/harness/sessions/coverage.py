# SPDX-License-Identifier: Apache-2.0

"""How much of a lowered model runs on the NPU in graph mode, and whether it runs at all.

    measure(model, feeds, soc)   one session of `create_session(…, providers=["CANNExecutionProvider"])`
    summarize({name: coverage})  the counts over many
    python -P -m tests.harness.sessions.coverage [--target TARGET] [--json FILE]   over the built models and a folder

Runs in the environment of `make test-cann-ep`. The sessions are those of a user: no option but the names of the
providers, in a folder of their own. Only onnxruntime's threads and messages are set, so that sums have the bits of the
CPU provider. If GE refuses a sub-model the Run ends, so a second process with an engine that only records refusals
counts all of them. `POOLGRAD_CORPUS` names the folder: models with their feeds beside them, lowered or not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.harness.cann.graph_engine import ENGINE, PRECISION_MODE, RECORDS_ONLY, install
from tests.harness.sessions.ep_process import run_python
from tests.harness.sessions.mixed_sessions import (
    CANN,
    HOME,
    Feeds,
    HostLibrary,
    count_copies,
    on_cpu,
    open_mixed,
    quiet_options,
)

SOCS = {"atlas-a2": "Ascend910B1", "ascend950": "Ascend950PR_9599"}
"""By target of `lower`, a name of a SoC of the host library."""

COPIES = {1: "to device", 2: "to host", 3: "on device"}
CORPUS = os.environ.get("POOLGRAD_CORPUS", "")
MODEL, FEEDS = "model.onnx", "feeds.npz"
NOT_ON_THE_CPU = "the CPU provider does not run it"


@dataclass
class Coverage:
    """What became of one model.

    Attributes:
        nodes: their number by provider.
        sub_models: how many GE was given.
        refused: the sub-models that GE refuses, with the reasons.
        rank_0_inputs: `<sub-model>: <input>` for each input that is a scalar.
        copies: the number of copies of each kind in the second Run.
        violations: broken rules of the device.
        precision_mode: what GE was initialized with; empty if nothing.
        same_bits: whether the outputs of both Runs have the bits of the CPU provider. float16 may have others, where
            one provider rounds and the other does not. The session is deterministic: otherwise sums of gradients in
            overlapping windows have others too.
        largest_error: the largest difference of an output, relative to the output's largest number.
        error: why there is no session, or why a Run failed; empty if neither.
    """

    nodes: dict[str, int] = field(default_factory=dict)
    sub_models: int = 0
    refused: list[str] = field(default_factory=list)
    rank_0_inputs: list[str] = field(default_factory=list)
    copies: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    precision_mode: str = ""
    same_bits: bool = False
    largest_error: float = 0.0
    error: str = ""

    @property
    def nodes_on_the_cpu(self) -> int:
        """The number of nodes of the CPU provider."""
        return self.nodes.get("CPUExecutionProvider", 0)

    @property
    def runs(self) -> bool:
        """Whether the model runs, with the right bits and without broken rules."""
        return self.same_bits and not (self.error or self.refused or self.violations)


def measure(
    model: onnx.ModelProto,
    feeds: Feeds,
    *,
    soc: str = SOCS["ascend950"],
    options: Mapping[str, str] | None = None,
    as_it_is: bool = False,
    **environment: str,
) -> Coverage:
    """Return the coverage of a lowered model in a process of its own.

    Args:
        model: lowered for the SoC.
        feeds: its inputs by name.
        soc: the name of the SoC.
        options: of the CANN provider, which a user would have to know.
        as_it_is: whether the session is made without this package's `create_session`, which would rewrite the model.
        environment: further variables of the process.
    """
    variables = {"ACLNN_HOST_SOC": soc, **environment}
    found = _in_process(model, feeds, options or {}, variables, as_it_is)
    if not found.error or found.error.startswith(NOT_ON_THE_CPU):
        return found
    every = _in_process(model, feeds, options or {}, {**variables, RECORDS_ONLY: "1"}, as_it_is)
    return Coverage(
        **{
            **asdict(found),
            "sub_models": max(found.sub_models, every.sub_models),
            "refused": every.refused or found.refused,
            "rank_0_inputs": every.rank_0_inputs or found.rank_0_inputs,
            "copies": every.copies,
        }
    )


def _in_process(
    model: onnx.ModelProto, feeds: Feeds, options: Mapping[str, str], environment: Mapping[str, str], as_it_is: bool
) -> Coverage:
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, Path(folder) / MODEL)
        np.savez(Path(folder) / FEEDS, **dict(feeds))
        call = f"measured_here({folder!r}, {dict(options)!r}, {as_it_is})"
        code = f"from tests.harness.sessions.coverage import measured_here\nanswer({call})"
        try:
            answer = run_python(code, ASCEND_HOME_PATH=str(HOME), ACLNN_HOST_STRICT="1", **environment)
        except AssertionError as error:
            lines = str(error).strip().splitlines()
            return Coverage(error=f"the process ended: {lines[-1] if lines else ''}")
    return Coverage(**answer)


def measured_here(folder: str, options: Mapping[str, str], as_it_is: bool) -> dict[str, Any]:
    """Return the coverage of the model in a folder as values of JSON. Only once per process."""
    install(HOME)
    os.chdir(folder)
    model, feeds = onnx.load(MODEL), dict(np.load(FEEDS))
    found = Coverage()
    try:
        _run(model, feeds, options, found, as_it_is)
    except Exception as error:
        found.error = _first_line(error)
    found.sub_models = len(ENGINE.sub_models)
    found.refused = ENGINE.refusals()
    found.rank_0_inputs = [f"{each.name}: {name}" for each in ENGINE.sub_models for name in each.rank_0_inputs]
    found.precision_mode = ENGINE.initialized[0].get(PRECISION_MODE, "") if ENGINE.initialized else ""
    found.violations = [f"{each['violation']}: {each['message']}" for each in HostLibrary().violations()]
    return asdict(found)


def _run(model: onnx.ModelProto, feeds: Feeds, options: Mapping[str, str], found: Coverage, as_it_is: bool) -> None:
    from poolgrad_lowering.runtime import assignment, create_session

    try:
        expected = on_cpu(model, feeds)
    except Exception as error:
        found.error = f"{NOT_ON_THE_CPU}: {_first_line(error)}"
        return
    providers = [(CANN, options)] if options else [CANN]
    if as_it_is:
        session = open_mixed(model, "ours_first", "subgraphs", ours={"deterministic": "1"})
    else:
        session = create_session(
            model, backend="cann", providers=providers, session_options=quiet_options(), deterministic=True
        )
    found.nodes = dict(Counter(node.provider for node in assignment(session)))
    results: list[Any] = [session.run(None, dict(feeds))]
    copies = count_copies(lambda: results.append(session.run(None, dict(feeds))))
    found.copies = {COPIES.get(kind, str(kind)): count for kind, count in copies.items()}
    found.same_bits = all(_same(values, expected) for values in results)
    found.largest_error = max(_error(*pair) for values in results for pair in zip(values, expected, strict=True))


def _same(values: list[Any], expected: list[Any]) -> bool:
    pairs = zip(map(np.asarray, values), map(np.asarray, expected), strict=True)
    return all(
        one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()
        for one, other in pairs
    )


def _error(value: Any, expected: Any) -> float:
    """Return the largest difference relative to the largest number; infinity for another shape or NaN."""
    one, other = np.asarray(value, np.float64), np.asarray(expected, np.float64)
    if one.shape != other.shape or not np.isfinite(one).all():
        return float("inf")
    return float(np.abs(one - other).max(initial=0) / (np.abs(other).max(initial=0) or 1))


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


# -- many models


def summarize(coverages: Mapping[str, Coverage]) -> dict[str, Any]:
    """Return counts over many models, and for each kind of refusal the models that have it."""
    every = coverages.values()
    reasons: dict[str, set[str]] = {}
    for name, coverage in coverages.items():
        for refusal in coverage.refused:
            reasons.setdefault(_kind_of(refusal), set()).add(name)
    return {
        "sessions": len(coverages),
        "run": sum(each.runs for each in every),
        "all sub-models taken": sum(not each.refused and not each.error.startswith("SessionError") for each in every),
        "without scalar inputs": sum(not each.rank_0_inputs for each in every),
        "taken and without scalar inputs": sum(not each.refused and not each.rank_0_inputs for each in every),
        "no node on the CPU": sum(bool(each.nodes) and not each.nodes_on_the_cpu for each in every),
        "sub-models": sum(each.sub_models for each in every),
        "refused sub-models": sum(len(each.refused) for each in every),
        "scalar inputs": sum(len(each.rank_0_inputs) for each in every),
        "violations": sum(len(each.violations) for each in every),
        "refusals": {reason: sorted(names) for reason, names in sorted(reasons.items())},
        "other errors": {name: each.error for name, each in coverages.items() if each.error and not each.refused},
        "other bits": [name for name, each in coverages.items() if not each.error and not each.same_bits],
    }


def _kind_of(refusal: str) -> str:
    """Return a refusal without the names of its sub-model, node and operator."""
    reason = refusal.splitlines()[0].partition(": ")[2]
    reason = re.sub(r"the plugin of .* \((.*?)\) failed", r"\1", reason)
    reason = re.sub(r"'[^']*'", "'…'", reason)
    return re.sub(r": no plugin takes.*", "", re.sub(r"\[ai\.onnx::(\d+)::\w+\]", r"[ai.onnx::\1::…]", reason))


def models(target: str) -> Iterator[tuple[str, onnx.ModelProto, Feeds]]:
    """Yield the name, the model lowered for a target, and the feeds of the built models and of those in `CORPUS`."""
    from models import catalogue
    from poolgrad_lowering import lower

    for entry in catalogue.entries():
        if entry.file.with_suffix(".npz").exists():
            yield entry.name, lower(onnx.load(entry.file), target=target).model, entry.feeds()
    for file in sorted(Path(CORPUS).rglob("*.onnx")) if CORPUS else ():
        if (npz := file.with_suffix(".npz")).exists():
            model = onnx.load(file)
            is_lowered = any(node.domain == "npu" for node in model.graph.node)
            feeds = {name[3:]: array for name, array in np.load(npz).items() if name.startswith("in:")}
            yield str(file.relative_to(CORPUS)), model if is_lowered else lower(model, target=target).model, feeds


def measure_all(target: str, options: Mapping[str, str] | None = None) -> dict[str, Coverage]:
    """Return the coverage of every model that runs on the CPU provider and has a node of the dialect, by name."""
    every = {
        name: measure(model, feeds, soc=SOCS[target], options=options)
        for name, model, feeds in models(target)
        if any(node.domain == "npu" for node in model.graph.node)
    }
    return {name: each for name, each in every.items() if not each.error.startswith(NOT_ON_THE_CPU)}


def main() -> None:
    """Measure every model, and write the summary and, if requested, every coverage."""
    parser = argparse.ArgumentParser(
        description="Coverage of lowered models in graph mode, over the stand-in for CANN."
    )
    parser.add_argument("--target", choices=SOCS, default="ascend950")
    parser.add_argument("--json", type=Path, help="a file for the coverage of each model")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the CANN provider")
    arguments = parser.parse_args()
    found = measure_all(arguments.target, dict(option.split("=", 1) for option in arguments.option))
    if arguments.json:
        rows = {name: asdict(coverage) for name, coverage in found.items()}
        arguments.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    sys.stdout.write(json.dumps(summarize(found), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
