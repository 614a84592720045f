# SPDX-License-Identifier: Apache-2.0

"""Models of opsets 19 to 21 are declared in opset 18 where it says the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from poolgrad_lowering.standard.opset import _WIDER, OPSET, use_older_opset
from tests.oracles import assert_same_bits, run_reference
from tests.pool_graphs import parse

SAME = {
    "casts": "I = Cast<to = 7, saturate = 1>(X) F = CastLike<saturate = 1>(I, X) Y = Identity(F)",
    "shapes": "S = Shape(X) C = ConstantOfShape(S) R = Reshape<allowzero = 0>(C, S) Y = Add(R, X)",
    "sizes": "N = Size(X) E = Equal(N, N) F = Cast<to = 1>(E) Y = Mul(X, F)",
    "a pad": "p = Constant<value_ints = [0, 0, 0, 1, 0, 0, 0, 1]>() Y = Pad<mode = \"reflect\">(X, p)",
    "a resize": (
        "r, s = Split<axis = 0, num_outputs = 2>(X) b = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>()"
        ' Y = Resize<mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric">(r, , b)'),
    "a pool": "Y = AveragePool<kernel_shape = [2, 2], pads = [1, 1, 0, 0], count_include_pad = 1>(X)",
    "axes": "a = Constant<value_ints = [0]>() U = Unsqueeze(X, a) T = Transpose(U) Q = Squeeze(T) Y = Flatten(Q)",
    "reductions": "N = IsNaN(X) F = IsInf(X) O = Or(N, F) C = Cast<to = 1>(O) M = ReduceMax(X) Y = Add(C, M)",
    "a branch": (
        "c = Constant<value = bool {1}>() Y = If(c) <then_branch = t () => (float[2,3,4,5] z) { z = Cast<to = 1>(X) },"
        " else_branch = e () => (float[2,3,4,5] z) { z = Identity(X) }>"),
}  # fmt: skip


@pytest.mark.parametrize("opset", [19, 20, 21])
@pytest.mark.parametrize("name", SAME)
def test_nodes_that_mean_the_same(name: str, opset: int) -> None:
    model = parse(f"g (float[2,3,4,5] X) => (Y) {{ {SAME[name]} }}", opset=opset)
    older = onnx.ModelProto()
    older.CopyFrom(model)
    assert use_older_opset(older)
    assert [(entry.domain, entry.version) for entry in older.opset_import] == [("", OPSET)]
    x = {"X": np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)}
    assert_same_bits(run_reference(older, x)["Y"], run_reference(model, x)["Y"])
    assert not use_older_opset(older)


@pytest.mark.parametrize(("attribute", "operator"), [("", "Gelu"), ('<approximate = "tanh">', "FastGelu")])
def test_a_gelu_is_one_of_onnxruntime(attribute: str, operator: str) -> None:
    model = parse(f"g (float[4] X) => (Y) {{ Y = Gelu{attribute}(X) }}", opset=20)
    assert use_older_opset(model)
    [node] = model.graph.node
    assert (node.domain, node.op_type, len(node.attribute)) == ("com.microsoft", operator, 0)
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": OPSET, "com.microsoft": 1}


OTHERS = {
    "a pad around": (20, 'p = Constant<value_ints = [0, 0, 0, 1, 0, 0, 0, 1]>() Y = Pad<mode = "wrap">(X, p)'),
    "other coordinates": (
        19, 'b = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>()'
        ' Y = Resize<coordinate_transformation_mode = "half_pixel_symmetric">(X, , b)'),
    "a pool with dilations": (20, "Y = AveragePool<kernel_shape = [2, 2], dilations = [2, 2]>(X)"),
    "a pool that rounds up": (20, "Y = AveragePool<kernel_shape = [2, 2], ceil_mode = 1>(X)"),
    "a type of 8 bits": (20, "F = Cast<to = 17>(X) Y = Cast<to = 1>(F)"),
    "another normalization": (21, "G = GroupNormalization<num_groups = 1>(X, s, s) Y = Identity(G)"),
    "in a branch": (
        20, "c = Constant<value = bool {1}>() Y = If(c) <then_branch = t () => (float[2,3,4,5] z)"
        " { f = Cast<to = 17>(X) z = Cast<to = 1>(f) }, else_branch = e () => (float[2,3,4,5] z) { z = Identity(X) }>"),
    "an operator of a newer opset": (20, "Y = Swish(X)"),
    "a Gelu before there was one": (19, "Y = Gelu(X)"),
    "a newer opset": (22, "Y = Identity(X)"),
    "an older opset": (18, "Y = Identity(X)"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay(name: str) -> None:
    opset, nodes = OTHERS[name]
    model = parse(f"g (float[2,3,4,5] X, float[3] s) => (Y) {{ {nodes} }}", opset=opset)
    before = model.SerializeToString()
    assert not use_older_opset(model)
    assert model.SerializeToString() == before


ANEW = {"DFT", "DequantizeLinear", "GridSample", "GroupNormalization", "QLinearMatMul", "QuantizeLinear"}
"""Operators with versions of opsets 19 to 21 that mean something else, or are of quantized numbers."""


def test_the_table_has_all_operators_of_both_opsets() -> None:
    """And the attributes and operands that both have are the same."""
    names = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    newest = {name: onnx.defs.get_schema(name, 21) for name in names if onnx.defs.has(name, max_inclusive_version=21)}
    newer = {name for name, schema in newest.items() if schema.since_version > OPSET}
    both = {name for name in newer if onnx.defs.has(name, max_inclusive_version=OPSET)}
    assert both - ANEW == set(_WIDER)
    for name in _WIDER:
        older, now = onnx.defs.get_schema(name, OPSET), newest[name]
        for attribute, held in older.attributes.items():
            found = now.attributes[attribute]
            assert (found.type, found.required, found.default_value) == (held.type, held.required, held.default_value)
        assert [each.name for each in now.inputs][: len(older.inputs)] == [each.name for each in older.inputs]
        assert [each.name for each in now.outputs] == [each.name for each in older.outputs]
