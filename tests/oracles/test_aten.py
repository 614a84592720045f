# SPDX-License-Identifier: Apache-2.0

"""The oracle of PyTorch's operators against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.oracles import assert_same_bits, run_reference

CALLS: dict[str, tuple[list[int], list[Any], str]] = {  # by operator: x's shape, its arguments, its backward
    "max_pool2d_with_indices": (
        [2, 3, 9, 12], [[3, 2], [2, 1], [1, 1], [1, 2], True], "max_pool2d_with_indices_backward"),
    "max_pool3d_with_indices": (
        [2, 3, 5, 6, 7], [[2, 3, 2], [], [1, 0, 1], [1, 1, 1], False], "max_pool3d_with_indices_backward"),
    "adaptive_max_pool2d": ([2, 3, 9, 12], [[4, 5]], "adaptive_max_pool2d_backward"),
    "adaptive_max_pool3d": ([2, 3, 5, 6, 7], [[2, 3, 4]], "adaptive_max_pool3d_backward"),
    "max": ([2, 3, 9, 12], [2, False], "value_selecting_reduction_backward"),
}  # fmt: skip


@pytest.mark.parametrize("generic", [True, False], ids=["ATen", "op_type"])
@pytest.mark.parametrize("name", CALLS)
def test_torch(name: str, generic: bool) -> None:
    torch = pytest.importorskip("torch")
    shape, arguments, backward = CALLS[name]
    random = np.random.default_rng(0)
    x = random.integers(-3, 4, shape).astype(np.float32)
    aten = torch.ops.aten
    y, indices = (found.numpy() for found in getattr(aten, name)(torch.from_numpy(x), *arguments))
    dy = (random.integers(-8, 9, y.shape) / 2).astype(np.float32)
    found = run(name, [x, *map(as_array, arguments)], 2, generic=generic)
    assert_same_bits(found[0], y)
    assert_same_bits(found[1], indices)
    operands = backward_operands(name, x, dy, arguments, indices)
    expected = getattr(aten, backward)(*(as_tensor(torch, operand) for operand in operands))
    assert_same_bits(run(backward, list(map(as_array, operands)), 1, generic=generic)[0], expected.numpy())


@pytest.mark.parametrize("name", CALLS)
def test_torch_on_special_values(name: str) -> None:
    torch = pytest.importorskip("torch")
    shape, arguments, _ = CALLS[name]
    x = np.random.default_rng(1).choice(np.array([1, 2, -0.0, 0.0, np.nan, -np.inf, np.inf], np.float32), shape)
    expected = getattr(torch.ops.aten, name)(torch.from_numpy(x), *arguments)
    for found, wanted in zip(run(name, [x, *map(as_array, arguments)], 2, generic=True), expected, strict=True):
        assert_same_bits(found, wanted.numpy())


def test_a_gradient_of_another_shape() -> None:
    """numpy would repeat a gradient of one element."""
    operands = [np.ones(1, np.float32), np.array(1), np.zeros(2, np.int64), np.array([2, 1]), np.array(False)]
    with pytest.raises(ValueError, match=r"dY has shape \(1,\), the positions \(2,\)"):
        run("value_selecting_reduction_backward", operands, 1, generic=True)
    torch = pytest.importorskip("torch")
    dy, dim, indices, sizes, keepdim = operands
    with pytest.raises(RuntimeError, match="no larger size than src"):
        torch.ops.aten.value_selecting_reduction_backward(
            torch.from_numpy(dy), int(dim), torch.from_numpy(indices), sizes.tolist(), bool(keepdim)
        )


@pytest.mark.parametrize("name", [name for name in CALLS if "pool" in name])
def test_a_gradient_of_another_type(name: str) -> None:
    shape, arguments, backward = CALLS[name]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    y, indices = run(name, [x, *map(as_array, arguments)], 2, generic=True)
    operands = backward_operands(name, x, y.astype(np.float16), arguments, indices)
    with pytest.raises(ValueError, match="dy has type float16, x float32"):
        run(backward, list(map(as_array, operands)), 1, generic=True)
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match=r"[Ee]xpected (dtype|scalar type) [Ff]loat"):
        getattr(torch.ops.aten, backward)(*(as_tensor(torch, operand) for operand in operands))


def backward_operands(name: str, x: Any, dy: Any, arguments: list[Any], indices: Any) -> list[Any]:
    if name == "max":
        dim, keepdim = arguments
        return [dy, dim, indices, list(x.shape), keepdim]
    return [dy, x, indices] if name.startswith("adaptive") else [dy, x, *arguments, indices]


def as_array(argument: Any) -> np.ndarray[Any, Any]:
    if isinstance(argument, np.ndarray):
        return argument
    return np.array(argument, np.bool_ if isinstance(argument, bool) else np.int64)


def as_tensor(torch: Any, argument: Any) -> Any:
    return torch.from_numpy(argument) if isinstance(argument, np.ndarray) else argument


def run(name: str, operands: list[np.ndarray[Any, Any]], outputs: int, *, generic: bool) -> list[np.ndarray[Any, Any]]:
    """Run one operator as a model of one node."""
    inputs, results = [f"i{n}" for n in range(len(operands))], [f"o{n}" for n in range(outputs)]
    spelling = ("ATen", {"operator": name}) if generic else (name, {})
    node = onnx.helper.make_node(spelling[0], inputs, results, domain="org.pytorch.aten", **spelling[1])
    typed = [
        onnx.helper.make_tensor_value_info(i, onnx.helper.np_dtype_to_tensor_dtype(o.dtype), o.shape)
        for i, o in zip(inputs, operands, strict=True)
    ]
    untyped = [onnx.helper.make_empty_tensor_value_info(result) for result in results]
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("org.pytorch.aten", 1)]
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", typed, untyped), opset_imports=imports)
    return list(run_reference(model, dict(zip(inputs, operands, strict=True))).values())
