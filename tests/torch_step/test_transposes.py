# SPDX-License-Identifier: Apache-2.0

"""Consecutive transpositions are one, and none where they cancel; results and names of outputs stay."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import RemoveUnusedNodesPass

from poolgrad_lowering.torch.exporter import simplify


def joined(text: str) -> tuple[onnx.ModelProto, list[str]]:
    """The model after joining, which is valid and computes the same, and its operators."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> g {text}')
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    simplified = ir.from_proto(model)
    simplify(simplified.graph)
    RemoveUnusedNodesPass()(simplified)
    model = ir.to_proto(simplified)
    onnx.checker.check_model(model, full_check=True)
    for one, other in zip(expected, ReferenceEvaluator(model).run(None, {"x": x}), strict=True):
        np.testing.assert_array_equal(one, other)
    return model, [node.op_type for node in model.graph.node]


ORDERS = list(itertools.permutations(range(3)))


@pytest.mark.parametrize("first", ORDERS)
@pytest.mark.parametrize("second", ORDERS)
def test_two_are_one_or_none(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    _, found = joined(
        f"""(float[2,3,4] x) => (float[a,b,c] y) {{
            one = Transpose<perm = {list(first)}>(x)
            two = Transpose<perm = {list(second)}>(one)
            y = Neg(two)
        }}"""
    )
    is_whole = [first[axis] for axis in second] == [0, 1, 2]
    assert found == (["Neg"] if is_whole else ["Transpose", "Neg"])


def test_three_that_are_read_between() -> None:
    model, found = joined(
        """(float[2,3,4] x) => (float[3,2,4] p, float[4,2,3] q) {
            one = Transpose<perm = [1, 0, 2]>(x)
            two = Transpose<perm = [0, 2, 1]>(one)
            three = Transpose<perm = [1, 2, 0]>(two)
            p = Relu(one)
            q = Relu(three)
        }"""
    )
    assert sorted(found) == ["Relu", "Relu", "Transpose", "Transpose"]
    assert [node.input[0] for node in model.graph.node if node.op_type == "Transpose"] == ["x", "x"]


def test_an_output_keeps_its_name() -> None:
    _, found = joined(
        """(float[2,3,4] x) => (float[2,3,4] y) {
            one = Transpose<perm = [1, 0, 2]>(x)
            y = Transpose<perm = [1, 0, 2]>(one)
        }"""
    )
    assert found == ["Transpose", "Transpose"]


def test_what_a_subgraph_reads() -> None:
    _, found = joined(
        """(float[2,3,4] x) => (float[2,3,4] y) {
            one = Transpose<perm = [1, 0, 2]>(x)
            two = Transpose<perm = [1, 0, 2]>(one)
            flag = Constant<value = bool {1}>()
            y = If(flag) <then_branch = t () => (float[2,3,4] a) { a = Relu(two) },
                          else_branch = e () => (float[2,3,4] b) { b = Neg(two) }>
        }"""
    )
    assert found == ["Constant", "If"]


def test_the_order_that_is_no_attribute_stays() -> None:
    _, found = joined(
        """(float[2,3,4] x) => (float[2,3,4] y) {
            one = Transpose(x)
            two = Transpose<perm = [2, 1, 0]>(one)
            y = Neg(two)
        }"""
    )
    assert found == ["Transpose", "Transpose", "Neg"]
