# SPDX-License-Identifier: Apache-2.0

"""Finds what GE's ONNX parser refuses or changes in a model, node by node, before the user meets GE's own errors.

ATC and graph mode use the same parser. They differ in the nodes that reach it (`Use`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, NamedTuple

from onnx import ModelProto, NodeProto, TensorProto

from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.ge.registered import OPSETS, WITHOUT_PROTOTYPE, is_registered, is_taken
from poolgrad_lowering.ge.values import SHAPE_OPERANDS, ValueTypes, attributes_of, folded
from poolgrad_lowering.ge.window_rewrites import LARGEST_KERNEL, LARGEST_STRIDE, is_large_average, kernel_of
from poolgrad_lowering.model.diagnostics.obstacles import NodeObstacle, Obstacle
from poolgrad_lowering.model.diagnostics.text import operator_text
from poolgrad_lowering.model.ir.graphs import graphs, inputs_to_feed, is_standard, opset_of
from poolgrad_lowering.model.ir.scopes import canonical_domain
from poolgrad_lowering.model.ir.tensors import type_name

_MAX_POOL_AXES = 3
"""The spatial axes of the parser's MaxPool, at most. With fewer, the plugin makes a 2-D pool without dilation."""

_OF_WINDOWS = ("pads", "strides", "dilations")
"""The attributes of which the plugin of Conv needs one, if there is no kernel_shape."""

_LARGEST_KERNEL_3D = 511
"""Of a convolution along one axis, as CANN documents Conv3D."""

_LARGEST_RANK, _LARGEST_RANK_OF_PRODUCTS = 8, 6
"""As CANN documents most operators that have a limit, and BatchMatMulV2."""

_WITHOUT_BFLOAT16 = frozenset(
    ("Celu", "Einsum", "GlobalAveragePool", "Hardmax", "LRN", "Mean", "MeanVarianceNormalization", "Shrink", "Sum")
)
"""Operators for which CANN documents no bfloat16."""


class Use(NamedTuple):
    """Which nodes reach the parser, and how.

    `is_cut`: the graph is cut at nodes of other providers, and nodes that graph mode does not list stay out.
    `core_window`: the plugin sends 2-D pools with windows of more elements to the CPU of the device; None if it sends
    none, or the product is not known. `constants` are the values that onnxruntime computes when it makes the session:
    nodes that compute these alone stay out.
    """

    is_cut: bool
    core_window: int | None
    constants: Set[str] = frozenset()


GRAPH_MODE = Use(is_cut=True, core_window=None)


def find_obstacles(model: ModelProto, types: ValueTypes, use: Use) -> Iterator[NodeObstacle]:
    """Yield the obstacles at a model's standard nodes, in the order of its nodes; those of the model come first."""
    yield from _of_model(model, use)
    versions = {canonical_domain(entry.domain): entry.version for entry in model.opset_import}
    functions = {(function.domain, function.name) for function in model.functions}
    nodes = [node for graph in graphs(model.graph) for node in graph.node]
    joins = not use.is_cut and any("" in node.input and node.op_type != "Clip" for node in nodes)
    if use.is_cut:
        constants = folded(model.graph, types)
        nodes = [node for node in nodes if not (node.output and constants.issuperset(node.output))]
        use = use._replace(constants=constants)
    for node in nodes:
        if joins and "" in node.output:
            reason = f"its output {list(node.output).index('')} has no name"
            yield obstacle(node, Obstacle.EMPTY_NAMES, reason)
        if use.is_cut and not is_taken(node):
            continue
        for code, reason in _of_values(node, types):
            yield obstacle(node, code, reason)
        for code, reason in _of_node(node, versions, functions, types, use):
            yield obstacle(node, code, reason)


def obstacle(node: NodeProto, code: Obstacle, reason: str) -> NodeObstacle:
    """Return an obstacle at a node."""
    return NodeObstacle(node.name, operator_text(node.domain, node.op_type), code.value, reason)


