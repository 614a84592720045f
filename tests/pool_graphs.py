# SPDX-License-Identifier: Apache-2.0

"""Small training graphs with one max-pool gradient, in both spellings, and ways to look into them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, TensorProto, parser

from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families.gradient import Operand, View
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.axis_maximum import reduced_shape
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import Shape
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Value
from poolgrad_lowering.model.windows import AdaptiveWindows
from tests.heads import head
from tests.oracles import max_pool

Array = npt.NDArray[Any]


def parse(graph: str, *, opset: int = 16, ir: int = 8, imports: str = "", functions: str = "") -> ModelProto:
    """A model in ONNX's text syntax; `imports` are further operator sets, `functions` stands behind the graph."""
    return parser.parse_model(f"{head(opset, ir=ir, imports=imports)}\n{graph}\n{functions}")


def graph_table(text: str, *, imports: str = "") -> dict[str, tuple[ModelProto, str]]:
    """Return by name the models of a table, and what is expected of each.

    A line `name, opset 18: what is expected` stands before each graph, which is indented. Opset 16 is not written.
    """
    rows = {}
    for title, graph in re.findall(r"((?:^\S.*\n)+)((?:^ .*\n)+)", text, re.MULTILINE):
        name, _, expected = " ".join(title.split()).partition(": ")
        opset = re.search(r"opset (\d+)$", name)
        rows[name] = parse(graph, opset=int(opset[1]) if opset else 16, imports=imports), expected
    return rows


def main_value(model: ModelProto, name: str) -> tuple[Facts, Value]:
    """The facts of a model and a value of its main graph."""
    index = ModelIndex(model)
    value = index.scopes[0].resolve(name)
    assert value is not None, name
    return Facts(index), value


def axis_record(x: Value, argmax: Value, shape: Shape, axis: int, dx_shape: Shape | None = None) -> MaxPoolGradient:
    """The record of the gradient of a maximum over an axis of x, which stands for the values of the gradients too."""
    return MaxPoolGradient(
        x=Operand(x),
        grad=Operand(x),
        argmax=Operand(argmax),
        dx=Operand(x) if dx_shape is None else Operand(x, View.FLAT, dx_shape),
        numbering=Numbering.AXIS,
        element_type=TensorProto.FLOAT,
        windows=AdaptiveWindows(),
        x_shape=shape,
        pooled_shape=reduced_shape(shape, axis),
    )


def attribute_text(attributes: dict[str, Any]) -> str:
    """Attributes as ONNX text: `kernel_shape = [2, 2], ceil_mode = 1`."""
    quoted = {name: f'"{held}"' if isinstance(held, str) else held for name, held in attributes.items()}
    return ", ".join(f"{name} = {held}" for name, held in quoted.items())


def ort_gradient(x_shape: Sequence[int], *, opset: int = 16, dtype: str = "float", **attributes: Any) -> ModelProto:
    """onnxruntime's form: X, dY → dX = MaxPoolGrad(dY, Indices of MaxPool(X))."""
    pooled = pooled_shape(x_shape, **attributes)
    text = attribute_text(attributes)
    return parse(
        f"""g ({dtype}{list(x_shape)} X, {dtype}{pooled} dY) => ({dtype}{list(x_shape)} dX) {{
            Y, I = MaxPool<{text}>(X)
            dX = MaxPoolGrad<{text}>(dY, I)
        }}""",
        opset=opset,
        ir=4 if opset < 15 else 8,
    )


def torch_gradient(x_shape: Sequence[int], *, opset: int = 18, **attributes: Any) -> ModelProto:
    """PyTorch's form: X, dY → dX by ScatterElements(add) on rows of planes, by the plane-local Indices."""
    pooled, rank = pooled_shape(x_shape, **attributes), len(x_shape) - 2
    planes, plane, count = (int(np.prod(sizes)) for sizes in (x_shape[:2], x_shape[2:], pooled[2:]))
    ones, axes = ", ".join(["1"] * rank), ", ".join(str(axis) for axis in range(2, rank + 2))
    x_sizes = ", ".join(map(str, x_shape))
    return parse(
        f"""g (float{list(x_shape)} X, float{pooled} dY) => (float{list(x_shape)} dX) <
            float zero = {{0.0}}, int64[2] canvas = {{{planes}, {plane}}}, int64[2] rows = {{{planes}, {count}}},
            int64[{rank + 2}] whole = {{{x_sizes}}}, int64[{rank}] starts = {{{", ".join(["0"] * rank)}}},
            int64[{rank}] ends = {{{ones}}}, int64[{rank}] axes = {{{axes}}}
        > {{
            Y, I = MaxPool<{attribute_text(attributes)}>(X)
            Y1, I1 = MaxPool<kernel_shape = [{ones}]>(X)
            base = Slice(I1, starts, ends, axes)
            local = Sub(I, base)
            index = Reshape(local, rows)
            updates = Reshape(dY, rows)
            zeros = Expand(zero, canvas)
            sums = ScatterElements<axis = 1, reduction = "add">(zeros, index, updates)
            dX = Reshape(sums, whole)
        }}""",
        opset=opset,
    )


def pooled_shape(x_shape: Sequence[int], **attributes: Any) -> list[int]:
    """The shape of the pooled output, by the definition of the pool."""
    known = {name: held for name, held in attributes.items() if name not in ("auto_pad", "storage_order")}
    return list(max_pool(np.zeros(x_shape, np.float32), **known)[0].shape)


def random_feeds(model: ModelProto, seed: int = 0) -> dict[str, Array]:
    """Values for the float inputs of a model of static shapes; few distinct ones, so that windows tie."""
    rng = np.random.default_rng(seed)
    return {
        value.name: rng.integers(-4, 5, [dim.dim_value for dim in value.type.tensor_type.shape.dim]).astype(
            onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        )
        for value in model.graph.input
    }


GRADIENT = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
REFUSED = parse("g (float[2,3,4] X, float[2,3,4] dY, int64[2,3,4] I) => (dX) { dX = MaxPoolGrad(dY, I) }")


def saved(path: Path, model: ModelProto = GRADIENT) -> Path:
    """Write a model to a file, whose folder is made; return the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path
