# SPDX-License-Identifier: Apache-2.0

"""Names of nodes, and what a model declares, after it was rewritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
from onnx import ModelProto

from poolgrad_lowering import export_atc, export_cann
from poolgrad_lowering.ge import tidy
from tests.pool_graphs import parse, torch_gradient

NAMED = """g (float[2] X) => (D) <float[2] W = {1.0, 2.0}> {
    [W_Initializer_0] A = Mul(X, W) [W_Initializer_x] B = Neg(A) [Q_Initializer_0] C = Neg(B) [A] D = Neg(C)
}"""
NAMES = {
    False: ["W_Initializer_0_", "W_Initializer_x", "Q_Initializer_0", "A"],
    True: ["W_Initializer_0_", "W_Initializer_x", "Q_Initializer_0", "A/Neg"],
}


@pytest.mark.parametrize("is_cut", NAMES)
def test_nodes_have_names_that_ge_gives_to_nothing_else(is_cut: bool) -> None:
    model = parse(NAMED)
    assert tidy.name_nodes(model, is_cut=is_cut) == 1 + is_cut
    assert [node.name for node in model.graph.node] == NAMES[is_cut]


def test_nodes_without_names_have_those_of_their_results() -> None:
    model = parse("g (float[2] X) => (X2) { X1 = Neg(X) X2 = Neg(X1) }")
    assert tidy.name_nodes(model) == 2
    assert [node.name for node in model.graph.node] == ["X1", "X2"]


def test_what_nothing_reads_is_removed_with_what_computed_it() -> None:
    text = """g (float[2] X, float[2] used) => (Y) <float[2] W = {1.0, 2.0}> {
            A = Mul(X, W) B, I = Unique(A) C = Neg(B) K = Neg(I) Y, L = Unique(X) }"""
    model = parse(text)
    tidy.drop_unread(model, {"C", "L", "used"})
    assert [node.op_type for node in model.graph.node] == ["Mul", "Unique", "Neg", "Unique"]
    model = parse(text)
    tidy.drop_unread(model, {"C", "K", "used"})
    assert [list(node.output) for node in model.graph.node] == [["Y", "L"]]
    assert not model.graph.initializer
    assert [value.name for value in model.graph.input] == ["X", "used"]


def declared(model: ModelProto) -> set[str]:
    return {value.name for value in model.graph.value_info}


@pytest.mark.parametrize("export", [export_atc, export_cann])
def test_declarations_are_of_values_that_there_are(export: Callable[[ModelProto], Any]) -> None:
    model = torch_gradient([2, 3, 6, 6], kernel_shape=[2, 2], strides=[2, 2])
    for name in ("X", "I1", "zero", "local"):
        model.graph.value_info.append(onnx.helper.make_tensor_value_info(name, 7 if name != "zero" else 1, None))
    exported = export(model).model
    made = {name for node in exported.graph.node for name in node.output}
    made |= {each.name for each in (*exported.graph.input, *exported.graph.initializer)}
    assert declared(exported) <= made
    own = {name for node in exported.graph.node if node.domain == "npu" for name in node.output}
    assert own <= declared(exported) | {value.name for value in exported.graph.output}