def _of_model(model: ModelProto, use: Use) -> Iterator[NodeObstacle]:
    opset = opset_of(model)
    has_parts = not use.is_cut or any(is_taken(node) for node in model.graph.node)
    if opset not in OPSETS and has_parts:
        reason = f"the model imports ONNX's operators in version {opset}"
        yield NodeObstacle("", "", Obstacle.OPSET.value, reason)
    read = {name for node in model.graph.node for name in node.input} if use.is_cut else ()
    fed = inputs_to_feed(model)
    for value in fed:
        sizes = value.type.tensor_type.shape.dim
        if value.name in read and any(size.HasField("dim_value") and size.dim_value == 0 for size in sizes):
            yield NodeObstacle("", "", Obstacle.EMPTY_INPUT.value, f"its input '{value.name}' has no elements")
    if not fed and not use.is_cut:
        yield NodeObstacle("", "", Obstacle.NO_INPUT.value, "every value of the graph is constant")


def _of_node(
    node: NodeProto, versions: Mapping[str, int], functions: set[tuple[str, str]], types: ValueTypes, use: Use
) -> Iterator[tuple[Obstacle, str]]:
    domain = canonical_domain(node.domain)
    if domain == DOMAIN and node.op_type in OPS:
        return
    if (domain, node.op_type) in functions:
        yield Obstacle.FUNCTION_CALL, "it calls a function of the model"
    elif (domain or versions[domain] in OPSETS) and not is_registered(domain, node.op_type, versions[domain]):
        key = f"{domain or 'ai.onnx'}::{versions[domain]}::{node.op_type}"
        yield Obstacle.UNREGISTERED_OPERATOR, f"CANN has no plugin for {key}"
    elif is_standard(node):
        if WITHOUT_PROTOTYPE.get(node.op_type, versions[domain] + 1) <= versions[domain]:
            yield Obstacle.NO_OPEN_PROTOTYPE, f"{node.op_type} has a plugin, and its result no open prototype"
        if (check := _CHECKS.get(node.op_type)) is not None:
            yield from check(node, attributes_of(node), types, use)
        position = SHAPE_OPERANDS.get(node.op_type) if use.is_cut else None
        if position is not None and node.input[position] not in use.constants:
            yield Obstacle.SHAPE_OPERAND, f"its shape '{node.input[position]}' is computed"


def _of_values(node: NodeProto, types: ValueTypes) -> Iterator[tuple[Obstacle, str]]:
    most = _LARGEST_RANK_OF_PRODUCTS if node.op_type == "MatMul" else _LARGEST_RANK
    if is_standard(node) and (deep := [n for n in (*node.input, *node.output) if len(types.shapes.get(n, ())) > most]):
        yield Obstacle.LARGE_RANK, f"'{deep[0]}' has {types.rank(deep[0])} axes"
    if node.op_type in _WITHOUT_BFLOAT16 and types.elements.get(node.input[0]) == TensorProto.BFLOAT16:
        yield Obstacle.KERNEL_TYPE, f"'{node.input[0]}' is bfloat16"
    names = [name for name in (*node.input, *node.output) if name in types.elements]
    if unread := [name for name in names if types.elements[name] not in _READ_TYPES]:
        yield Obstacle.ELEMENT_TYPE, f"'{unread[0]}' is {type_name(types.elements[unread[0]])}"
    if double := [name for name in names if types.elements[name] == TensorProto.DOUBLE]:
        yield Obstacle.FLOAT64, f"'{double[0]}' is float64"


_READ_TYPES = frozenset(
    (
        *(TensorProto.BFLOAT16, TensorProto.BOOL, TensorProto.COMPLEX64, TensorProto.COMPLEX128, TensorProto.DOUBLE),
        *(TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.INT4),
        *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, TensorProto.STRING),
        *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
    )
)
"""The element types that GE's parser knows (its onnx_util.cc)."""

