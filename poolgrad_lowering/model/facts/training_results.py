# SPDX-License-Identifier: Apache-2.0

"""The shapes and element types of the results of training runtimes' operators, which ONNX does not define.

`standard` writes these operators in ONNX; a test holds what its bodies give against these rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from onnx import TensorProto

from poolgrad_lowering.model.facts.aten_pools import pool_shape
from poolgrad_lowering.model.facts.average_pools import forward_pools
from poolgrad_lowering.model.facts.shape_rules import (
    Known,
    broadcast,
    common_shape,
    concatenated,
    gathered,
    is_opaque,
    opaque,
    pooled_shape,
    sizes_in,
    static_integers,
)
from poolgrad_lowering.model.ir.attributes import attribute, integer
from poolgrad_lowering.model.ir.dims import Dim, Shape, differ, size
from poolgrad_lowering.model.ir.producers import aten_name
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import PoolAttributes

Rule = Callable[[Known, Node, Value], Shape | None]


def training_shape(known: Known, node: Node, value: Value) -> Shape | None:
    """Return the shape of a result of a training runtime's operator, or None."""
    rows: Sequence[int | Rule] = (_aten_pool,) if aten_name(node) is not None else _rows(node)
    if not rows:
        return None
    rule = rows[min(node.outputs.index(value), len(rows) - 1)]
    shape = known.shape(node.input(rule)) if isinstance(rule, int) else rule(known, node, value)
    return None if shape is None or any(dim.coefficient < 0 for dim in shape) else shape


def _rows(node: Node) -> tuple[int | Rule, ...]:
    """Return the rules of a node's outputs; none for a node that takes an attribute from the caller of its function."""
    if any(stored.ref_attr_name for stored in node.attributes.values()):
        return ()
    return RESULT_SHAPES.get(node.op, ())


def sources_of_training_shape(node: Node) -> Sequence[Value | None]:
    """Return the inputs from whose shapes those of the node's results follow, apart from sizes of less importance."""
    if aten_name(node) is not None:
        return node.inputs
    rows = _rows(node)
    positions = [rule for rule in rows if isinstance(rule, int)]
    return [node.input(position) for position in positions] if positions or not rows else node.inputs


def training_type(node: Node, value: Value) -> tuple[Value | None, int | None]:
    """Return the element type of a result: the input that has it, or its `TensorProto.DataType`; None if unknown."""
    if not _rows(node):
        return None, None
    if stated := integer(node, "output_type", 0) if node.op[1].startswith("SoftmaxCrossEntropyLoss") else 0:
        return None, stated
    rows = _TYPES.get(node.op[1], (0,))
    row = rows[min(node.outputs.index(value), len(rows) - 1)]
    return (node.input(row), None) if isinstance(row, int) else (None, row.number)


def named(derived: Shape | None, declared: Shape | None) -> Shape | None:
    """Return a derived shape with what the model declares in the place of sizes that nothing tells.

    Where the declared shape contradicts, the node is not what its name says, and the declared one holds.
    """
    if derived is None or declared is None:
        return declared if derived is None else derived
    if differ(declared, derived):
        return declared
    return tuple(claim if is_opaque(dim) else dim for dim, claim in zip(derived, declared, strict=True))


# -- rules


def _sizes_in(position: int) -> Rule:
    """The shape is the elements of an input."""
    return lambda known, node, value: sizes_in(known, node.input(position), value)


def _axis_of(position: int, axis: int) -> Rule:
    """A vector with as many elements as an axis of an input."""

    def rule(known: Known, node: Node, _: Value) -> Shape | None:
        shape = known.shape(node.input(position))
        return None if shape is None or axis >= len(shape) else (shape[axis],)

    return rule


def _vector(_: Known, __: Node, value: Value) -> Shape:
    return (opaque(value, 0),)


def _scalar(_: Known, __: Node, ___: Value) -> Shape:
    return ()


def _one_per_input(_: Known, node: Node, __: Value) -> Shape:
    return (Dim(len(node.inputs)),)


def _transposed_bias(known: Known, node: Node, _: Value) -> Shape | None:
    weight, groups = known.shape(node.input(2)), integer(node, "group", 1)
    return None if weight is None or len(weight) < 2 or groups is None else (size((weight[1], Dim(groups))),)


