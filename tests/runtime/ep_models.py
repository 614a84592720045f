# SPDX-License-Identifier: Apache-2.0

"""Models of one dialect node, feeds for them, and the expected results by numpy."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from poolgrad_lowering.dialect import DOMAIN, VERSION, function_body
from poolgrad_lowering.runtime import assignment, get_ep_name
from tests.oracles import max_pool_indices, pool_gradient

Array = npt.NDArray[Any]
Dims = Sequence[int | str | None]

OPSET = 20
NODE = "pool_grad"
VALUE_TYPES = {
    "float32": (TensorProto.FLOAT, np.dtype(np.float32)),
    "float16": (TensorProto.FLOAT16, np.dtype(np.float16)),
    "bfloat16": (TensorProto.BFLOAT16, np.dtype(ml_dtypes.bfloat16)),
}
INDEX_TYPES = {"int32": TensorProto.INT32, "int64": TensorProto.INT64}


@dataclass(frozen=True)
class Case:
    """A dialect op on tensors of one shape; `window` is empty for the adaptive op."""

    op: str
    x_shape: tuple[int, ...]
    window: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ceil_mode: int = 0
    out: tuple[int, ...] = ()  # the adaptive op's output sizes

    def attributes(self, indices: str = "int32") -> dict[str, Any]:
        """All attributes of the node."""
        if not self.window:
            return {}
        common = {**self.window, "ceil_mode": self.ceil_mode}
        if self.op == "MaxPoolGradWithArgmaxV3":
            return {**common, "dtype": {"int32": 3, "int64": 9}[indices], "data_format": "NCHW"}
        return {**common, "data_format": "NCDHW"}


def window(
    ksize: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilation: Sequence[int]
) -> dict[str, Any]:
    return {"ksize": tuple(ksize), "strides": tuple(strides), "pads": tuple(pads), "dilation": tuple(dilation)}


def make_model(
    op: str,
    attributes: Mapping[str, Any],
    *,
    x: Dims,
    grad: Dims,
    values: str = "float32",
    indices: str = "int32",
    with_body: bool = True,
    name: str = NODE,
) -> onnx.ModelProto:
    """Return a model of one node. Inputs x, grad and output y are float32 where `values` is bfloat16, with Casts
    around the node: numpy arrays of bfloat16 cannot be fed to onnxruntime.
    """
    node = helper.make_node(op, ["x", "grad", "argmax"], ["y"], name=name, domain=DOMAIN, **attributes)
    element, _ = VALUE_TYPES[values]
    fed = TensorProto.FLOAT if values == "bfloat16" else element
    nodes = [node] if values != "bfloat16" else _cast_around(node)
    graph = helper.make_graph(
        nodes,
        "one_node",
        [
            helper.make_tensor_value_info("x", fed, x),
            helper.make_tensor_value_info("grad", fed, grad),
            helper.make_tensor_value_info("argmax", INDEX_TYPES[indices], grad),
        ],
        [helper.make_tensor_value_info("y", fed, x)],
    )
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, VERSION)]
    functions = [function_body(op, OPSET, [element])] if with_body else []
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def _cast_around(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    node.input[:] = ["x16", "grad16", "argmax"]
    node.output[:] = ["y16"]
    return [
        helper.make_node("Cast", ["x"], ["x16"], to=TensorProto.BFLOAT16),
        helper.make_node("Cast", ["grad"], ["grad16"], to=TensorProto.BFLOAT16),
        node,
        helper.make_node("Cast", ["y16"], ["y"], to=TensorProto.FLOAT),
    ]


def make_feeds(
    case: Case, values: str = "float32", indices: str = "int32", seed: int = 0, *, reverse: bool = False
) -> tuple[dict[str, Array], Array]:
    """Return feeds with the indices of a real pool, and the gradient that numpy computes from the definition, in
    row-major order or in reverse.
    """
    rng = np.random.default_rng(seed)
    _, dtype = VALUE_TYPES[values]
    # Few distinct values: ties, and many windows that share a maximum.
    x = rng.integers(-3, 4, case.x_shape).astype(dtype)
    whole = _whole_tensor_indices(case, x.astype(np.float32))
    grad = rng.standard_normal(whole.shape).astype(dtype)
    expected = pool_gradient(case.x_shape, grad, whole, reverse=reverse)
    plane = int(np.prod(case.x_shape[2:]))
    fed = np.dtype(np.float32) if values == "bfloat16" else dtype
    feeds = {"x": x.astype(fed), "grad": grad.astype(fed), "argmax": (whole % plane).astype(indices)}
    return feeds, expected.astype(fed)


def _whole_tensor_indices(case: Case, x: Array) -> Array:
    if not case.window:
        return adaptive_indices(x, case.out)
    axes = x.ndim - 2
    last = {name: values[len(values) - axes :] for name, values in case.window.items()}
    return max_pool_indices(
        x,
        last["ksize"],
        last["strides"],
        [*last["pads"], *last["pads"]],
        last["dilation"],
        ceil_mode=bool(case.ceil_mode),
    )


def adaptive_indices(x: Array, out: Sequence[int]) -> Array:
    """Return the whole-tensor indices of adaptive max pooling.

    Window i of an axis is [i * In // Out, ceil((i + 1) * In / Out)), as in CANN's documentation and torch.
    """
    spatial = x.shape[2:]
    numbers = np.arange(x.size).reshape(x.shape)
    indices = np.empty((*x.shape[:2], *out), np.int64)
    both = (slice(None), slice(None))  # all n, all c
    for position in itertools.product(*map(range, out)):
        box = tuple(slice(i * n // m, -(-(i + 1) * n // m)) for i, n, m in zip(position, spatial, out, strict=True))
        windows = x[both + box].reshape(*x.shape[:2], -1)
        of_window = numbers[both + box].reshape(*x.shape[:2], -1)
        chosen = windows.argmax(axis=-1)[..., None]
        indices[both + position] = np.take_along_axis(of_window, chosen, axis=-1)[..., 0]
    return indices


def claimed(session: Any) -> list[str]:
    """The operators of the provider's nodes."""
    return [node.op_type for node in assignment(session) if node.provider == get_ep_name()]
