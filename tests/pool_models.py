# SPDX-License-Identifier: Apache-2.0

"""Models of one pool of the dialect, with its function body, cases of windows, and what the definition says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from poolgrad_lowering.dialect import DOMAIN, VERSION, function_body
from poolgrad_lowering.dialect.body_windows import onnx_window
from poolgrad_lowering.dialect.op import Maximum
from tests.oracles import adaptive_windows, ascend_pool, pool_windows

Array = npt.NDArray[Any]

POOL_3D = "MaxPool3DWithArgmaxV2"
POOL_2D = "MaxPoolWithArgmaxV3"
ADAPTIVE = "AdaptiveMaxPool3d"

_ASCEND_NUMBERS: dict[int, int] = {TensorProto.INT32: 3, TensorProto.INT64: 9}


@dataclass(frozen=True)
class PoolCase:
    """A pool of x; each list has a value for each spatial axis of x. `output_size` is the adaptive pool's."""

    op: str
    x_shape: tuple[int, ...]
    ksize: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    ceil_mode: bool = False
    output_size: tuple[int, ...] = ()

    def attributes(self, index_type: int = TensorProto.INT32) -> dict[str, Any]:
        """The attributes of the node, all of them."""
        number = _ASCEND_NUMBERS[index_type]
        if self.op == ADAPTIVE:
            return {"output_size": self._axes(self.output_size, 1), "indices_dtype": number}
        return {
            "ksize": self._axes(self.ksize, 1),
            "strides": self._axes(self.strides, 1),
            "pads": self._axes(self.pads, 0),
            "dilation": self._axes(self.dilation, 1),
            "ceil_mode": int(self.ceil_mode),
            "data_format": "NCHW" if self.op == POOL_2D else "NCDHW",
            "dtype": number,
            **onnx_window(self.ksize, self.strides, (self.pads, self.pads), self.dilation, ceil=self.ceil_mode),
        }

    def expected(self, x: Array) -> tuple[Array, npt.NDArray[np.int64]]:
        """y and argmax, by the definition."""
        spatial = x.shape[2:]
        if self.op == ADAPTIVE:
            return ascend_pool(x, [adaptive_windows(*axis) for axis in zip(spatial, self.output_size, strict=True)])
        axes = zip(spatial, self.ksize, self.strides, self.pads, self.dilation, strict=True)
        return ascend_pool(x, [pool_windows(*axis, ceil_mode=self.ceil_mode) for axis in axes])

    def _axes(self, values: Sequence[int], absent: int) -> list[int]:
        """The values as the attribute has them: `absent` along the axes that x lacks."""
        length = 2 if self.op == POOL_2D else 3
        return [absent] * (length - len(values)) + list(values)


CASES = {
    "1d": PoolCase(POOL_3D, (2, 3, 11), (3,), (2,), (1,), (1,)),
    "1d dilated": PoolCase(POOL_3D, (2, 3, 12), (3,), (2,), (1,), (3,)),
    "2d in 3d": PoolCase(POOL_3D, (2, 3, 9, 8), (3, 2), (2, 1), (1, 0), (1, 1)),
    "2d in 3d, ceil": PoolCase(POOL_3D, (2, 3, 10, 7), (3, 3), (3, 2), (1, 0), (1, 1), ceil_mode=True),
    "3d": PoolCase(POOL_3D, (2, 2, 5, 6, 7), (2, 3, 2), (1, 2, 2), (1, 1, 0), (1, 1, 1)),
    "3d ceil": PoolCase(POOL_3D, (1, 2, 5, 6, 7), (2, 2, 3), (2, 4, 3), (0, 0, 1), (1, 1, 1), ceil_mode=True),
    "3d dilated": PoolCase(POOL_3D, (1, 2, 6, 7, 8), (2, 3, 2), (1, 1, 2), (0, 1, 1), (2, 2, 3)),
    "2d": PoolCase(POOL_2D, (2, 3, 9, 8), (3, 2), (2, 1), (1, 1), (1, 1)),
    "2d one by one": PoolCase(POOL_2D, (2, 3, 4, 5), (1, 1), (1, 1), (0, 0), (1, 1)),
    # Rounding up gives a window in the right padding alone, which is dropped.
    "2d ceil dropped": PoolCase(POOL_2D, (1, 2, 4, 7), (2, 2), (3, 3), (1, 1), (1, 1), ceil_mode=True),
    "2d dilated, ceil": PoolCase(POOL_2D, (2, 1, 9, 11), (3, 3), (2, 3), (1, 1), (2, 3), ceil_mode=True),
    "adaptive 1d": PoolCase(ADAPTIVE, (2, 3, 11), output_size=(4,)),
    "adaptive 2d": PoolCase(ADAPTIVE, (2, 3, 7, 8), output_size=(3, 5)),
    "adaptive 2d even": PoolCase(ADAPTIVE, (2, 3, 8, 6), output_size=(4, 3)),
    "adaptive 3d": PoolCase(ADAPTIVE, (2, 2, 5, 6, 7), output_size=(2, 6, 3)),
    "adaptive to one": PoolCase(ADAPTIVE, (2, 3, 5, 7), output_size=(1, 1)),
}


def pool_node(op: str, attributes: Mapping[str, Any]) -> onnx.NodeProto:
    """One node x -> y, argmax; an attribute of None is left out."""
    kept = {name: value for name, value in attributes.items() if value is not None}
    return helper.make_node(op, ["x"], ["y", "argmax"], name="site", domain=DOMAIN, **kept)


def pool_model(
    op: str,
    attributes: Mapping[str, Any],
    opset: int,
    x_shape: Sequence[int | str | None],
    *,
    element_type: int = TensorProto.FLOAT,
    index_type: int = TensorProto.INT32,
    maximum: Maximum = Maximum.SELECTED,
) -> onnx.ModelProto:
    """A model of one node with its body, whose outputs have shapes that are not known.

    Where the node computes in bfloat16, which onnxruntime's Python interface does not carry, x and y of the graph are
    float32.
    """
    edge = TensorProto.FLOAT if element_type == TensorProto.BFLOAT16 else element_type
    node = pool_node(op, attributes)
    node.input[0], node.output[0] = "x_cast", "y_cast"
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["x"], ["x_cast"], to=element_type),
            node,
            helper.make_node("Cast", ["y_cast"], ["y"], to=edge),
        ],
        "one_pool",
        [helper.make_tensor_value_info("x", edge, x_shape)],
        [
            helper.make_tensor_value_info("y", edge, [None] * len(x_shape)),
            helper.make_tensor_value_info("argmax", index_type, [None] * len(x_shape)),
        ],
    )
    default = helper.make_opsetid("", opset)
    return helper.make_model(
        graph,
        opset_imports=[default, helper.make_opsetid(DOMAIN, VERSION)],
        functions=[function_body(op, opset, [element_type], index_type, maximum=maximum)],
        ir_version=max(8, helper.find_min_ir_version_for([default])),
    )


def values_with_ties(shape: Sequence[int], dtype: npt.DTypeLike = np.float32, seed: int = 0) -> Array:
    """Few distinct values, zeros of both signs and infinities among them; some windows are all -inf."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(np.array([-1.5, -0.0, 0.0, 1.0, 2.0, np.inf, -np.inf]), shape)
    drawn[..., -3:] = -np.inf
    return drawn.astype(dtype)
