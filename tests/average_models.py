# SPDX-License-Identifier: Apache-2.0

"""Models of one gradient of an average pool of the dialect, with its function body, and what the definition says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from poolgrad_lowering.dialect import DOMAIN, VERSION, function_body
from poolgrad_lowering.dialect.body_windows import average_window
from poolgrad_lowering.model.windows import AxisWindow
from tests.oracles import adaptive_windows
from tests.oracles.training_operators import average_pool_grad, average_windows_grad

Array = npt.NDArray[Any]

AVERAGE_3D = "AvgPool3DGrad"
AVERAGE_2D = "AvgPoolV2Grad"
ADAPTIVE_3D = "AdaptiveAvgPool3dGrad"
ADAPTIVE_2D = "AdaptiveAvgPool2dGrad"

SHAPED = (AVERAGE_3D, AVERAGE_2D)
"""The operators whose first input is x's shape."""


@dataclass(frozen=True)
class AverageCase:
    """The gradient of an average pool of x; each list has a value for each spatial axis of x.

    `output_size` is the adaptive pool's.
    """

    op: str
    x_shape: tuple[int, ...]
    ksize: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    ceil_mode: bool = False
    count_include_pad: bool = False
    divisor_override: int = 0
    output_size: tuple[int, ...] = ()

    @property
    def grad_shape(self) -> tuple[int, ...]:
        """The shape of the incoming gradient: windows by the formula of CANN's and PyTorch's documentation."""
        return (*self.x_shape[:2], *(self.output_size or map(self._count, range(len(self.ksize)))))

    def _count(self, axis: int) -> int:
        size, kernel, stride, pad = self.x_shape[2 + axis], self.ksize[axis], self.strides[axis], self.pads[axis]
        if not self.ceil_mode:
            return (size + 2 * pad - kernel) // stride + 1
        count = math.ceil((size + 2 * pad - kernel) / stride) + 1
        return count - 1 if (count - 1) * stride >= size + pad else count

    def attributes(self) -> dict[str, Any]:
        """The attributes of the node, all of them."""
        if self.op == ADAPTIVE_2D:
            return {"orig_input_shape": list(self.x_shape)}
        if self.op == ADAPTIVE_3D:
            return {"data_format": "NCDHW"}
        windows = [AxisWindow(*row, 1) for row in zip(self.ksize, self.strides, self.pads, self.pads, strict=True)]
        common = {
            "ceil_mode": int(self.ceil_mode),
            "divisor_override": self.divisor_override,
            **average_window(
                windows,
                ceil=self.ceil_mode,
                count_include_pad=self.count_include_pad,
                divisor=self.divisor_override,
            ),
        }
        if self.op == AVERAGE_2D:
            return common | {
                "ksize": [1, 1, *self.ksize],
                "strides": [1, 1, *self.strides],
                "padding_mode": "CALCULATED",
                "pads": [pad for pad in self.pads for _ in range(2)],
                "data_format": "NCHW",
                "global_pooling": 0,
                "exclusive": int(not self.count_include_pad),
            }
        missing = 3 - len(self.ksize)
        return common | {
            "ksize": [1] * missing + list(self.ksize),
            "strides": [1] * missing + list(self.strides),
            "pads": [0, 0] * missing + [pad for pad in self.pads for _ in range(2)],
            "count_include_pad": int(self.count_include_pad),
            "data_format": "NCDHW",
        }

    def expected(self, grad: Array) -> Array:
        """The gradient of x by the definition, in float64."""
        if self.output_size:
            sizes = zip(self.x_shape[2:], self.output_size, strict=True)
            return average_windows_grad(
                grad.astype(np.float64), self.x_shape, [adaptive_windows(*each) for each in sizes]
            )
        return average_pool_grad(
            grad,
            self.x_shape,
            kernel=self.ksize,
            strides=self.strides,
            begins=self.pads,
            ends=self.pads,
            counts_padding=self.count_include_pad,
            divisor=self.divisor_override or None,
        )


