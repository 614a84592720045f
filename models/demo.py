# SPDX-License-Identifier: Apache-2.0

"""Demonstrates the project on real training graphs: lowers two of them and runs one in the execution provider.

Prints each step. Exits with 1 if a pool or gradient did not run on the provider, or if a bit of an output differs.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort

import poolgrad_lowering
from models import catalogue
from poolgrad_lowering import runtime
from poolgrad_lowering.dialect import DOMAIN

ORT_GRAPH = "ort/lenet"
TORCH_GRAPH = "torch/lenet"


def main() -> int:
    """Run the demo and return its exit code."""
    print(f"== {ORT_GRAPH}: an onnxruntime training graph (MaxPoolGrad), lowered for Atlas A2")
    show(lower(ORT_GRAPH, "atlas-a2"))

    entry = catalogue.entry(TORCH_GRAPH)
    ok = True
    for target in ("atlas-a2", "ascend950"):
        print(f"\n== {TORCH_GRAPH}: a PyTorch joint graph (scatter), lowered for {target}")
        result = lower(TORCH_GRAPH, target)
        show(result)
        session = runtime.create_session(result.model, session_options=quiet())
        print(f"session on {runtime.get_ep_name()}, backend {runtime.get_backend(session)}")
        ok &= ran_on_provider(session, result)
        original = ort.InferenceSession(entry.file, providers=["CPUExecutionProvider"])
        ok &= same_outputs(original.run(None, entry.feeds()), session.run(None, entry.feeds()), original)
    print("\nall pools and gradients ran on the provider, all outputs are equal bit for bit" if ok else "\nFAILED")
    return 0 if ok else 1


def quiet() -> ort.SessionOptions:
    """Return session options without onnxruntime's warning that shape arithmetic stays on the CPU."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return options


def lower(name: str, target: str) -> poolgrad_lowering.LoweringResult:
    """Lower a built graph."""
    return poolgrad_lowering.lower(onnx.load(catalogue.entry(name).file), target=target)


def show(result: poolgrad_lowering.LoweringResult) -> None:
    """Print the report of a lowering."""
    for anchor in result.report.anchors:
        what = f"{anchor.op} {anchor.attributes}" if anchor.status == "lowered" else f"{anchor.code}: {anchor.reason}"
        print(f"  {anchor.name}: {anchor.status}: {what}")
    report = result.report
    print(f"  {len(report.lowered)} lowered, {len(report.refused)} refused, {report.seconds * 1e3:.0f} ms")


def ran_on_provider(session: ort.InferenceSession, result: poolgrad_lowering.LoweringResult) -> bool:
    """Print the provider of each dialect node, and return whether it is this project's for every gradient and pool."""
    nodes = [node for node in runtime.assignment(session) if node.domain == DOMAIN]
    written = sum(node.domain == DOMAIN for node in result.model.graph.node)
    for node in nodes:
        print(f"  {node.name} ({node.op_type}) runs on {node.provider}")
    return len(nodes) == written and all(node.provider == runtime.get_ep_name() for node in nodes)


def same_outputs(
    expected: list[npt.NDArray[Any]], found: list[npt.NDArray[Any]], session: ort.InferenceSession
) -> bool:
    """Print the comparison of each output, and return whether all are equal bit for bit."""
    equal = [
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(expected, found, strict=True)
    ]
    for output, array, same in zip(session.get_outputs(), found, equal, strict=True):
        norm = float(np.linalg.norm(array.astype(np.float64)))
        print(f"  {output.name} {list(array.shape)} norm {norm:.6g}: {'equal' if same else 'DIFFERENT'}")
    return all(equal)


if __name__ == "__main__":
    sys.exit(main())
