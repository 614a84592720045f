# SPDX-License-Identifier: Apache-2.0

"""MaxPool's attributes and windows, against onnx's own shape inference and onnxruntime's indices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import helper

from poolgrad_lowering.model.ir.dims import Dim
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Node
from poolgrad_lowering.model.windows import PoolAttributes, pooled_sizes
from tests.oracles import run_ort
from tests.pool_graphs import attribute_text, parse

MODES = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def pool_node(**attributes: Any) -> Node:
    node = helper.make_node("MaxPool", ["X"], ["Y"], **attributes)
    graph = helper.make_graph([node], "g", [], [])
    return ModelIndex(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)])).scopes[0].node(0)


def read(**attributes: Any) -> PoolAttributes:
    pool = PoolAttributes.read(pool_node(**attributes))
    assert pool is not None
    return pool


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"kernel_shape": [0]},
        {"kernel_shape": [-2]},
        {"kernel_shape": 2},
        {"kernel_shape": [2.0]},
        {"kernel_shape": [2], "strides": [0]},
        {"kernel_shape": [2], "strides": [1, 1]},
        {"kernel_shape": [2], "strides": "1"},
        {"kernel_shape": [2], "dilations": [0]},
        {"kernel_shape": [2], "dilations": [1.0]},
        {"kernel_shape": [2], "pads": [0]},
        {"kernel_shape": [2], "pads": [0, -1]},
        {"kernel_shape": [2], "auto_pad": "SAME"},
        {"kernel_shape": [2], "auto_pad": 1},
        {"kernel_shape": [2], "ceil_mode": "1"},
        {"kernel_shape": [2], "ceil_mode": [1]},
        {"kernel_shape": [2], "storage_order": 0.0},
    ],
)
def test_malformed_attributes(attributes: dict[str, Any]) -> None:
    assert PoolAttributes.read(pool_node(**attributes)) is None


@pytest.mark.parametrize("mode", MODES[1:])
@pytest.mark.parametrize("ceil", [0, 1])
def test_auto_pad_windows_are_onnxruntimes(mode: str, ceil: int) -> None:
    """Every index that onnxruntime records lies in the window of its output, which begins where it says."""
    for size, kernel, stride in itertools.product(range(1, 11), (1, 2, 3, 4), (1, 2, 3)):
        attributes = {"kernel_shape": [kernel], "strides": [stride], "auto_pad": mode, "ceil_mode": ceil}
        pool = read(**attributes)
        if pool.has_ambiguous_pads or (mode == "VALID" and kernel > size):
            continue
        window = pool.axis(0, Dim(size))
        assert window is not None
        model = parse(f"g (float[1,1,{size}] X) => (Y, I) {{ Y, I = MaxPool<{attribute_text(attributes)}>(X) }}")
        rising = np.arange(size, dtype=np.float32).reshape(1, 1, size)
        first, last = (run_ort(model, {"X": x})["I"].reshape(-1) for x in (-rising, rising))
        assert pooled_sizes(pool, (Dim(size),)) == (Dim(len(first)),)
        starts = np.arange(len(first)) * window.stride - window.begin
        assert (first == np.maximum(starts, 0)).all()
        assert (last == np.minimum(starts + kernel - 1, size - 1)).all()


@pytest.mark.parametrize(
    ("attributes", "ambiguous"),
    [
        ({"auto_pad": "SAME_UPPER"}, False),
        ({"auto_pad": "SAME_UPPER", "dilations": [2]}, True),
        ({"auto_pad": "SAME_LOWER", "strides": [4]}, True),
        ({"auto_pad": "VALID", "strides": [4], "dilations": [2]}, False),
        ({"dilations": [2]}, False),
        ({"auto_pad": "SAME_UPPER", "pads": [0, 0]}, False),
        ({"auto_pad": "SAME_UPPER", "pads": [1, 0]}, True),
        ({"auto_pad": "VALID", "pads": [0, 1]}, True),
        ({"pads": [0, 1]}, False),
    ],
)
def test_ambiguous_pads(attributes: dict[str, Any], ambiguous: bool) -> None:
    assert read(kernel_shape=[3], **attributes).has_ambiguous_pads is ambiguous


@pytest.mark.parametrize("attributes", [{"dilations": [2]}, {"kernel_shape": [1], "strides": [3]}])
def test_ambiguous_pads_differ_in_onnxruntime(attributes: dict[str, Any]) -> None:
    """The reason for the refusal; when this fails, onnxruntime pads as ONNX documents it."""
    attributes = {"kernel_shape": [2], "strides": [1], "auto_pad": "SAME_UPPER", **attributes}
    window = read(**attributes).axis(0, Dim(3))
    assert window is not None
    model = parse(f"g (float[1,1,3] X) => (Y, I) {{ Y, I = MaxPool<{attribute_text(attributes)}>(X) }}")
    recorded = run_ort(model, {"X": np.array([[[3, 2, 1]]], np.float32)})["I"].reshape(-1).tolist()
    starts = [number * window.stride - window.begin for number in range(-(-3 // window.stride))]
    assert recorded != [max(start, start % window.dilation) for start in starts]
