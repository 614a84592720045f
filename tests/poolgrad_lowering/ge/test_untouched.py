# SPDX-License-Identifier: Apache-2.0

"""What GE reads as ONNX means it, and what no rewrite may touch, stays as it is"""

from __future__ import annotations

import pytest
from onnx import ModelProto, helper

from poolgrad_lowering import export_atc, export_cann
from tests.pool_graphs import graph_table, parse
from tests.poolgrad_lowering.ge.test_rewrites import operators

STAY = graph_table(
    """
a loss that ignores a class
    g (float[4,3] X) => (Y) {
        T = ArgMax<keepdims = 0, axis = 1>(X) Y = SoftmaxCrossEntropyLoss<ignore_index = 0>(X, T)
    }
indices that nobody reads
    g (float[6] X, int64[1] K) => (V) { V, I = TopK(X, K) }
indices whose type does not matter
    g (float[6] X) => (Y) { I = ArgMin(X) Y = Cast<to = 1>(I) }
a kernel that is written
    g (float[1,2,4,4] X, float[2,3,2,3] W) => (Y) { Y = ConvTranspose<kernel_shape = [2, 3]>(X, W) }
a convolution over three axes with pads
    g (float[1,2,4,5,3] X, float[3,2,2,2,2] W) => (Y) { Y = Conv<kernel_shape = [2, 2, 2], pads = [0, 0, 0, 1, 1, 1]>(X,
        W) }
a whole shape
    g (float[2,3] X) => (Y) { Y = Shape<start = 0>(X) }
a product with C
    g (float[2,3] X, float[3,4] Z, float[4] C) => (Y) { Y = Gemm<alpha = 0.3>(X, Z, C) }
alpha 1
    g (float[2,3] X, float[3,4] Z) => (Y) { Y = Gemm(X, Z) }
a global pool over two axes
    g (float[2,3,4,5] X) => (Y) { Y = GlobalMaxPool(X) }
a clip, opset 10
    g (float[4] X) => (Y) { Y = Clip(X) }
a softmax of the last axis, opset 11
    g (float[2,3,4] X) => (Y) { Y = Softmax<axis = -1>(X) }
batch normalization
    g (float[2,3,4] X, float[3] s) => (Y) { Y = BatchNormalization(X, s, s, s, s) }
a lower bound
    g (float[4] X, float l) => (Y) { Y = Clip(X, l) }
a softmax of the last axis, opset 13
    g (float[2,3] X) => (Y) { Y = Softmax<axis = -1>(X) }
a sum of sizes, opset 13
    g (float[2,3] X) => (Y) { Y = ReduceL1<axes = [1]>(X) }
a Euclidean norm of float16, opset 18
    g (float16[2,3] X) => (Y) { Y = ReduceL2(X) }
a sum of sizes of no axes, opset 18
    g (float[2,3] X) => (Y) { Y = ReduceL1<noop_with_empty_axes = 1>(X) }
a softmax of columns, opset 13
    g (float[2,3,4] X) => (Y) { Y = Softmax<axis = 1>(X) }
a scatter of nothing
    g (float[4,0] X, int64[2,1] I, float[2,0] U) => (Y) { Y = ScatterND<reduction = "add">(X, I, U) }
a scatter at no axis
    g (float[4] X, int64 I, float U) => (Y) { Y = ScatterND<reduction = "add">(X, I, U) }
batch normalization out of training
    g (float[2,3,4] X, float[3] s) => (Y) { Y = BatchNormalization<training_mode = 0>(X, s, s, s, s) }
batch normalization of float64 in training
    g (double[2,3,4] X, double[3] s) => (Y, M, V) { Y, M, V = BatchNormalization<training_mode = 1>(X, s, s, s, s) }
a transposed convolution with an output_shape
    g (float[1,1,3,3,3] X, float[1,1,3,3,3] W) => (Y) { Y = ConvTranspose<kernel_shape = [3, 3, 3],
        strides = [2, 2, 2], pads = [1, 1, 1, 1, 1, 1], output_padding = [1, 0, 1], output_shape = [6, 5, 6]>(X, W) }
a transposed convolution that pads by itself
    g (float[1,1,3,3,3] X, float[1,1,3,3,3] W) => (Y) { Y = ConvTranspose<kernel_shape = [3, 3, 3],
        strides = [2, 2, 2], auto_pad = "SAME_UPPER", output_padding = [1, 0, 1]>(X, W) }
pads that are not negative
    g (float[2] X) => (Y) <int64[2] P = {1, 0}> { Y = Pad(X, P) }
a scatter that overwrites
    g (float[4] X, int64[2,1] I, float[2] U) => (Y) { Y = ScatterND(X, I, U) }
a remainder of unsigned numbers
    g (uint8[4] X, uint8[4] Z) => (Y) { Y = Mod(X, Z) }
a remainder with the dividend's sign
    g (float[4] X, float[4] Z) => (Y) { Y = Mod<fmod = 1>(X, Z) }
a pool with dilations, opset 10
    g (float[1,2,6,7] X) => (Y) { Y = MaxPool<kernel_shape = [2, 2], dilations = [1, 2]>(X) }
a pool with dilations of bytes
    g (uint8[1,2,6,7] X) => (Y) { Y = MaxPool<kernel_shape = [2, 2], dilations = [1, 2]>(X) }
a pool with dilations over three axes
    g (float[1,2,6,7,5] X) => (Y) { Y = MaxPool<kernel_shape = [2, 2, 2], dilations = [1, 2, 2]>(X) }
a pool with dilations whose windows are longer than the plane
    g (float[1,2,3,3] X) => (Y) { Y = MaxPool<kernel_shape = [2, 2], dilations = [3, 3]>(X) }
a pool with an empty window
    g (float[1,1,1] X) => (Y) { Y = MaxPool<kernel_shape = [2], dilations = [3], pads = [2, 2]>(X) }
indices of a pool that nobody reads
    g (float[1,2,6,7] X) => (Y) { Y, I = MaxPool<kernel_shape = [2, 2]>(X) }
indices in another order
    g (float[1,2,6,7] X) => (Y, I) { Y, I = MaxPool<kernel_shape = [2, 2], storage_order = 1>(X) }
indices of a batch that nothing measures
    g (float[K] X) => (Y, I) <int64[4] S = {-1, 2, 6, 7}> {
        P = Reshape(X, S) Y, I = MaxPool<kernel_shape = [2, 2]>(P)
    }
the first indices of padded planes
    g (float[1,1,4,4] X) => (S) <int64[2] zeros = {0, 0}, int64[2] ones = {1, 1}, int64[2] axes = {2, 3}> {
        Y, I = MaxPool<kernel_shape = [1, 1], strides = [1, 1], pads = [0, 0, 1, 1]>(X) S = Slice(I, zeros, ones, axes)
    }
the first indices of planes of an unknown rank
    g (float[K] X, int64[R] S) => (Z) <int64[2] zeros = {0, 0}, int64[2] ones = {1, 1}, int64[2] axes = {2, 3}> {
        P = Reshape(X, S) Y, I = MaxPool<kernel_shape = [1, 1], strides = [1, 1]>(P) Z = Slice(I, zeros, ones, axes)
    }
a difference beside a node
    g (float[2] X) => (Y) { N = Neg(X) Y = Sub(X, N) }
axes that are written
    g (float[2,3,4] X) => (Y) { Y = Transpose<perm = [0, 2, 1]>(X) }
the odd element behind
    g (float[1,2,7,6] X) => (Y) { Y = MaxPool<kernel_shape = [2, 3], auto_pad = "SAME_UPPER">(X) }
"""
)


@pytest.mark.parametrize("model", [model for model, _ in STAY.values()], ids=STAY)
def test_what_ge_reads_stays(model: ModelProto) -> None:
    export = export_atc(model)
    assert export.report.edits.rewritten == 0
    assert operators(export.model) == operators(model)


def test_largest_elements_without_their_places_stay() -> None:
    assert operators(export_atc(parse("g (float[6] X, int64[1] K) => (V) { V = TopK(X, K) }")).model) == ["TopK"]


def test_a_node_without_outputs_that_reads_a_remainder() -> None:
    model = parse("g (int64[2] X) => (Y) <int64[1] k = {3}> { Y = Mod(X, k) }", imports='"acme": 1')
    model.graph.node.append(helper.make_node("Print", ["Y"], [], domain="acme"))
    assert operators(export_cann(model).model) == ["Mod", "Add", "Mod", "Print"]
