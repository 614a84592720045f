# SPDX-License-Identifier: Apache-2.0

"""Demonstrates the project on real training graphs: lowers two of them and runs one in the execution provider.

Prints each step, and a summary of five lines at the end. Exits with 1 if a pool or gradient did not run on the
provider, or if a bit of an output differs.
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
    print(f"== {ORT_GRAPH}: an onnxruntime training graph (MaxPoolGrad), lowered for atlas-a2")
    reports = [lower(ORT_GRAPH, "atlas-a2").report]
    ran: list[bool] = []
    equal: list[bool] = []
    for target in ("atlas-a2", "ascend950"):
        print(f"\n== {TORCH_GRAPH}: a PyTorch joint graph (scatter), lowered for {target}")
        result = lower(TORCH_GRAPH, target)
        session = runtime.create_session(result.model, session_options=quiet())
        backend = runtime.get_backend(session)
        print(f"session on {runtime.get_ep_name()}, backend {backend}")
        reports.append(result.report)
        ran += ran_on_provider(session, result)
        equal += same_outputs(session, catalogue.entry(TORCH_GRAPH))
    print("\n== Summary")
    print(f"lowered: {sum(len(report.lowered) for report in reports)} gradients of max pools, with their forward pools")
    kept = sum(len(report.anchors) - len(report.lowered) for report in reports)
    print(f"left as they are: {kept} anchors that are no gradients of pools")
    print(f"run on {runtime.get_ep_name()}, backend {backend}: {sum(ran)} of {len(ran)} pools and gradients")
    print(f"equal to the original, bit for bit: {sum(equal)} of {len(equal)} outputs")
    print("next: .nox/test/bin/poolgrad inspect YOUR_TRAINING_GRAPH.onnx")
    return 0 if all(ran) and all(equal) else 1


def quiet() -> ort.SessionOptions:
    """Return session options without onnxruntime's warning that shape arithmetic stays on the CPU."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return options


def lower(name: str, target: str) -> poolgrad_lowering.LoweringResult:
    """Lower a built graph, and print the report."""
    result = poolgrad_lowering.lower(onnx.load(catalogue.entry(name).file), target=target)
    for anchor in result.report.anchors:
        what = f"{anchor.op} {anchor.attributes}" if anchor.status == "lowered" else f"{anchor.code}: {anchor.reason}"
        print(f"  {anchor.name}: {anchor.status}: {what}")
    return result


def ran_on_provider(session: ort.InferenceSession, result: poolgrad_lowering.LoweringResult) -> list[bool]:
    """Print the provider of each dialect node, and return for each whether it is this project's."""
    providers = {node.name: node.provider for node in runtime.assignment(session)}
    nodes = [node for node in result.model.graph.node if node.domain == DOMAIN]
    for node in nodes:
        print(f"  {node.name} ({node.op_type}) runs on {providers.get(node.name, 'none: its function body runs')}")
    return [providers.get(node.name) == runtime.get_ep_name() for node in nodes]


def same_outputs(session: ort.InferenceSession, entry: catalogue.Entry) -> list[bool]:
    """Print the comparison of each output with the original's, and return for each whether it is equal bit for bit."""
    original = ort.InferenceSession(entry.file, providers=["CPUExecutionProvider"])
    expected, found = (each.run(None, entry.feeds()) for each in (original, session))
    equal = [is_equal(a, b) for a, b in zip(expected, found, strict=True)]
    for output, array, same in zip(session.get_outputs(), found, equal, strict=True):
        norm = float(np.linalg.norm(array.astype(np.float64)))
        print(f"  {output.name} {list(array.shape)} norm {norm:.6g}: {'equal' if same else 'DIFFERENT'}")
    return equal


def is_equal(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    """Whether two arrays have the same type, shape and bits."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


if __name__ == "__main__":
    sys.exit(main())
