# SPDX-License-Identifier: Apache-2.0

"""How large are function bodies, and how long does onnxruntime take to create a session of a model that has them?"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import onnx
from onnx import NodeProto, TensorProto, helper

from benchmarks.measuring import interleaved
from benchmarks.training_sessions import cpu_session
from models.catalogue import BUILT
from poolgrad_lowering import lower, lower_file

ROUNDS = 41
TARGETS = ("atlas-a2", "ascend950")
OPSETS = range(9, onnx.defs.onnx_opset_version() + 1)
"""From the oldest opset that is lowered to the newest of onnx."""

README_EXAMPLE = "torch/lenet"
CASES = {
    "torch/resnet_stem": "one 2-D pool",
    "torch/ceil": "two 2-D pools",
    "torch/video_ceil": "one 3-D pool",
    README_EXAMPLE: "a small network with two 2-D pools, the example of the README",
}
"""Joint graphs of PyTorch in models/built. They are small, so that the bodies are a large part of the model."""


def measure(work: Path) -> dict[str, Any]:
    """The number of nodes of the bodies per target and opset; bytes and seconds to create a session per model."""
    counts = [row for target in TARGETS for row in by_generation(target, OPSETS)]
    models = [{"name": name, "remarks": remarks, **compare(built(name), work)} for name, remarks in CASES.items()]
    return {"counts": counts, "models": models}


def built(name: str) -> Path:
    """The file of a built model."""
    return BUILT / f"{name}.onnx"


def by_generation(target: str, opsets: Iterable[int]) -> list[dict[str, Any]]:
    """The result of `count_nodes` for each run of opsets with equal results, with its first and last opset."""
    rows = []
    for counts, alike in groupby(opsets, partial(count_nodes, target)):
        first, *rest = alike
        rows.append({"target": target, "first": first, "last": [first, *rest][-1], **counts})
    return rows


def count_nodes(target: str, opset: int) -> dict[str, int]:
    """The number of nodes of the bodies of a 2-D max pool in float32 and of its gradient, subgraphs included.

    The number is 0 for a pool that stays an ONNX node, which has no body.
    """
    functions = lower(ordinary_pool(opset), target=target).model.functions
    counts = {"pool": 0, "gradient": 0}
    for function in functions:
        counts["gradient" if "Grad" in function.name else "pool"] += count(function.node)
    return counts


def count(nodes: Iterable[NodeProto]) -> int:
    """The number of nodes, including those of subgraphs."""
    return sum(1 + sum(count(attribute.g.node) for attribute in node.attribute) for node in nodes)


def ordinary_pool(opset: int) -> onnx.ModelProto:
    """A model of a pool with windows of 3 × 3, strides and padding, and its gradient as a MaxPoolGrad."""
    whole, pooled = [2, 3, 8, 8], [2, 3, 4, 4]
    windows = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["y", "indices"], **windows),
        helper.make_node("MaxPoolGrad", ["dy", "indices"], ["dx"], **windows),
    ]
    x, dy, dx = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", whole), ("dy", pooled), ("dx", whole))
    )
    graph = helper.make_graph(nodes, "pool", [x, dy], [dx])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def compare(original: Path, work: Path) -> dict[str, Any]:
    """The bytes of a model before and after lowering, and the seconds to create a session of each."""
    lowered = work / "lowered.onnx"
    report = lower_file(original, lowered)
    files = {"original": original, "original again": original, "function bodies": lowered}
    timings = interleaved({name: partial(cpu_session, str(file)) for name, file in files.items()}, ROUNDS)
    rows = [
        {
            "name": name,
            "bytes": file.stat().st_size,
            **timings[name].to_dict(),
            "ratio": timings[name].ratio_to(timings["original"]),
        }
        for name, file in files.items()
    ]
    return {"lowered": len(report.lowered), "rows": rows}
