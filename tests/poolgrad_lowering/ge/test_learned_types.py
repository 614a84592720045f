# SPDX-License-Identifier: Apache-2.0

"""What rewrites say of the values that they make is what onnx infers: placement and obstacles are read from it."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import pytest
from onnx import ModelProto

from poolgrad_lowering.ge.rewrites import write_for_ge
from poolgrad_lowering.ge.values import ValueTypes, value_types
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.graphs import opset_of
from poolgrad_lowering.model.ir.index import ModelIndex
from tests.poolgrad_lowering.ge.test_masks import NO_MASK
from tests.poolgrad_lowering.ge.test_near_misses import GRAPHS
from tests.poolgrad_lowering.ge.test_rewrites import RANDOM

OTHERS = {"random": RANDOM, "dropout": NO_MASK}
SILENT = {"BatchNormalization", "Mod", "Pad", "ScatterND", "Softmax"}
"""Operators whose rewrites say nothing of their values."""
LEARNED = {
    name: model
    for name, model in (GRAPHS | OTHERS).items()
    if SILENT.isdisjoint(node.op_type for node in model.graph.node)
}


def rewritten(model: ModelProto, *, is_cut: bool) -> tuple[ModelProto, ValueTypes]:
    found = ModelProto()
    found.CopyFrom(model)
    types = value_types(found, ModelIndex(found), ExternalData())
    write_for_ge(found, opset_of(found), types, is_cut=is_cut)
    return found, types


def agree(learned: Sequence[int | str | None], inferred: Sequence[int | None]) -> bool:
    pairs = list(zip(learned, inferred, strict=False))
    return len(learned) == len(inferred) and all(one in (other, None) or other is None for one, other in pairs)


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("name", LEARNED)
def test_new_values_have_the_types_that_onnx_infers(name: str, is_cut: bool) -> None:
    model, types = rewritten(LEARNED[name], is_cut=is_cut)
    del model.graph.value_info[:]  # whose sizes have been inferred too
    parts = {output for node in model.graph.node for output in node.output if node.op_type == "Slice"}
    parts |= {output for node in LEARNED[name].graph.node for output in node.output}
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    for value in inferred.value_info:
        tensor = value.type.tensor_type
        assert types.elements.get(value.name) == tensor.elem_type, value.name
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
        if value.name not in parts or value.name in types.shapes:
            assert agree(types.shapes[value.name], sizes), (value.name, sizes)
