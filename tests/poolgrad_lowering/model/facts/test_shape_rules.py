# SPDX-License-Identifier: Apache-2.0

"""Every shape rule against onnx's reference evaluator, with known sizes and with symbols in their place."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import onnx
import pytest

from poolgrad_lowering.model.facts.known import is_opaque
from poolgrad_lowering.model.facts.shape_rules import SHAPE_RULES
from poolgrad_lowering.model.facts.slices import slice_bounds
from poolgrad_lowering.model.ir.dims import Dim, Shape
from poolgrad_lowering.model.windows import AxisWindow, PoolAttributes, pooled_sizes
from tests.oracles import run_reference
from tests.pool_graphs import main_value, parse
from tests.poolgrad_lowering.model.facts.inferred import without_inference

UNARY = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp"),
    *("Floor", "Gelu", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Reciprocal", "Round"),
    *("Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu"),
)
BINARY = (
    *("Add", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Pow", "Sub"),
    "Sum",
)
RANGE = (
    "zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>()"
    " n = Shape<start = 0, end = 1>(X) s = Squeeze(n)"
)
CASES = [
    ("Add", "Y = Add(X0, X1)", [(2, 1, 3), (4, 1)], 16),
    *(("ArgMax", f"Y = ArgMax<axis = {axis}>(X)", [(2, 3, 4)], 16) for axis in range(-3, 3)),
    ("ArgMax", "Y = ArgMax<axis = -2, keepdims = 0>(X)", [(2, 3, 4)], 16),
    ("ArgMax", "Y = ArgMax(X)", [(2, 3)], 16),
    ("Cast", "Y = Cast<to = 7>(X)", [(2, 3)], 16),
    ("CastLike", "Y = CastLike(X, X)", [(2, 3)], 16),
    *(("Concat", f"Y = Concat<axis = {axis}>(X0, X1, X0)", [(2, 3), (2, 3)], 16) for axis in (-2, -1, 0, 1)),
    ("Concat", "Y = Concat<axis = 0>(X0, X1)", [(2, 3), (4, 3)], 16),
    ("Concat", "Y = Concat<axis = -2>(X)", [(2, 3)], 16),
    ("Constant", "Y = Constant<value = int64[2,1] {3, 4}>()", [(1,)], 16),
    ("Constant", "Y = Constant<value_float = 1.0>()", [(1,)], 16),
    ("Range", f"{RANGE} Y = Range(zero, s, one)", [(3, 2)], 16),
    ("ConstantOfShape", "s = Shape(X) Y = ConstantOfShape(s)", [(2, 3)], 16),
    ("DepthToSpace", 'Y = DepthToSpace<blocksize = 2, mode = "CRD">(X)', [(2, 8, 3, 5)], 16),
    ("SpaceToDepth", "Y = SpaceToDepth<blocksize = 3>(X)", [(2, 2, 6, 9)], 16),
    ("Split", "Y, b = Split(X)", [(4, 3)], 16),
    ("Split", "a, Y = Split<axis = -1, num_outputs = 2>(X)", [(2, 5)], 18),
    ("Split", "a, b, Y = Split<axis = 1, split = [1, 0, 3]>(X)", [(2, 4)], 11),
    ("Split", "s = Constant<value_ints = [3, 1]>() Y, b = Split(X, s)", [(4, 2)], 16),
    ("Expand", "s = Shape(X) z = Constant<value = float {0.0}>() Y = Expand(z, s)", [(2, 3)], 16),
    ("Expand", "s = Shape(X) z = Constant<value = float[1,1] {0.0}>() Y = Expand(z, s)", [(2, 3)], 16),
    ("Expand", "s = Constant<value_ints = [1]>() Y = Expand(X, s)", [(2, 3)], 16),
    ("Expand", "s = Constant<value_ints = [4, 2, 3]>() Y = Expand(X, s)", [(2, 1)], 16),
    *(("Flatten", f"Y = Flatten<axis = {axis}>(X)", [(2, 3, 4)], 16) for axis in range(-3, 4)),
    ("Gather", "i = Constant<value_ints = [1, 0]>() Y = Gather(X, i)", [(2, 3)], 16),
    ("Gather", "i = Constant<value_int = 1>() Y = Gather(X, i)", [(2, 3)], 16),
    *(
        ("Gather", f"i = Constant<value = int64[2,1] {{0, 1}}>() Y = Gather<axis = {axis}>(X, i)", [(2, 3, 4)], 16)
        for axis in range(-3, 3)
    ),
    ("GatherElements", "i = Constant<value = int64[2,1] {0, 1}>() Y = GatherElements<axis = 1>(X, i)", [(2, 3)], 16),
    (
        "Conv", "Y = Conv<kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]>(X0, X1)",
        [(2, 3, 7, 5), (4, 3, 3, 2)], 16),
    ("Conv", "Y = Conv<kernel_shape = [2], dilations = [2], group = 3>(X0, X1, X2)", [(2, 3, 7), (6, 1, 2), (6,)], 16),
    (
        "ConvTranspose", "Y = ConvTranspose<kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]>(X0, X1)",
        [(2, 3, 7, 5), (3, 4, 3, 2)], 16),
    (
        "ConvTranspose", "Y = ConvTranspose<kernel_shape = [2], strides = [3], output_padding = [1]>(X0, X1)",
        [(2, 3, 7), (3, 4, 2)], 16),
    (
        "ConvTranspose", "Y = ConvTranspose<kernel_shape = [2], strides = [2]>(X0, X1)",
        [(2, 3, 7), (3, 2, 2)], 16),
    ("Identity", "Y = Identity(X)", [(2, 0, 3)], 16),
    *((op_type, f"Y = {op_type}(X)", [(2, 3)], 20) for op_type in UNARY),
    *((op_type, f"c = Cast<to = 9>(X) Y = {op_type}(c)", [(2, 3)], 16) for op_type in ("Dropout", "Not")),
    *((op_type, f"Y = {op_type}(X)", [(2, 3, 4, 4)], 16) for op_type in ("LogSoftmax", "Softmax")),
    *(
        (op_type, f"Y = {op_type}(X0, X1)", shapes, 16)
        for op_type in BINARY
        for shapes in ([(2, 3), (3,)], [(2, 1), (1, 3)])
    ),
    *(
        (op_type, f"a = Cast<to = 9>(X0) b = Cast<to = 9>(X1) Y = {op_type}(a, b)", [(2, 1), (3,)], 16)
        for op_type in ("And", "Or", "Xor")
    ),
    ("Where", "c = Cast<to = 9>(X0) Y = Where(c, X1, X2)", [(2, 1, 1), (3, 1), (4,)], 16),
    ("BatchNormalization", "Y = BatchNormalization(X0, X1, X1, X1, X1)", [(2, 3, 4), (3,)], 16),
    ("InstanceNormalization", "Y = InstanceNormalization(X0, X1, X1)", [(2, 3, 4), (3,)], 16),
    ("LayerNormalization", "Y = LayerNormalization(X0, X1)", [(2, 3, 4), (4,)], 17),
    ("LRN", "Y = LRN<size = 3>(X)", [(2, 3, 4, 4)], 16),
    ("Mean", "Y = Mean(X0, X1)", [(2, 3), (3,)], 16),
    ("PRelu", "Y = PRelu(X0, X1)", [(2, 3, 4), (4,)], 16),
    ("Clip", "Y = Clip(X0, X1)", [(2, 3), ()], 16),
    ("AveragePool", "Y = AveragePool<kernel_shape = [3], strides = [2], pads = [1, 0]>(X)", [(2, 3, 7)], 16),
    ("AveragePool", "Y = AveragePool<kernel_shape = [3], strides = [2], ceil_mode = 1>(X)", [(2, 3, 8)], 16),
    ("MaxPool", "Y, I = MaxPool<kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]>(X)", [(2, 3, 7, 5)], 16),
    ("MaxPool", "Y, I = MaxPool<kernel_shape = [3], strides = [2], ceil_mode = 1>(X)", [(2, 3, 8)], 16),
    ("MaxPool", "Y, I = MaxPool<kernel_shape = [3], pads = [1, 1]>(X)", [(2, 3, 8)], 16),
    ("MaxPool", 'Y, I = MaxPool<kernel_shape = [3], auto_pad = "SAME_UPPER", strides = [2]>(X)', [(2, 3, 9)], 16),
    *(("Mod", "Y = Mod<fmod = 1>(X0, X1)", shapes, 16) for shapes in ([(2, 3), (3,)], [(2, 1), (1, 3)], [(), (2,)])),
    ("Mul", "Y = Mul(X0, X1)", [(4, 2, 3), (2, 1)], 16),
    ("Neg", "Y = Neg(X)", [(2, 3)], 16),
    ("Relu", "Y = Relu(X)", [()], 16),
    ("Reshape", "s = Constant<value_ints = [3, -1]>() Y = Reshape(X, s)", [(2, 3, 4)], 16),
    ("Reshape", "s = Constant<value_ints = [0, -1, 2]>() Y = Reshape(X, s)", [(2, 3, 4)], 16),
    ("Reshape", "s = Constant<value_ints = [0, 0, 4]>() Y = Reshape(X, s)", [(2, 3, 4)], 16),
    ("Reshape", "s = Constant<value_ints = [0, 5]>() Y = Reshape<allowzero = 1>(X, s)", [(2, 0, 4)], 16),
    ("Reshape", "s = Shape(X) i = Constant<value_ints = [1, 0]>() t = Gather(s, i) Y = Reshape(X, t)", [(2, 3)], 16),
    ("Reshape", "s = Constant<value = int64[0] {}>() Y = Reshape(X, s)", [(1, 1)], 16),
    ("Reshape", "s = Constant<value_ints = [0, 6, -1]>() Y = Reshape(X, s)", [(2, 3, 4)], 16),
    ("Reshape", "s = Constant<value_ints = [3, -1]>() Y = Reshape(X, s)", [(0, 3)], 16),
    ("Reshape", "s = Constant<value_ints = [-1]>() Y = Reshape(X, s)", [()], 16),
    ("Reshape", "s = Constant<value_ints = [1, 1]>() Y = Reshape(X, s)", [()], 16),
    ("Resize", 's = Constant<value_floats = [1.0, 2.5]>() Y = Resize<mode = "nearest">(X, , s)', [(2, 3)], 18),
    ("Resize", 's = Constant<value_floats = [3.0, 2.0]>() Y = Resize<mode = "nearest">(X, , s)', [(2, 3)], 18),
    (
        "Resize",
        "n = Shape<end = 1>(X) h = Constant<value_ints = [5]>() s = Concat<axis = 0>(n, h) Y = Resize(X, , , s)",
        [(2, 3)],
        18,
    ),
    ("Tile", "s = Constant<value_ints = [1, 4]>() Y = Tile(X, s)", [(2, 3)], 16),
    *(
        ("TopK", f"k = Constant<value_ints = [2]>() {outputs} = TopK<axis = {axis}>(X, k)", [(2, 3, 4)], 16)
        for outputs, axis in (("Y, i", -1), ("v, Y", 0), ("Y, i", 1))
    ),
    ("TopK", "k = Constant<value_ints = [2]>() Y, i = TopK(X, k)", [(2, 3)], 16),
    ("Upsample", 's = Constant<value = float[2] {1.0, 2.0}>() Y = Upsample<mode = "nearest">(X, s)', [(2, 3)], 9),
    (
        "ScatterElements",
        "i = Constant<value = int64[1,1] {0}>() u = Constant<value = float[1,1] {0.0}>() Y = ScatterElements(X, i, u)",
        [(2, 3)], 16),
    (
        "ScatterND",
        "i = Constant<value = int64[1,2] {0, 0}>() u = Constant<value = float[1] {0.0}>() Y = ScatterND(X, i, u)",
        [(2, 3)], 16),
    ("Shape", "Y = Shape(X)", [(2, 3, 4)], 16),
    *(
        ("Shape", f"Y = Shape<{', '.join(bounds)}>(X)", [(2, 3, 4)], 16)
        for bounds in itertools.product(
            *([f"{name} = {at}" for at in (-9, -3, -1, 0, 1, 3, 9)] for name in ("start", "end"))
        )
    ),
    ("Shape", "Y = Shape<start = 1>(X)", [(2, 3, 4)], 16),
    ("Shape", "Y = Shape<end = -1>(X)", [(2, 3, 4)], 16),
    ("Shape", "Y = Shape(X)", [(2, 3, 4)], 13),
    ("Shape", "Y = Shape<start = 2, end = 1>(X)", [(2, 3, 4)], 16),
    ("Slice", "Y = Slice<starts = [0, 1], ends = [1, 9], axes = [-1, 0]>(X)", [(3, 4)], 9),
    ("Slice", "Y = Slice<starts = [1], ends = [-1]>(X)", [(4, 4)], 9),
    *(
        (
            "Slice",
            f"s = Constant<value_ints = [{start}]>() e = Constant<value_ints = [{end}]>() Y = Slice(X, s, e)",
            [(4, 2)],
            16,
        )
        for start in (-9, -2, 0, 1, 9)
        for end in (-9, -1, 0, 1, 2, 2**62)
    ),
    (
        "Slice",
        "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() a = Constant<value_ints = [-1]>() "
        "t = Constant<value_ints = [1]>() Y = Slice(X, s, e, a, t)",
        [(4, 2)],
        16,
    ),
    *(
        (
            "Slice",
            f"s = Constant<value_ints = [{start}]>() e = Constant<value_ints = [{end}]>() "
            f"a = Constant<value_ints = [1]>() t = Constant<value_ints = [{step}]>() Y = Slice(X, s, e, a, t)",
            [(2, 5)],
            16,
        )
        for start, end, step in (
            *((0, 5, 2), (1, 4, 3), (4, -9, -1), (9, 0, -2), (-1, -4, -1), (-2, 9, -1), (0, 1, -1)),
            *((-1, -(2**63), -1), (-2, -(2**63), -1), (-1, -(2**63), -2)),
        )
    ),
    (
        "Slice", "s = Constant<value = int64[1] {0}>() e = Constant<value = int64[1] {1}>() Y = Slice(X, s, e)",
        [(4, 2)], 10),
    *(
        (
            "Slice",
            f"s = Constant<value_ints = [0]>() e = Constant<value_ints = [{end}]>() Y = Slice(X, s, e)",
            shape,
            16,
        )
        for end in (0, 1, 2)
        for shape in ([(0, 2)], [(1, 2)], [(5, 2)])
    ),
    *(
        (
            "Slice",
            f"s = Constant<value_ints = [1]>() e = Constant<value_ints = [3]>() a = Constant<value_ints = [{axis}]>() "
            "Y = Slice(X, s, e, a)",
            [(4, 5, 6)],
            16,
        )
        for axis in range(-3, 3)
    ),
    ("Squeeze", "Y = Squeeze(X)", [(1, 3, 1)], 16),
    *(
        ("Squeeze", f"a = Constant<value_ints = [{axis}]>() Y = Squeeze(X, a)", [shape], 16)
        for axis, shape in ((-3, (1, 2, 3)), (0, (1, 2, 3)), (2, (2, 3, 1)), (-1, (2, 3, 1)), (-2, (2, 1, 3)))
    ),
    ("Squeeze", "a = Constant<value_ints = [2, -3]>() Y = Squeeze(X, a)", [(1, 3, 1)], 16),
    *(
        ("Unsqueeze", f"a = Constant<value_ints = [{axis}]>() Y = Unsqueeze(X, a)", [(2, 3)], 16)
        for axis in range(-3, 3)
    ),
    ("Unsqueeze", "a = Constant<value_ints = [3, 0, -3]>() Y = Unsqueeze(X, a)", [(2, 3)], 16),
    ("Squeeze", "a = Constant<value_ints = [-1]>() Y = Squeeze(X, a)", [(1, 3, 1)], 16),
    ("Squeeze", "Y = Squeeze<axes = [0]>(X)", [(1, 3, 1)], 11),
    ("Sub", "Y = Sub(X0, X1)", [(2, 3), (2, 3)], 16),
    ("Transpose", "Y = Transpose(X)", [(2, 3, 4)], 16),
    ("Transpose", "Y = Transpose<perm = [1, 2, 0]>(X)", [(2, 3, 4)], 16),
    ("Unsqueeze", "a = Constant<value_ints = [0, -1]>() Y = Unsqueeze(X, a)", [(2, 3)], 16),
    ("Unsqueeze", "Y = Unsqueeze<axes = [1, 2]>(X)", [(2, 3)], 11),
    ("Where", "c = Cast<to = 9>(X0) Y = Where(c, X1, X2)", [(2, 1, 1), (4, 3), (1,)], 16),
]  # fmt: skip
IDS = [re.sub(r"\W+", " ", text) for _, text, _, _ in CASES]

NOTHING = [
    "Y = ArgMax<axis = 3>(X)",
    "Y = ArgMax<axis = -4>(X)",
    'Y = ArgMax<axis = "0">(X)',
    *(f"Y = ArgMax<keepdims = {kept}>(X)" for kept in ("[1]", "2", "-1")),
    "Y = ArgMax(nobody)",
    "s = Constant<value_ints = [1, 2, 3, 4]>() x = Reshape(X, s) Y = SpaceToDepth<blocksize = 0>(x)",
    "Y = SpaceToDepth<blocksize = 1>(X)",
    "s = Constant<value = float[3] {1.0, inf, 1.0}>() Y = Resize(X, , s)",
    *(
        f"s = Constant<value_ints = [2, 3, {size}]>() Y = Resize{attributes}(X, , , s)"
        for size, attributes in ((-4, ""), (7, "<axes = [0, 1, 2]>"), (7, '<keep_aspect_ratio_policy = "not_larger">'))
    ),
    "s = Constant<value_ints = [2, 3]>() Y = Resize(X, , , s)",
    "Y = ArgMax()",
    *(f"Y = Flatten<axis = {axis}>(X)" for axis in ("-4", "4", '"1"')),
    "Y = Flatten(nobody)",
    "Y = Flatten()",
    *(f"Y = {op_type}()" for op_type in ("Relu", "Reshape", "Squeeze", "Unsqueeze", "Mul", "Concat", "Transpose")),
    *(f"Y = {op_type}()" for op_type in ("Shape", "ConstantOfShape", "Expand", "Slice", "Gather", "GatherElements")),
    "Y = MaxPool<kernel_shape = [2]>()",
    "Y = Constant()",
    "Y = Reshape(X)",
    "s = Constant<value_ints = [2, -1, -1]>() Y = Reshape(nobody, s)",
    "s = Constant<value_ints = [-2, 12]>() Y = Reshape(X, s)",
    "s = Constant<value_ints = [-1, -2]>() Y = Reshape(X, s)",
    "s = Constant<value_floats = [2.0, 12.0]>() Y = Reshape(X, s)",
    "s = Constant<value = int64[2,1] {2, 12}>() Y = Reshape(X, s)",
    "a = Constant<value_ints = [0, 7]>() Y = Squeeze(X, a)",
    *(f"a = Constant<value_ints = [{axis}]>() Y = Squeeze(X, a)" for axis in (-4, 3)),
    "a = Constant<value_ints = [0]>() Y = Squeeze(nobody, a)",
    *(f"a = Constant<value_ints = [{axis}]>() Y = Unsqueeze(X, a)" for axis in (-5, 4)),
    "a = Constant<value_ints = [1, -4]>() Y = Unsqueeze(X, a)",
    "a = Constant<value_ints = [0]>() Y = Unsqueeze(nobody, a)",
    "Y = Unsqueeze(X)",
    "Y = Unsqueeze(X, nobody)",
    "Y = Gather(X, nobody)",
    "i = Constant<value_ints = [0]>() Y = Gather(nobody, i)",
    "i = Constant<value_ints = [0]>() Y = Gather<axis = -4>(X, i)",
    'i = Constant<value_ints = [0]>() Y = Gather<axis = "0">(X, i)',
    "Y = GatherElements(X, nobody)",
    "Y = Concat(X, X)",
    "Y = Concat<axis = 0>()",
    "Y = Concat<axis = -4>(X, X)",
    'Y = Concat<axis = "0">(X, X)',
    "Y = Concat<axis = 0>(nobody, X)",
    "Y = Transpose(nobody)",
    "Y = Transpose<perm = [0, 1, 3]>(X)",
    "Y = Transpose<perm = [0, 1, -1]>(X)",
    "Y = Transpose<perm = [0, 1, 2, 2]>(X)",
    "Y = Mul(nobody, X)",
    "Y = Mul(, X)",
    "z = Constant<value = float[3,3,4] {0}>() Y = Mul(X, z)",
    "z = Constant<value_floats = [1.0, 2.0]>() Y = Mul(X, z)",
    "a = Constant<value_ints = [-1]>() Y = Expand(X, a)",
    "a = Constant<value_ints = [4]>() Y = Expand(nobody, a)",
    "Y = Slice(X)",
    "s = Constant<value_ints = [0]>() Y = Slice(X, s)",
    "s = Constant<value_ints = [0]>() Y = Slice(X, s, nobody)",
    "s = Constant<value_ints = [0]>() Y = Slice(X, nobody, s)",
    "s = Constant<value_ints = [0]>() Y = Slice(nobody, s, s)",
    "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() a = Constant<value_ints = [-4]>() "
    "Y = Slice(X, s, e, a)",
    "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() a = Constant<value_ints = [3]>() "
    "Y = Slice(X, s, e, a)",
    "s = Constant<value_ints = [0, 0]>() a = Constant<value_ints = [0, 3]>() Y = Slice(X, s, s, a)",
    "s = Constant<value_ints = [0, 0]>() t = Constant<value_ints = [1]>() Y = Slice(X, s, s, , t)",
    "s = Constant<value_ints = [0, 0]>() a = Constant<value_ints = [0]>() Y = Slice(X, s, s, a)",
    "s = Constant<value_ints = [0, 0]>() t = Constant<value_ints = [1, 0]>() Y = Slice(X, s, s, , t)",
    "s = Constant<value_ints = [2, -1, -1]>() Y = Reshape(X, s)",
    "s = Shape(nobody) Y = Reshape(X, s)",
    "Y = Squeeze(nobody)",
    "a = Constant<value_ints = [7]>() Y = Squeeze(X, a)",
    "a = Constant<value_ints = [0, 0]>() Y = Unsqueeze(X, a)",
    "a = Constant<value_ints = [7]>() Y = Unsqueeze(X, a)",
    "a = Constant<value_ints = [2]>() Y = Expand(X, a)",
    "Y = Expand(X, nobody)",
    "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1, 2]>() Y = Slice(X, s, e)",
    "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() a = Constant<value_ints = [9]>() "
    "Y = Slice(X, s, e, a)",
    "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() a = Shape(nobody) Y = Slice(X, s, e, a)",
    "i = Constant<value_ints = [0]>() Y = Gather<axis = 3>(X, i)",
    "Y = Concat<axis = 3>(X, X)",
    "Y = Concat<axis = 0>(X, nobody)",
    "z = Constant<value = float[2] {0, 0}>() Y = Concat<axis = 0>(X, z)",
    "Y = Transpose<perm = [0, 0, 1]>(X)",
    "Y = Transpose<perm = [0, 1]>(X)",
    "Y = Transpose<perm = 1>(X)",
    "s = Constant<value_ints = [-2, 1]>() Y = ConstantOfShape(s)",
    "Y = Mul(X, nobody)",
    "Y = MaxPool<kernel_shape = [2, 2]>(X)",
    "Y = MaxPool<strides = [2]>(X)",
    "Y = MaxPool<kernel_shape = [2]>(nobody)",
    ", Y = MaxPool<kernel_shape = [2, 2]>(X)",
    "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() Y = Slice(X, s, e, s, s)",
    "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() t = Shape(nobody) Y = Slice(X, s, e, s, t)",
    "Y = other.Relu(X)",
]


@pytest.fixture(autouse=True)
def _without_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a rule does not tell stays unknown."""
    without_inference(monkeypatch)