CASES = {
    "1d": AverageCase(AVERAGE_3D, (2, 3, 11), (3,), (2,), (1,)),
    "1d, padding counts": AverageCase(AVERAGE_3D, (2, 3, 11), (3,), (2,), (1,), count_include_pad=True),
    "2d in 3d": AverageCase(AVERAGE_3D, (2, 3, 9, 8), (3, 2), (2, 1), (1, 0)),
    "2d in 3d, a divisor": AverageCase(AVERAGE_3D, (2, 3, 9, 8), (3, 2), (2, 1), (1, 0), divisor_override=5),
    "2d in 3d, ceil": AverageCase(AVERAGE_3D, (2, 3, 10, 7), (3, 3), (3, 2), (1, 0), ceil_mode=True),
    "3d": AverageCase(AVERAGE_3D, (2, 2, 5, 6, 7), (2, 3, 2), (1, 2, 2), (1, 1, 0)),
    "3d, ceil, padding counts": AverageCase(
        AVERAGE_3D, (1, 2, 5, 6, 7), (2, 2, 3), (2, 4, 3), (0, 0, 1), ceil_mode=True, count_include_pad=True
    ),
    "2d": AverageCase(AVERAGE_2D, (2, 3, 9, 8), (3, 2), (2, 1), (1, 1)),
    "2d, padding counts": AverageCase(AVERAGE_2D, (2, 3, 9, 8), (3, 2), (2, 1), (1, 1), count_include_pad=True),
    "2d one by one": AverageCase(AVERAGE_2D, (2, 3, 4, 5), (1, 1), (1, 1), (0, 0)),
    "2d with gaps": AverageCase(AVERAGE_2D, (2, 3, 10, 11), (2, 2), (4, 3), (0, 0)),
    # Rounding up gives a window in the right padding alone, which is dropped.
    "2d, ceil, dropped": AverageCase(AVERAGE_2D, (1, 2, 4, 7), (2, 2), (3, 3), (1, 1), ceil_mode=True),
    # Rounding up gives a window that ends behind the padding: what is behind it does not count.
    "2d, ceil, beyond": AverageCase(
        AVERAGE_2D, (1, 2, 6, 7), (3, 3), (2, 3), (1, 1), ceil_mode=True, count_include_pad=True
    ),
    "2d, ceil, a divisor": AverageCase(
        AVERAGE_2D, (1, 2, 6, 7), (3, 3), (2, 3), (1, 1), ceil_mode=True, divisor_override=7
    ),
    "2d, global": AverageCase(AVERAGE_2D, (2, 3, 5, 7), (5, 7), (5, 7), (0, 0)),
    "adaptive 1d": AverageCase(ADAPTIVE_3D, (2, 3, 11), output_size=(4,)),
    "adaptive 2d": AverageCase(ADAPTIVE_3D, (2, 3, 7, 8), output_size=(3, 5)),
    "adaptive 2d even": AverageCase(ADAPTIVE_3D, (2, 3, 8, 6), output_size=(4, 3)),
    "adaptive 2d larger": AverageCase(ADAPTIVE_3D, (2, 3, 3, 4), output_size=(7, 6)),
    "adaptive 3d": AverageCase(ADAPTIVE_3D, (2, 2, 5, 6, 7), output_size=(2, 6, 3)),
    "adaptive to one": AverageCase(ADAPTIVE_3D, (2, 3, 5, 7), output_size=(1, 1)),
    "adaptive, shape": AverageCase(ADAPTIVE_2D, (2, 3, 7, 8), output_size=(3, 5)),
}


def average_node(case: AverageCase, **changed: Any) -> onnx.NodeProto:
    """One node: sizes or x, and grad -> y; a `changed` attribute of None is left out."""
    attributes = {name: value for name, value in (case.attributes() | changed).items() if value is not None}
    inputs = {ADAPTIVE_3D: ["grad", "x"], ADAPTIVE_2D: ["grad"]}.get(case.op, ["sizes", "grad"])
    return helper.make_node(case.op, inputs, ["y"], name="site", domain=DOMAIN, **attributes)


def average_model(
    case: AverageCase, opset: int, element_type: int = TensorProto.FLOAT, *, symbolic: bool = False
) -> onnx.ModelProto:
    """A model of one node with its body; y has a shape that is not known.

    With `symbolic`, grad has named sizes, and the shape of x is an input of the graph. Where the node computes in
    bfloat16, which onnxruntime's Python interface does not carry, the graph's inputs and output are float32.
    """
    edge = TensorProto.FLOAT if element_type == TensorProto.BFLOAT16 else element_type
    node, rank = average_node(case), len(case.x_shape)
    renamed = {"grad": "grad_cast", "x": "x_cast"}
    node.input[:] = [renamed.get(name, name) for name in node.input]
    node.output[0] = "y_cast"
    shapes = {"grad": case.grad_shape, "x": case.x_shape}
    named = {name: [f"{name}{axis}" for axis in range(rank)] if symbolic else list(shapes[name]) for name in shapes}
    inputs = [name for name in ("grad", "x") if renamed[name] in node.input]
    values = [helper.make_tensor_value_info(name, edge, named[name]) for name in inputs]
    sizes = numpy_helper.from_array(np.array(case.x_shape, np.int32), "sizes")
    if symbolic and case.op in SHAPED:
        values.append(helper.make_tensor_value_info("sizes", TensorProto.INT32, [rank]))
    graph = helper.make_graph(
        [
            *(helper.make_node("Cast", [name], [renamed[name]], to=element_type) for name in inputs),
            node,
            helper.make_node("Cast", ["y_cast"], ["y"], to=edge),
        ],
        "one_average",
        values,
        [helper.make_tensor_value_info("y", edge, [None] * rank)],
        [sizes] if case.op in SHAPED and not symbolic else [],
    )
    default = helper.make_opsetid("", opset)
    return helper.make_model(
        graph,
        opset_imports=[default, helper.make_opsetid(DOMAIN, VERSION)],
        functions=[function_body(case.op, opset, [element_type])],
        ir_version=max(8, helper.find_min_ir_version_for([default])),
    )


def average_feeds(case: AverageCase, model: onnx.ModelProto, grad: Array) -> dict[str, Array]:
    """The inputs that a model of `average_model` has."""
    feeds = {"grad": grad, "x": np.zeros(case.x_shape, grad.dtype), "sizes": np.array(case.x_shape, np.int32)}
    return {value.name: feeds[value.name] for value in model.graph.input}


def exact_grad(case: AverageCase, seed: int = 0) -> Array:
    """A gradient, float32, whose quotients and their sums are integers below 2^24: no order of a sum rounds.

    The divisors of the cases are products of numbers up to 12.
    """
    multiple = math.lcm(*range(1, 13)) * (case.divisor_override or 1)
    return np.random.default_rng(seed).integers(-4, 5, case.grad_shape).astype(np.float32) * np.float32(multiple)
