# SPDX-License-Identifier: Apache-2.0

"""The operators of training runtimes: their operands, and the shapes and element types of their results.

`standard` writes the operators of this table in ONNX, under these names; a test holds its bodies against these rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from onnx import TensorProto

from poolgrad_lowering.model.facts import shape_rules
from poolgrad_lowering.model.facts.aten_pools import pool_shape
from poolgrad_lowering.model.facts.known import (
    Known,
    axis_in,
    by_rule,
    is_opaque,
    need,
    opaque,
    require,
    sizes_in,
    static_integers,
)
from poolgrad_lowering.model.ir.attributes import attribute, integer
from poolgrad_lowering.model.ir.dims import Dim, Shape, differ, size
from poolgrad_lowering.model.ir.producers import ATEN_DOMAIN, ATEN_GENERIC, aten_name
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import PoolAttributes

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators."""

Rule = Callable[[Known, Node, Value], Shape | None]
"""Computes the shape of a result."""


class TrainingOperator(NamedTuple):
    """A row of the table.

    `inputs` and `outputs` are the names of its operands, in order; the last name stands for all further operands too if
    it ends with `*`. `shapes` has for each output the position of the input whose shape it has, or a rule; `types` the
    position of the input whose element type it has, or the type. The last one is that of all further outputs.
    """

    inputs: str
    outputs: str
    shapes: tuple[int | Rule, ...]
    types: tuple[tuple[int | None, int | None], ...]


def training_shape(known: Known, node: Node, value: Value) -> Shape | None:
    """Return the shape of a result of a training runtime's operator, or None."""
    rules: Sequence[int | Rule] = _operator(node).shapes
    if aten_name(node) is not None:
        rules = (lambda known, node, _: pool_shape(known, node),)
    if not rules:
        return None
    rule = rules[min(node.outputs.index(value), len(rules) - 1)]
    shape = known.shape(node.input(rule)) if isinstance(rule, int) else by_rule(rule, known, node, value)
    return None if shape is None or any(dim.coefficient < 0 for dim in shape) else shape


def _operator(node: Node) -> TrainingOperator:
    """Return the row of a node; an empty one for a node that takes an attribute from the caller of its function."""
    if any(stored.ref_attr_name for stored in node.attributes.values()):
        return _UNKNOWN
    return TRAINING_OPERATORS.get(node.op, _UNKNOWN)


def sources_of_training_shape(node: Node) -> Sequence[Value | None]:
    """Return the inputs from whose shapes those of the node's results follow, apart from sizes of less importance."""
    if aten_name(node) is not None:
        return node.inputs
    rules = _operator(node).shapes
    positions = [rule for rule in rules if isinstance(rule, int)]
    return [node.input(position) for position in positions] if positions or not rules else node.inputs


def training_type(node: Node, value: Value) -> tuple[Value | None, int | None]:
    """Return the element type of a result: the input that has it, or its `TensorProto.DataType`; None if unknown."""
    operator = _operator(node)
    if not operator.shapes:
        return None, None
    if stated := integer(node, "output_type", 0) if node.op[1].startswith("SoftmaxCrossEntropyLoss") else 0:
        return None, stated
    position, number = operator.types[min(node.outputs.index(value), len(operator.types) - 1)]
    return None if position is None else node.input(position), number


def named(derived: Shape | None, declared: Shape | None) -> Shape | None:
    """Return a derived shape with what the model declares in the place of sizes that nothing tells.

    Where the declared shape contradicts, the node is not what its name says, and the declared one holds.
    """
    if derived is None or declared is None:
        return declared if derived is None else derived
    if differ(declared, derived):
        return declared
    return tuple(claim if is_opaque(dim) else dim for dim, claim in zip(derived, declared, strict=True))


def forward_pools(known: Known, node: Node) -> list[Node]:
    """Return the pools that a gradient can be that of, all over inputs of one shape; empty if it is not known.

    They are the one that the gradient is named after, or those before it in its graph with its attributes whose output
    has not another shape than its dY.
    """
    own, shape = _windows_of(node), known.shape(node.input(0))
    pools = []
    for position in node.scope.by_op.get(("", "AveragePool"), ()):
        pool = node.scope.node(position)
        made = known.shape(pool.output(0))
        is_other = shape is not None and made is not None and differ(shape, made)
        if position < node.position and pool.input(0) is not None and _windows_of(pool) == own and not is_other:
            pools.append(pool)
    named = [pool for pool in pools if pool.proto.name and node.proto.name.startswith(f"{pool.proto.name}_Grad/")]
    chosen = named if len(named) == 1 else pools
    inputs = {x for pool in chosen if (x := pool.input(0)) is not None}
    shapes = {known.shape(x) for x in inputs}
    return chosen if len(inputs) == 1 or (len(shapes) == 1 and None not in shapes) else []


