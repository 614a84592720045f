# SPDX-License-Identifier: Apache-2.0

"""The pooling oracle against sources it does not share code with: onnx's backend cases, onnxruntime, torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from tests.oracles import assert_same_bits, max_pool, max_pool_indices, run_ort, run_reference
from tests.oracles.backend_cases import max_pool_cases


def test_onnx_backend_cases() -> None:
    cases = max_pool_cases()
    assert len(cases) > 15
    for case in cases:
        assert case.model is not None
        assert case.data_sets is not None
        for inputs, outputs in case.data_sets:
            names = [value.name for value in case.model.graph.input]
            found = run_reference(case.model, dict(zip(names, inputs, strict=True)))
            for actual, expected in zip(found.values(), outputs, strict=True):
                assert_same_bits(actual, expected)


def random_pool(random: np.random.Generator) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
    """Draw an input full of ties and the attributes of a pool over it, every window with an element inside."""
    rank = int(random.integers(1, 4))
    kernel = random.integers(1, 4, rank)
    dilations = random.integers(1, 3, rank)
    extent = (kernel - 1) * dilations + 1
    spatial = random.integers(extent, extent + 6)
    attributes = {
        "kernel_shape": kernel.tolist(),
        "strides": random.integers(1, 4, rank).tolist(),
        "pads": random.integers(0, np.tile((kernel + 1) // 2, 2)).tolist(),
        "dilations": dilations.tolist(),
        "ceil_mode": bool(random.integers(0, 2)),
    }
    x = random.integers(-3, 4, (2, 2, *spatial)).astype(np.float32)
    return x, attributes


def pool_model(shape: tuple[int, ...], attributes: dict[str, Any]) -> onnx.ModelProto:
    node = onnx.helper.make_node("MaxPool", ["x"], ["y", "i"], **attributes)
    rank = [None] * len(shape)
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [
            onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, rank),
            onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT64, rank),
        ],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 12)], ir_version=8)


@pytest.mark.parametrize("seed", range(150))
def test_onnxruntime(seed: int) -> None:
    random = np.random.default_rng(seed)
    x, attributes = random_pool(random)
    special = random.random(x.shape) < 0.1
    x[special] = random.choice([np.nan, -np.inf, np.inf, -0.0], int(special.sum()))
    pytest.importorskip("onnxruntime")
    expected = run_ort(pool_model(x.shape, attributes), {"x": x})
    y, indices = max_pool(x, **attributes)
    assert_same_bits(indices, expected["i"])
    assert_same_bits(y, expected["y"])


@pytest.mark.parametrize("seed", range(60))
def test_torch(seed: int) -> None:
    torch = pytest.importorskip("torch")
    x, attributes = random_pool(np.random.default_rng(1000 + seed))
    rank = x.ndim - 2
    pads = attributes["pads"] = attributes["pads"][:rank] * 2
    pool = getattr(torch.nn.functional, f"max_pool{rank}d")
    y, plane_local = pool(
        torch.from_numpy(x),
        attributes["kernel_shape"],
        attributes["strides"],
        pads[:rank],
        attributes["dilations"],
        attributes["ceil_mode"],
        return_indices=True,
    )
    indices = max_pool_indices(x, **attributes)
    assert_same_bits(indices % np.prod(x.shape[2:]), plane_local.numpy())
    assert_same_bits(x.reshape(-1)[indices], y.numpy())


def test_storage_order_numbers_columns_first() -> None:
    x = np.zeros((1, 2, 2, 3), np.float32)
    x[0, 1, 0, 2] = 1
    _, indices = max_pool(x, [2, 3], storage_order=1)
    assert indices.reshape(-1).tolist() == [0, 6 + 2 * 2]


def test_window_without_element() -> None:
    with pytest.raises(ValueError, match="padding"):
        max_pool_indices(np.zeros((1, 1, 3), np.float32), [1], [1], [1, 0])