Found = Iterator[tuple[Obstacle, str]]


def _max_pool(node: NodeProto, attributes: Mapping[str, Any], types: ValueTypes, use: Use) -> Found:
    kernel, strides = list(attributes.get("kernel_shape", [])), list(attributes.get("strides", []))
    if len(node.output) > 1:
        yield Obstacle.KEPT_INDICES, f"its Indices output '{node.output[1]}' is read"
    if len(kernel) > _MAX_POOL_AXES:
        yield Obstacle.POOL_AXES, f"it pools {len(kernel)} axes"
    dilations = attributes.get("dilations", [])
    if len(kernel) < _MAX_POOL_AXES and any(number != 1 for number in dilations):
        yield Obstacle.DROPPED_DILATION, f"its dilations are {list(dilations)}"
    is_flat, core = len(kernel) < _MAX_POOL_AXES, use.core_window
    is_large = core is not None and (math.prod(kernel) > core or max(strides, default=1) > LARGEST_STRIDE)
    is_padded = attributes.get("auto_pad", b"").startswith(b"SAME") or any(attributes.get("pads", ()))
    if is_flat and is_large and (is_padded or attributes.get("ceil_mode", 0)):
        yield Obstacle.LARGE_WINDOW, f"its kernel is {kernel}, its strides are {strides or 1}"
    is_limited = not is_flat and (use.is_cut or core is not None)
    if is_limited and (math.prod(kernel) > LARGEST_KERNEL or max(strides, default=1) > LARGEST_STRIDE):
        yield Obstacle.LARGE_KERNEL, f"its kernel is {kernel}, its strides are {strides or 1}"
    if is_limited and types.elements.get(node.input[0]) == TensorProto.BFLOAT16:
        yield Obstacle.KERNEL_TYPE, f"'{node.input[0]}' is bfloat16"
    yield from _flags(node, attributes, types, use)
    yield from _same_lower(node, attributes, types, use)


def _same_lower(_: NodeProto, attributes: Mapping[str, Any], __: ValueTypes, ___: Use) -> Found:
    if attributes.get("auto_pad") == b"SAME_LOWER":
        yield Obstacle.SAME_LOWER, "its auto_pad is SAME_LOWER, and the size of its input is not known"


def _convolution(node: NodeProto, attributes: Mapping[str, Any], types: ValueTypes, use: Use) -> Found:
    kernel = kernel_of(node, attributes, types)
    if kernel is None and not (node.op_type == "Conv" and any(map(attributes.get, _OF_WINDOWS))):
        yield Obstacle.KERNEL_SHAPE, f"it has no kernel_shape, and the shape of its weight '{node.input[1]}' is unknown"
        return
    kernel = kernel or []
    is_volume = len(kernel) == _MAX_POOL_AXES
    largest = _LARGEST_KERNEL_3D if is_volume and use.core_window is not None else LARGEST_KERNEL
    if is_volume and node.op_type == "ConvTranspose":
        for name, plain in {"dilations": 1, "output_padding": 0}.items():
            if any(number != plain for number in attributes.get(name, ())):
                yield Obstacle.TRANSPOSED_VOLUME, f"its {name} are {list(attributes[name])}"
    limits = {"strides": LARGEST_STRIDE, "pads": LARGEST_KERNEL, "dilations": LARGEST_KERNEL}
    given = [(f"{name} are", attributes.get(name, ()), most) for name, most in limits.items()]
    for what, numbers, most in (("kernel is", kernel, largest), *given):
        if max(numbers, default=1) > most:
            yield Obstacle.LARGE_KERNEL, f"its {what} {list(numbers)}; CANN documents {most} at most"
    yield from _same_lower(node, attributes, types, use)


def _average_pool(node: NodeProto, attributes: Mapping[str, Any], types: ValueTypes, use: Use) -> Found:
    if is_large_average(attributes):
        kernel, strides = (list(attributes.get(name, ())) for name in ("kernel_shape", "strides"))
        yield Obstacle.LARGE_KERNEL, f"its kernel is {kernel}, its strides are {strides or 1}"
    yield from _same_lower(node, attributes, types, use)