def _windows_of(node: Node) -> tuple[object, ...]:
    return PoolAttributes.read(node), integer(node, "count_include_pad", 0)


# -- rules


def _sizes_in(position: int) -> Rule:
    """The shape is the elements of an input."""
    return lambda known, node, value: sizes_in(known, node.input(position), value)


def _axis_of(position: int, axis: int) -> Rule:
    """A vector with as many elements as an axis of an input."""

    def rule(known: Known, node: Node, _: Value) -> Shape:
        shape = need(known.shape(node.input(position)))
        require(axis < len(shape))
        return (shape[axis],)

    return rule


def _transposed_bias(known: Known, node: Node, _: Value) -> Shape:
    weight, groups = need(known.shape(node.input(2))), need(integer(node, "group", 1))
    require(len(weight) >= 2)
    return (size((weight[1], Dim(groups))),)


def _conv(known: Known, node: Node, value: Value) -> Shape:
    x, weight = need(known.shape(node.input(0))), need(known.shape(node.input(1)))
    kernel = [dim.static for dim in weight[2:]]
    stated = None if None in kernel else [extent for extent in kernel if extent is not None]
    pool = need(PoolAttributes.read(node, stated))
    require(len(x) == len(weight) == 2 + len(pool.kernel))
    return (x[0], weight[0], *shape_rules.pooled_shape(value, pool, x))


def _gemm(known: Known, node: Node, _: Value) -> Shape:
    left, right = need(known.shape(node.input(0))), need(known.shape(node.input(1)))
    require(len(left) == len(right) == 2)
    return (left[1 if integer(node, "transA", 0) else 0], right[0 if integer(node, "transB", 0) else 1])


def _matmul(known: Known, node: Node, value: Value) -> Shape:
    """As MatMul, of operands whose axes are exchanged; vectors are matrices of one row or column, which goes."""
    left, right = (_matrix(need(known.shape(node.input(number))), node, name) for number, name in enumerate("AB"))
    require(bool(left and right))
    batch = need(shape_rules.common_shape(value, left[:-2], right[:-2]))
    return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


def _matrix(shape: Shape, node: Node, name: str) -> Shape:
    if len(shape) < 2:
        return shape
    dims = list(shape)
    if integer(node, f"transBatch{name}", 0):
        dims = [*dims[1:-1], dims[0], dims[-1]]
    if integer(node, f"trans{name}", 0):
        dims[-2:] = dims[-1], dims[-2]
    return tuple(dims)


def _statistics(known: Known, node: Node, _: Value) -> Shape:
    """One number for all axes of a layer."""
    x = need(known.shape(node.input(0)))
    axis = axis_in(node, len(x), -1)
    return tuple(dim if number < axis else Dim(1) for number, dim in enumerate(x))


def _reduced(known: Known, node: Node, _: Value) -> Shape:
    x, axes = need(known.shape(node.input(0))), need(static_integers(known, node, 1))
    keep = integer(node, "keepdims", 1)
    require(all(-len(x) <= axis < len(x) for axis in axes))
    if not axes:
        axes = [] if integer(node, "noop_with_empty_axes", 0) else list(range(len(x)))
    gone = {axis % len(x) for axis in axes}
    return tuple(Dim(1) if axis in gone else dim for axis, dim in enumerate(x) if keep or axis not in gone)


def _unpadded(known: Known, node: Node, _: Value) -> Shape:
    x, places = need(known.shape(node.input(0))), need(known.shape(node.input(1)))
    return (*places, *x[2:])


def _padded(known: Known, node: Node, value: Value) -> Shape:
    x, first = need(known.shape(node.input(0))), known.integers(node.input(2))
    if first is None:
        first = tuple(map(partial(opaque, value), range(2)))
    return (*first, *x[1:])


def _loss(known: Known, node: Node, _: Value) -> Shape | None:
    return known.shape(node.input(1)) if attribute(node, "reduction") == "none" else ()


