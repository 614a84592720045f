# SPDX-License-Identifier: Apache-2.0

"""Draws the way of a model for the docs: from its exporter through this package to what runs it on which device."""

from __future__ import annotations

from docs import boxes

_NPU, _ELSEWHERE = "#d5e6f8", "#f4f5f6"
"""Fills: what runs on the NPU, and what runs elsewhere."""

_BOXES = {
    "torch": ("PyTorch", "poolgrad export-torch", "or a joint graph"),
    "ort": ("onnxruntime training", "training artifacts"),
    "tf": ("TensorFlow", "tf2onnx"),
    "graph": ("ONNX training graph", "MaxPool, and its gradient", "as the producer writes it"),
    "lower": ("poolgrad lower", "proves, then rewrites"),
    "model": ("lowered model", "pools and gradients: one node of domain npu each", "all other nodes: unchanged"),
    "provider": ("onnxruntime", "with this package's provider"),
    "bodies": ("onnxruntime alone", "function bodies"),
    "export": ("poolgrad export-atc", "and ATC"),
    "npu": ("NPU, through aclnn", "pools and gradients"),
    "rest": ("CPU, or onnxruntime's", "CANN provider", "all other nodes"),
    "cpu": ("CPU", "the same bits"),
    "om": ("NPU", "the whole graph, as .om"),
}
_EDGES = (
    *((exporter, "graph") for exporter in ("torch", "ort", "tf")),
    *(("graph", "lower"), ("lower", "model")),
    *(("model", way) for way in ("provider", "bodies", "export")),
    *(("provider", "npu"), ("provider", "rest"), ("bodies", "cpu"), ("export", "om")),
)


def picture() -> str:
    """The SVG, from exporters at the top to devices at the bottom; what runs on an NPU is blue."""
    colours = {"npu": _NPU, "om": _NPU, "rest": _ELSEWHERE, "cpu": _ELSEWHERE}
    return boxes.picture("From exporters to devices; what runs on the NPU is blue.", _BOXES, _EDGES, colours)