def _batch_norm(node: NodeProto, attributes: Mapping[str, Any], types: ValueTypes, use: Use) -> Found:
    for name in node.input[1:]:
        if types.elements.get(name, TensorProto.FLOAT) != TensorProto.FLOAT:
            yield Obstacle.KERNEL_TYPE, f"'{name}' is {type_name(types.elements[name])}"
            break
    yield from _flags(node, attributes, types, use)


def _pad(node: NodeProto, attributes: Mapping[str, Any], types: ValueTypes, __: Use) -> Found:
    if len(node.input) > 3 and node.input[3]:
        yield Obstacle.PAD_AXES, f"it has the input axes '{node.input[3]}'"
    pads = types.numbers(node.input[1]) if len(node.input) > 1 else attributes.get("pads")
    if pads is not None and min(pads, default=0) < 0:
        yield Obstacle.NEGATIVE_PADS, f"its pads are {pads}"


_OF_RANK = {"GlobalMaxPool": None, "LogSoftmax": "axis", "Transpose": "perm"}
"""Operators whose rank the rewrites of them need, unless they have the attribute."""


def _rank(node: NodeProto, attributes: Mapping[str, Any], types: ValueTypes, _: Use) -> Found:
    if _OF_RANK[node.op_type] not in attributes and node.input[0] not in types.shapes:
        yield Obstacle.UNKNOWN_RANK, f"the rank of '{node.input[0]}' is not known"


def _resize(node: NodeProto, attributes: Mapping[str, Any], types: ValueTypes, _: Use) -> Found:
    if attributes.get("mode", b"nearest") != b"nearest" and types.elements.get(node.input[0]) == TensorProto.BFLOAT16:
        yield Obstacle.KERNEL_TYPE, f"'{node.input[0]}' is bfloat16, and its mode is not nearest"


def _scatter_nd(_: NodeProto, attributes: Mapping[str, Any], __: ValueTypes, ___: Use) -> Found:
    if attributes.get("reduction", b"none") != b"none":
        yield Obstacle.SCATTER_REDUCTION, f"its reduction is {attributes['reduction'].decode(errors='replace')}"


def _gemm(node: NodeProto, attributes: Mapping[str, Any], _: ValueTypes, __: Use) -> Found:
    if attributes.get("alpha", 1.0) != 1.0 and not (len(node.input) > 2 and node.input[2]):
        yield Obstacle.DROPPED_ALPHA, f"its alpha is {attributes['alpha']:g}, and it has no C"


_FLAGS = {
    ("ArgMax", "select_last_index"): Obstacle.LAST_INDEX,
    ("ArgMin", "select_last_index"): Obstacle.LAST_INDEX,
    ("BatchNormalization", "training_mode"): Obstacle.TRAINING_MODE,
    ("MaxPool", "storage_order"): Obstacle.STORAGE_ORDER,
}
"""Attributes that GE drops, by the operator and the attribute."""


def _flags(node: NodeProto, attributes: Mapping[str, Any], _: ValueTypes, __: Use) -> Found:
    for name in attributes:
        if attributes[name] and (node.op_type, name) in _FLAGS:
            yield _FLAGS[node.op_type, name], f"its {name} is 1"


_CHECKS: Mapping[str, Callable[[NodeProto, Mapping[str, Any], ValueTypes, Use], Found]] = {
    **dict.fromkeys(("ArgMax", "ArgMin"), _flags),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    **dict.fromkeys(("Conv", "ConvTranspose"), _convolution),
    "Gemm": _gemm,
    "MaxPool": _max_pool,
    "Pad": _pad,
    "Resize": _resize,
    "ScatterND": _scatter_nd,
    **dict.fromkeys(_OF_RANK, _rank),
}