def _recurrent(axes: str) -> Rule:
    """The results of an LSTM or a GRU by their axes: the steps S, the batch N, directions D, a state H, all gates G."""

    def rule(known: Known, node: Node, _: Value) -> Shape:
        x, recurrence = need(known.shape(node.input(0))), need(known.shape(node.input(2)))
        require(len(x) == len(recurrence) == 3)
        sizes = {"S": x[0], "N": x[1], "H": recurrence[2], "G": recurrence[1], "D": recurrence[0]}
        return tuple(sizes[axis] for axis in axes)

    return rule


def _bias_of_gates(known: Known, node: Node, _: Value) -> Shape:
    recurrence = need(known.shape(node.input(2)))
    require(len(recurrence) == 3)
    return (recurrence[0], size((Dim(2), recurrence[1])))


def _average_pooled(known: Known, node: Node, _: Value) -> Shape | None:
    pools = forward_pools(known, node)
    return known.shape(pools[0].input(0)) if pools else None


def _max_pooled(known: Known, node: Node, _: Value) -> Shape | None:
    """Of onnxruntime's MaxPoolGrad(dY, Indices); other runtimes' first operand is x."""
    indices = node.input(1)
    pool = None if indices is None or len(node.inputs) != 2 else indices.producer
    return known.shape(pool.input(0)) if pool is not None and pool.is_a("MaxPool") else None


# -- the table


def _row(inputs: str, outputs: str, shapes: str | Sequence[str | Rule], types: str = "") -> TrainingOperator:
    """Return a row from names of inputs and of types; without `types`, results have the type of the first input."""
    names = inputs.rstrip("*").split()
    rules = shapes.split() if isinstance(shapes, str) else shapes
    of_results = tuple(names.index(rule) if isinstance(rule, str) else rule for rule in rules)
    elements = tuple(
        (names.index(name), None) if name in names else (None, TensorProto.DataType.Value(name))
        for name in types.split() or names[:1]
    )
    return TrainingOperator(inputs, outputs, of_results, elements)


_UNKNOWN = TrainingOperator("", "", (), ())
INFERRED = ()
"""The shapes of an operator that ONNX's inference knows, or `aten_pools`."""