def _conv(known: Known, node: Node, value: Value) -> Shape | None:
    x, weight = known.shape(node.input(0)), known.shape(node.input(1))
    if x is None or weight is None:
        return None
    kernel = [dim.static for dim in weight[2:]]
    pool = PoolAttributes.read(node, None if None in kernel else [extent for extent in kernel if extent is not None])
    if pool is None or not len(x) == len(weight) == 2 + len(pool.kernel):
        return None
    return (x[0], weight[0], *pooled_shape(value, pool, x))


def _gemm(known: Known, node: Node, _: Value) -> Shape | None:
    left, right = known.shape(node.input(0)), known.shape(node.input(1))
    if left is None or right is None or not len(left) == len(right) == 2:
        return None
    return (left[1 if integer(node, "transA", 0) else 0], right[0 if integer(node, "transB", 0) else 1])


def _matmul(known: Known, node: Node, value: Value) -> Shape | None:
    """As MatMul, of operands whose axes are exchanged; vectors are matrices of one row or column, which goes."""
    left, right = (_matrix(known.shape(node.input(number)), node, name) for number, name in enumerate("AB"))
    if not left or not right:
        return None
    batch = common_shape(value, left[:-2], right[:-2])
    return None if batch is None else (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


def _matrix(shape: Shape | None, node: Node, name: str) -> Shape | None:
    if shape is None or len(shape) < 2:
        return shape
    dims = list(shape)
    if integer(node, f"transBatch{name}", 0):
        dims = [*dims[1:-1], dims[0], dims[-1]]
    if integer(node, f"trans{name}", 0):
        dims[-2:] = dims[-1], dims[-2]
    return tuple(dims)


def _statistics(known: Known, node: Node, _: Value) -> Shape | None:
    """One number for all axes of a layer."""
    x, axis = known.shape(node.input(0)), integer(node, "axis", -1)
    if x is None or axis is None or not -len(x) <= axis < len(x):
        return None
    return tuple(dim if number < axis % len(x) else Dim(1) for number, dim in enumerate(x))


def _reduced(known: Known, node: Node, _: Value) -> Shape | None:
    x, axes, keep = known.shape(node.input(0)), static_integers(known, node, 1), integer(node, "keepdims", 1)
    if x is None or axes is None or any(not -len(x) <= axis < len(x) for axis in axes):
        return None
    if not axes:
        axes = [] if integer(node, "noop_with_empty_axes", 0) else list(range(len(x)))
    gone = {axis % len(x) for axis in axes}
    return tuple(Dim(1) if axis in gone else dim for axis, dim in enumerate(x) if keep or axis not in gone)


def _split(known: Known, node: Node, value: Value) -> Shape | None:
    x, axis, lengths = known.shape(node.input(0)), integer(node, "axis", 0), known.integers(node.input(1))
    number = node.outputs.index(value)
    if x is None or axis is None or not -len(x) <= axis < len(x):
        return None
    axis %= len(x)
    extent, count = x[axis].static, len(node.outputs)
    if lengths is not None and number < len(lengths):
        length = lengths[number]
    elif node.input(1) is None and extent is not None:
        chunk = -(-extent // count)
        length = Dim(max(min(chunk, extent - number * chunk), 0))
    else:
        length = opaque(value, axis)
    return (*x[:axis], length, *x[axis + 1 :])


def _unpadded(known: Known, node: Node, _: Value) -> Shape | None:
    x, places = known.shape(node.input(0)), known.shape(node.input(1))
    return None if x is None or places is None else (*places, *x[2:])


def _padded(known: Known, node: Node, value: Value) -> Shape | None:
    x, first = known.shape(node.input(0)), known.integers(node.input(2))
    return None if x is None else (*(first if first is not None else map(partial(opaque, value), range(2))), *x[1:])


def _loss(known: Known, node: Node, _: Value) -> Shape | None:
    return known.shape(node.input(1)) if attribute(node, "reduction") == "none" else ()


def _average_pooled(known: Known, node: Node, _: Value) -> Shape | None:
    pools = forward_pools(known, node)
    return known.shape(pools[0].input(0)) if pools else None


def _max_pooled(known: Known, node: Node, _: Value) -> Shape | None:
    """Of onnxruntime's MaxPoolGrad(dY, Indices); other runtimes' first operand is x."""
    indices = node.input(1)
    pool = None if indices is None or len(node.inputs) != 2 else indices.producer
    return known.shape(pool.input(0)) if pool is not None and pool.is_a("MaxPool") else None


def _aten_pool(known: Known, node: Node, _: Value) -> Shape | None:
    return pool_shape(known, node)


# -- the tables


class _Stated(NamedTuple):
    number: int


_INT64, _FLOAT = _Stated(TensorProto.INT64), _Stated(TensorProto.FLOAT)

_TYPES: dict[str, tuple[int | _Stated, ...]] = {
    "BatchNormInternal": (0, 3, 4, 3, 4),
    "BatchNormalizationGrad": (0, 2),
    "ConcatTraining": (0, _INT64),
    "Conv2DBackpropInput": (2,),
    "FlattenAndUnpad": (0, _INT64),
    "GatherGrad": (2,),
    "GatherNDGrad": (2,),
    "InPlaceAccumulatorV2": (_Stated(TensorProto.BOOL), 0),
    "InvertibleLayerNormalizationGrad": (0, 2),
    "LayerNormalizationGrad": (0, 2),
    "ReduceAllL2": (_FLOAT,),
    "SimplifiedLayerNormalization": (0, _FLOAT),
    "SimplifiedLayerNormalizationGrad": (0, 2),
    "SoftmaxCrossEntropyLossGrad": (1,),
    "SoftmaxCrossEntropyLossInternalGrad": (1,),
}
"""For each output the position of the input whose element type it has, or the type; the last row is that of all further
outputs. The results of other operators have the type of the first input."""

_LIKE_X = ("BiasGelu", "FastGelu", "Gelu", "QuickGelu", "Scale", "Trilu")
_LIKE_OPERAND = (
    *(
        "BiasFastGeluGrad_dX",
        "BiasGeluGrad_dX",
        "DropoutGrad",
        "FakeQuantGrad",
        "FastGeluGrad",
        "GeluGrad",
        "LeakyReluGrad",
    ),
    *("LogSoftmaxGrad", "LogSoftmaxGrad_13", "QuickGeluGrad", "ReluGrad", "ResizeGrad", "SigmoidGrad"),
    *("SoftmaxCrossEntropyLossGrad", "SoftmaxCrossEntropyLossInternalGrad", "SoftmaxGrad", "SoftmaxGrad_13"),
    "TanhGrad",
)

RESULT_SHAPES: Mapping[tuple[str, str], tuple[int | Rule, ...]] = MappingProxyType(
    {
        **{("com.microsoft", name): (0,) for name in _LIKE_X},
        **{("com.microsoft", name): (1,) for name in _LIKE_OPERAND},
        **{
            ("com.microsoft", name): rows
            for name, rows in {
                "BatchNormInternal": (0, 3, 4, _axis_of(0, 1)),
                "BatchNormalizationGrad": (1, 2, 2),
                "BroadcastGradientArgs": (_vector,),
                "ConcatTraining": (concatenated, _one_per_input),
                "ConvGrad": (1, 2, _axis_of(2, 0)),
                "ConvTransposeGrad": (1, 2, _transposed_bias),
                "DivGrad": (1, 2),
                "FlattenAndUnpad": (_unpadded, lambda *_: (Dim(2),)),
                "FusedConv": (_conv,),
                "FusedGemm": (_gemm,),
                "FusedMatMul": (_matmul,),
                "GatherElementsGrad": (_sizes_in(1),),
                "GatherGrad": (_sizes_in(0),),
                "GatherNDGrad": (_sizes_in(0),),
                "InPlaceAccumulatorV2": (lambda *_: (Dim(1),), 0),
                "InvertibleLayerNormalizationGrad": (1, 2, 2),
                "LayerNormalizationGrad": (1, 2, 2),
                "PadAndUnflatten": (_padded,),
                "ReduceAllL2": (_scalar,),
                "ReduceSumTraining": (_reduced,),
                "ScaledSum": (broadcast,),
                "ShrunkenGather": (gathered,),
                "SimplifiedLayerNormalizationGrad": (1, 2),
                "SliceGrad": (_sizes_in(1),),
                "SoftmaxCrossEntropyLossInternal": (_loss, 0),
                "SplitTraining": (_split,),
            }.items()
        },
        ("", "AveragePoolGrad"): (_average_pooled,),
        ("", "Conv2DBackpropFilter"): (_sizes_in(1),),
        ("", "Conv2DBackpropInput"): (_sizes_in(0),),
        ("", "MaxPoolGrad"): (_max_pooled,),
        ("", "ReluGrad"): (1,),
        ("", "SimplifiedLayerNormalization"): (0, _statistics),
    }
)
"""For each output of an operator the position of the input whose shape it has, or a rule; the last row is that of all
further outputs.

Of a gradient the input is an operand of the forward pass, whose shape follows from fewer nodes than that of dY.
"""
