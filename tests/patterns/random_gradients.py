"""Random pools and their gradients, written out in both forms by code that knows nothing of the compiler."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from hypothesis import assume
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper
from oracles import max_pool_indices

Array = npt.NDArray[Any]

SPECIAL = [0.0, -0.0, 1.0, 1.0, 2.0, -1.0, math.nan, math.inf, -math.inf]
"""Few values, so that windows have ties, and every kind of value that is special to a comparison or a sum."""


@dataclass(frozen=True)
class Pool:
    """A forward pool with its operands: x (N, C, spatial…) and dy in the pooled shape."""

    kernel: list[int]
    strides: list[int]
    pads: list[int]
    dilations: list[int]
    ceil: bool
    x: Array
    dy: Array

    @property
    def attributes(self) -> dict[str, Any]:
        """MaxPool's attributes."""
        return {
            "kernel_shape": self.kernel,
            "strides": self.strides,
            "pads": self.pads,
            "dilations": self.dilations,
            "ceil_mode": int(self.ceil),
        }

    @property
    def rooms(self) -> list[int]:
        """Per axis, how many positions a window can start at: none where it is larger than the padded input."""
        begins, ends = np.reshape(self.pads, (2, -1)).tolist()
        axes = zip(self.x.shape[2:], begins, ends, self.kernel, self.dilations, strict=True)
        return [size + begin + end - d * (k - 1) for size, begin, end, k, d in axes]

    @property
    def drops_a_window(self) -> bool:
        """Whether ceil_mode would have a last window start in the padding, which is then none."""
        counts = [math.ceil((room - 1) / stride) + 1 for room, stride in zip(self.rooms, self.strides, strict=True)]
        return self.ceil and tuple(counts) != self.dy.shape[2:]

    def indices(self) -> npt.NDArray[np.int64]:
        """The Indices by MaxPool's definition."""
        return max_pool_indices(self.x, self.kernel, self.strides, self.pads, self.dilations, ceil_mode=self.ceil)


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    """Draw a pool that ONNX allows, with windows that fit, each over at least one element of x."""
    rank = draw(st.integers(1, 3))

    def per_axis(low: int, high: int, count: int = rank) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    kernel = per_axis(1, 4)
    pads = [min(pad, size - 1) for pad, size in zip(per_axis(0, 3, 2 * rank), kernel * 2, strict=True)]
    shape = [draw(st.integers(1, 2)), draw(st.integers(1, 3)), *per_axis(1, 6)]
    x = draw_values(draw, shape)
    pool = Pool(kernel, per_axis(1, 3), pads, per_axis(1, 2), draw(st.booleans()), x, x)
    try:
        pooled = pool.indices().shape
    except ValueError:  # no window, or one over no element
        assume(False)
    assume(min(pool.rooms) > 0)  # else ceil_mode alone gives a window, and the pool is refused
    return Pool(**{**vars(pool), "dy": draw_values(draw, pooled)})


def draw_values(draw: st.DrawFn, shape: Any) -> Array:
    """Special values, or normal ones, whose sums depend on their order."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values: Array = random.choice(SPECIAL, shape) if draw(st.booleans()) else random.standard_normal(shape)
    return values.astype(np.float32)


def max_pool_grad(pool: Pool) -> ModelProto:
    """The gradient as onnxruntime training writes it: inputs x and dy, output dx."""
    forward = helper.make_node("MaxPool", ["x"], ["y", "i"], **pool.attributes)
    return _model(pool, [forward, helper.make_node("MaxPoolGrad", ["dy", "i"], ["dx"], **pool.attributes)])


@dataclass(frozen=True)
class Spelling:
    """Choices that a producer has in the scatter form."""

    remainder: bool
    three_axes: bool
    half: bool
    base_of_shape: bool
    int32: bool


SPELLINGS = st.builds(Spelling, *[st.booleans()] * 5)


class Writer:
    """Collects nodes of one output; numbers among their inputs become constants."""

    def __init__(self, *nodes: NodeProto) -> None:
        self.nodes = list(nodes)

    def __call__(self, op_type: str, *inputs: str | list[int] | int, named: str = "", **attributes: Any) -> str:
        """Write a node and return its output's name, which is `named` or a new one."""
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        output = named or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, names, [output], **attributes))
        return output

    def _constant(self, value: list[int] | int) -> str:
        return self("Constant", value=onnx.numpy_helper.from_array(np.array(value, np.int64)))


def scatter_add(pool: Pool, spelling: Spelling) -> ModelProto:
    """The gradient as PyTorch's exporter writes it: inputs x and dy, output dx."""
    write = Writer(helper.make_node("MaxPool", ["x"], ["y", "i"], **pool.attributes))
    planes = list(pool.x.shape[:2]) if spelling.three_axes else [math.prod(pool.x.shape[:2])]
    plane = math.prod(pool.x.shape[2:])
    local = write("Mod", "i", plane) if spelling.remainder else _minus_first(write, len(pool.kernel))
    if spelling.int32:
        local = write("Cast", local, to=TensorProto.INT32)
    rows = write("Reshape", local, [*planes, -1])
    updates = write("Reshape", "dy", [*planes, -1])
    if spelling.half:
        updates = write("Cast", updates, to=TensorProto.FLOAT)
    base = _zeros(write, [*planes, plane], of_shape=spelling.base_of_shape)
    sums = write("ScatterElements", base, rows, updates, axis=len(planes), reduction="add")
    if spelling.half:
        sums = write("Cast", sums, to=TensorProto.FLOAT16)
    write("Reshape", sums, list(pool.x.shape), named="dx")
    return _model(pool, write.nodes, TensorProto.FLOAT16 if spelling.half else TensorProto.FLOAT)


def _minus_first(write: Writer, rank: int) -> str:
    """The Indices less each plane's first one, which a 1×1 pool of x has recorded."""
    write.nodes.append(helper.make_node("MaxPool", ["x"], ["same", "every"], kernel_shape=[1] * rank))
    first = write("Slice", "every", [0] * rank, [1] * rank, list(range(2, 2 + rank)))
    return write("Sub", "i", first)


def _zeros(write: Writer, shape: list[int], *, of_shape: bool) -> str:
    if of_shape:
        return write("ConstantOfShape", shape)
    zero = write("Constant", value_float=0.0)
    return write("Expand", zero, shape)


def _model(pool: Pool, nodes: list[NodeProto], element_type: int = TensorProto.FLOAT) -> ModelProto:
    x, dy, dx = (
        helper.make_tensor_value_info(name, element_type, shape)
        for name, shape in (("x", pool.x.shape), ("dy", pool.dy.shape), ("dx", pool.x.shape))
    )
    graph = helper.make_graph(nodes, "gradient", [x, dy], [dx])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