_OF_ONNXRUNTIME = {
    "BatchNormInternal": _row(
        "X scale B mean var",
        "Y running_mean running_var saved_mean saved_inv_std",
        ("X", "mean", "var", _axis_of(0, 1)),
        "X mean var mean var",
    ),
    "BatchNormalizationGrad": _row("dY X scale mean inv_std", "dX dscale dB", "X scale scale", "dY scale"),
    "BiasFastGeluGrad_dX BiasGeluGrad_dX": _row("dY X B", "dX", "X"),
    "BiasGelu FastGelu": _row("X B", "Y", "X"),
    "BroadcastGradientArgs": _row("a b", "axes_a axes_b", (lambda _, __, value: (opaque(value, 0),),)),
    "ConcatTraining": _row(
        "X*", "Y lengths", (shape_rules.concatenated, lambda _, node, __: (Dim(len(node.inputs)),)), "X INT64"
    ),
    "ConvGrad": _row("dY X W", "dX dW dB", ("X", "W", _axis_of(2, 0))),
    "ConvTransposeGrad": _row("dY X W", "dX dW dB", ("X", "W", _transposed_bias)),
    "DivGrad": _row("dY A B", "dA dB", "A B"),
    "DropoutGrad": _row("dY mask ratio training_mode", "dX", "mask"),
    "FakeQuantGrad": _row("dY mask", "dX", "mask"),
    "FastGeluGrad GeluGrad QuickGeluGrad": _row("dY X", "dX", "X"),
    "FlattenAndUnpad": _row("X indices", "Y unflatten_dims", (_unpadded, lambda *_: (Dim(2),)), "X INT64"),
    "FusedConv": _row("X W B Z", "Y", (_conv,)),
    "FusedGemm": _row("A B C", "Y", (_gemm,)),
    "FusedMatMul": _row("A B", "Y", (_matmul,)),
    "GatherElementsGrad": _row("dY shape indices", "dX", (_sizes_in(1),)),
    "GatherGrad GatherNDGrad": _row("shape indices dY", "dX", (_sizes_in(0),), "dY"),
    "Gelu QuickGelu": _row("X", "Y", "X"),
    "GRUGrad": _row(
        "X W R B sequence_lengths H0 HAll gates dHAll dHFinal",
        "dX dW dR dB dH0",
        ("X", "W", "R", _bias_of_gates, _recurrent("DNH")),
    ),
    "GRUTraining": _row(
        "X W R B sequence_lengths H0", "HAll HFinal gates", tuple(map(_recurrent, ("SDNH", "DNH", "SDNG")))
    ),
    # The definition has the new buffer in the place of the flag that the operator returns first.
    "InPlaceAccumulatorV2": _row("buffer value reset", "new_buffer", (lambda *_: (Dim(1),), "buffer"), "BOOL buffer"),
    "InvertibleLayerNormalizationGrad": _row("dY Y scale B inv_std", "dX dscale dB", "Y scale scale", "dY scale"),
    "LayerNormalizationGrad": _row("dY X scale mean inv_std", "dX dscale dB", "X scale scale", "dY scale"),
    "LeakyReluGrad LogSoftmaxGrad LogSoftmaxGrad_13 ReluGrad SigmoidGrad SoftmaxGrad SoftmaxGrad_13 TanhGrad": _row(
        "dY Y", "dX", "Y"
    ),
    "LSTMGrad": _row(
        "X W R sequence_lengths H0 C0 HAll CAll gates dHAll dHFinal dCFinal",
        "dX dW dR dB dH0 dC0",
        ("X", "W", "R", _bias_of_gates, *map(_recurrent, ("DNH", "DNH"))),
    ),
    "LSTMTraining": _row(
        "X W R B sequence_lengths H0 C0 P",
        "HAll HFinal CFinal CAll gates",
        tuple(map(_recurrent, ("SDNH", "DNH", "DNH", "SDNH", "SDNG"))),
    ),
    "PadAndUnflatten": _row("X indices unflatten_dims", "Y", (_padded,)),
    "ReduceAllL2": _row("X*", "Y", (lambda *_: (),), "FLOAT"),
    "ReduceSumTraining": _row("X axes", "Y", (_reduced,)),
    "ResizeGrad": _row("dY X roi scales", "dX", "X"),
    "Scale": _row("X scale", "Y", "X"),
    "ScaledSum": _row("X*", "Y", (shape_rules.broadcast,)),
    "ShrunkenGather": _row("X indices", "Y", (shape_rules.gathered,)),
    "SimplifiedLayerNormalizationGrad": _row("dY X scale inv_std", "dX dscale", "X scale", "dY scale"),
    "SliceGrad": _row("dY shape starts ends axes steps", "dX", (_sizes_in(1),)),
    "SoftmaxCrossEntropyLossGrad": _row("dY log_prob label weight bias", "dX", "log_prob", "log_prob"),
    "SoftmaxCrossEntropyLossInternal": _row("X label weight ignore_index", "Y log_prob", (_loss, "X")),
    "SoftmaxCrossEntropyLossInternalGrad": _row(
        "dY log_prob label weight ignore_index bias", "dX", "log_prob", "log_prob"
    ),
    "SplitTraining": _row("X split", "Y*", (shape_rules.split,)),
    "Trilu": _row("X k", "Y", "X"),
}
"""Rows by the names of their operators."""

TRAINING_OPERATORS: Mapping[tuple[str, str], TrainingOperator] = MappingProxyType(
    {
        **{(MICROSOFT, name): row for names, row in _OF_ONNXRUNTIME.items() for name in names.split()},
        ("", "AveragePoolGrad"): _row("dY", "dX", (_average_pooled,)),
        ("", "Conv2DBackpropFilter"): _row("x filter_sizes dY", "dW", (_sizes_in(1),)),
        ("", "Conv2DBackpropInput"): _row("input_sizes filter dY", "dX", (_sizes_in(0),), "dY"),
        ("", "LayerNormalization"): _row("X scale B", "Y mean inv_std", INFERRED),
        ("", "MaxPoolGrad"): _row("dY Indices", "dX", (_max_pooled,)),
        ("", "ReluGrad"): _row("dY Y", "dX", "Y"),
        ("", "SimplifiedLayerNormalization"): _row("X scale", "Y inv_std", ("X", _statistics), "X FLOAT"),
        ("", "SoftmaxCrossEntropyLoss"): _row("X label weight", "Y log_prob", INFERRED),
        (ATEN_DOMAIN, ATEN_GENERIC): _row("a*", "r*", INFERRED),
    }
)
"""The operators by domain and operator.

Of a gradient the shape is that of an operand of the forward pass, which follows from fewer nodes than that of dY.
"""