def model_of(nodes: str, shapes: list[tuple[object, ...]], opset: int) -> onnx.ModelProto:
    names = ["X"] if len(shapes) == 1 else [f"X{number}" for number in range(len(shapes))]
    sizes = ["[" + ",".join(map(str, shape)) + "]" if shape else "" for shape in shapes]
    inputs = ", ".join(f"float{size} {name}" for name, size in zip(names, sizes, strict=True))
    return parse(f"g ({inputs}) => (Y) {{ {nodes} }}", opset=opset)


def derived_shape(model: onnx.ModelProto) -> Shape | None:
    facts, value = main_value(model, "Y")
    return facts.shape(value)


def actual_shape(model: onnx.ModelProto, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    feeds = {value.name: np.ones(shape, np.float32) for value, shape in zip(model.graph.input, shapes, strict=True)}
    return run_reference(model, feeds)["Y"].shape


def test_every_rule_has_a_case() -> None:
    assert {op_type for op_type, *_ in CASES} == {"Constant", *SHAPE_RULES}


@pytest.mark.parametrize(("op_type", "nodes", "shapes", "opset"), CASES, ids=IDS)
def test_static(op_type: str, nodes: str, shapes: list[tuple[int, ...]], opset: int) -> None:
    assert op_type in nodes
    model = model_of(nodes, shapes, opset)
    shape = derived_shape(model)
    assert shape is not None
    assert tuple(dim.static for dim in shape) == actual_shape(model, shapes)


@pytest.mark.parametrize(("op_type", "nodes", "shapes", "opset"), CASES, ids=IDS)
def test_symbolic(op_type: str, nodes: str, shapes: list[tuple[int, ...]], opset: int) -> None:
    """A size above 1 is a symbol (equal sizes the same one); what is then known holds for the sizes behind it."""
    assert op_type in nodes
    names = [tuple(f"s{size}" if size > 1 else size for size in shape) for shape in shapes]
    shape = derived_shape(model_of(nodes, names, opset))
    actual = actual_shape(model_of(nodes, shapes, opset), shapes)
    if shape is None:
        return
    assert len(shape) == len(actual)
    for dim, extent in zip(shape, actual, strict=True):
        values = [int(symbol[1:]) for symbol in dim.symbols if not is_opaque(dim)]
        assert is_opaque(dim) or dim.coefficient * math.prod(values) == extent


def test_a_top_k_of_an_unknown_number_keeps_the_other_axes() -> None:
    shape = derived_shape(parse("g (float[N,3,5] X, int64[1] k) => (Y) { Y, i = TopK<axis = 1>(X, k) }"))
    assert shape is not None
    assert (shape[0], shape[2], is_opaque(shape[1])) == (Dim(1, ("N",)), Dim(5), True)


def test_a_slice_with_unknown_bounds_keeps_the_other_axes() -> None:
    nodes = "a = Constant<value_ints = [-1]>() Y = Slice(X, s, s, a)"
    shape = derived_shape(parse(f"g (float[N,3,5] X, int64[1] s) => (Y) {{ {nodes} }}"))
    assert shape is not None
    assert (shape[:2], is_opaque(shape[2])) == ((Dim(1, ("N",)), Dim(3)), True)


@pytest.mark.parametrize(("start", "step", "is_whole"), [(-1, -1, True), (-2, -1, False), (-1, -2, False)])
def test_a_slice_from_the_last_element_to_the_first(start: int, step: int, is_whole: bool) -> None:
    bounds = {"s": start, "e": -(2**63), "a": 0, "t": step}
    constants = " ".join(f"{name} = Constant<value_ints = [{value}]>()" for name, value in bounds.items())
    shape = derived_shape(parse(f"g (float[N,3] X) => (Y) {{ {constants} Y = Slice(X, s, e, a, t) }}"))
    assert shape is not None
    assert (shape[0] == Dim(1, ("N",)), shape[1]) == (is_whole, Dim(3))


WINDOWS = list(itertools.product((1, 2, 3), (1, 2, 3), (0, 1), (0, 1, 2), (1, 2)))


@pytest.mark.parametrize("ceil", [0, 1])
def test_pooled_multiples(ceil: int) -> None:
    """A size of n is a multiple of n if that holds for all n; the formula of windows counts them."""
    found = set[int]()
    for window, factor in itertools.product(itertools.starmap(AxisWindow, WINDOWS), (1, 2, 3, 6)):
        [dim] = pooled_sizes(PoolAttributes.of([window], ceil=bool(ceil)), (Dim(factor, ("n",)),))
        counts = [window.output_size(factor * n, ceil=bool(ceil)) for n in range(6, 40)]
        multiples = {count / n for count, n in zip(counts, range(6, 40), strict=True)}
        if dim is not None:
            assert multiples == {dim.coefficient}, (window, factor)
        elif not ceil:  # with ceil_mode, a window in the padding may be one less
            assert len(multiples) > 1, (window, factor)
        found |= {dim.coefficient} if dim else set()
    assert found == {1, 2, 3, 6}


def test_multiples_of_transposed_convolutions() -> None:
    known = 0
    for (kernel, stride, begin, end, dilation), more in itertools.product(WINDOWS, (0, 1)):
        attributes = f"kernel_shape = [{kernel}], strides = [{stride}], pads = [{begin}, {end}], group = 2"
        attributes += f", dilations = [{dilation}], output_padding = [{more}]"
        nodes = f"Y = ConvTranspose<{attributes}>(X, W)"
        model = parse(f"g (float[1,2,10] X, float[2,3,{kernel}] W) => (float[a,b,c] Y) {{ {nodes} }}")
        inferred = onnx.shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape.dim
        model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "2*n"
        del model.graph.output[0].type.tensor_type.shape.dim[:]
        symbolic = derived_shape(model)
        assert symbolic is not None
        assert symbolic[1].static == inferred[1].dim_value == 6
        if not is_opaque(symbolic[2]):
            known += 1
            assert symbolic[2] == Dim(inferred[2].dim_value // 5, ("n",))
            assert inferred[2].dim_value % 5 == 0
    assert known > len(WINDOWS) // 10


@pytest.mark.parametrize("nodes", NOTHING)
def test_nothing_is_known(nodes: str) -> None:
    assert derived_shape(parse(f"g (float[2,3,4] X) => (Y) {{ {nodes} }}", imports='"other": 1')) is None


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ("Y = Slice(X, s, e, a)", {2: (0, 1), 0: (1, 2)}),
        ("Y = Slice(X, s, e, a, s)", None),
        ("Y = Slice(X, s, e, a, e)", None),
        ("Y = Slice(X, s, e)", {0: (0, 1), 1: (1, 2)}),
        ("t = Constant<value_ints = [1, 1]>() Y = Slice(X, s, e, , t)", {0: (0, 1), 1: (1, 2)}),
        ("t = Constant<value_ints = [1, -1]>() Y = Slice(X, s, e, , t)", None),
        ("Y = Slice(X, nobody, e, a)", None),
    ],
)
def test_bounds_of_steps_of_one(bounds: str, expected: dict[int, tuple[int, int]] | None) -> None:
    nodes = """s = Constant<value_ints = [0, 1]>() e = Constant<value_ints = [1, 2]>()
        a = Constant<value_ints = [-1, 0]>()"""
    facts, value = main_value(parse(f"g (float[3,4,5] X) => (Y) {{ {nodes} {bounds} }}"), "Y")
    assert value.producer is not None
    assert slice_bounds(facts, value.producer, 3) == expected


@pytest.mark.parametrize("opset", [9, 16])
def test_slice_bounds(opset: int) -> None:
    nodes = (
        "Y = Slice<starts = [0, 1], ends = [1, 2], axes = [-1, 0]>(X)"
        if opset < 10
        else "s = Constant<value_ints = [0, 1]>() e = Constant<value_ints = [1, 2]>() "
        "a = Constant<value_ints = [-1, 0]>() Y = Slice(X, s, e, a)"
    )
    facts, value = main_value(parse(f"g (float[3,4,5] X) => (Y) {{ {nodes} }}", opset=opset), "Y")
    assert value.producer is not None
    assert slice_bounds(facts, value.producer, 3) == {2: (0, 1), 0: (1, 2)}
