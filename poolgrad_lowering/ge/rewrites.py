# SPDX-License-Identifier: Apache-2.0

"""Rewrites nodes so that GE's ONNX parser reads them right, with the same results in every other runtime.

Each rewrite is a row of `_REWRITES`: the operator, and a rule that adds the nodes in its place to a `Writer`. It does
not apply to a node that GE reads as it is, or whose rewrite needs a shape that is not known; `obstacles` names the
latter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from onnx import ModelProto, NodeProto

from poolgrad_lowering.ge import index_rewrites, numeric_rewrites, window_rewrites
from poolgrad_lowering.ge.kept_indices import write_plane_starts, write_positions
from poolgrad_lowering.ge.shape_operands import write_numbers
from poolgrad_lowering.ge.tidy import drop_unread
from poolgrad_lowering.ge.values import SHAPE_OPERANDS, ValueTypes, attributes_of
from poolgrad_lowering.ge.writer import Writer
from poolgrad_lowering.model.facts.known import NotApplicableError, need
from poolgrad_lowering.model.ir.graphs import graphs, is_standard, names_of

Rewrite = Callable[[NodeProto, Mapping[str, Any], Writer], None]
"""Adds the nodes in place of a node to the writer. Raises `NotApplicableError` if the node stays."""


def write_for_ge(model: ModelProto, opset: int, types: ValueTypes, *, is_cut: bool = False) -> int:
    """Write the nodes of the main graph and of its subgraphs as GE reads them; return how many were changed.

    If the graph `is_cut` into several, shapes that it computes become numbers, and nodes that would stay on the CPU
    become others. The new values are added to `types`. Nodes keep their outputs' names.
    """
    rewrites = _REWRITES | (_REWRITES_OF_CUT_GRAPHS if is_cut else {})
    present = {node.op_type for graph in graphs(model.graph) for node in graph.node}
    if not present & rewrites.keys():
        return 0
    taken = names_of(model.graph)
    changed, unread = 0, set[str]()
    for graph in graphs(model.graph):
        writer = Writer(graph, opset, types, taken)
        changed += _write(writer, graph.node, rewrites)
        unread |= writer.unread
    drop_unread(model, unread)
    return changed


def _write(writer: Writer, nodes: Iterable[NodeProto], rewrites: Mapping[str, Rewrite]) -> int:
    changed = 0
    for node in nodes:
        rewrite = rewrites.get(node.op_type) if is_standard(node) else None
        try:
            need(rewrite)(node, attributes_of(node), writer)
            changed += 1
        except NotApplicableError:
            writer.keep(node)
    if changed:
        writer.replace_nodes()
    return changed


_REWRITES_OF_CUT_GRAPHS: dict[str, Rewrite] = {
    **dict.fromkeys(SHAPE_OPERANDS, write_numbers),
    "IsInf": numeric_rewrites.is_inf,
    "IsNaN": numeric_rewrites.is_nan,
    **dict.fromkeys(
        ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), numeric_rewrites.like_an_input
    ),
    "Trilu": numeric_rewrites.trilu,
}

_REWRITES: dict[str, Rewrite] = {
    **dict.fromkeys(("ArgMin", "TopK"), index_rewrites.wide_indices),
    "AveragePool": window_rewrites.average_pool,
    "BatchNormalization": numeric_rewrites.batch_normalization,
    "CastLike": numeric_rewrites.cast_like,
    "Clip": numeric_rewrites.clip,
    "Constant": numeric_rewrites.as_value,
    **dict.fromkeys(("Conv", "ConvTranspose"), window_rewrites.convolution),
    "Dropout": numeric_rewrites.dropout,
    "Gemm": numeric_rewrites.gemm,
    "GlobalMaxPool": window_rewrites.global_max_pool,
    "HardSwish": numeric_rewrites.hard_swish,
    **dict.fromkeys(("LogSoftmax", "Softmax"), numeric_rewrites.softmax),
    "MaxPool": window_rewrites.max_pool,
    "Mod": numeric_rewrites.mod,
    "Pad": window_rewrites.pad,
    **dict.fromkeys(numeric_rewrites.PARTS, numeric_rewrites.in_parts),
    "ScatterND": index_rewrites.scatter_nd,
    "Shape": index_rewrites.shape,
    "Slice": write_plane_starts,
    "Sub": write_positions,
    "SoftmaxCrossEntropyLoss": numeric_rewrites.without_ignored_class,
    "Transpose": index_rewrites.transpose,
}
