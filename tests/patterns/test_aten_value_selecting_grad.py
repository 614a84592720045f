# SPDX-License-Identifier: Apache-2.0

"""Gradients of a maximum over one axis as PyTorch's operator, text in and text out: what is lowered, and to what."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.graphs import Written
from tests.oracles import assert_same_bits, run_reference
from tests.patterns.aten_graphs import axis_gradient
from tests.patterns.lowering_checks import NearMisses, check_lowered, check_refused, near_misses, random_feeds
from tests.texts import Says

FORWARD = 'y, i = org.pytorch.aten.ATen <operator="max", overload_name="dim"> (x, dim, keep)'
ARG_MAX = "y = Relu (dy)\ni = ArgMax <axis=2, keepdims=0> (x)"
# -0.0 + 0.0 = +0.0: the lowered node adds onto zeros where the original overwrites them.
POSITIVE_ZEROS = """zero = Constant <value = float {0}> ()
    grad = Add (dy, zero)"""
SPELLINGS: dict[str, dict[str, str]] = {
    "as_ortmodule_writes_it": {},
    "axis_from_the_end": {"dim": "-2"},
    "axis_kept": {
        "dim": "3",
        "keepdim": "1",
        "inputs": "float[2,3,9,12] x, float[2,3,9,1] dy",
        "outputs": "float[2,3,9,1] y, float[2,3,9,12] dx",
    },
    # the forward is standard ONNX, the sizes are a constant, the operator is its own op type
    "as_the_torchscript_exporter_writes_it": {
        "forward": ARG_MAX,
        "sizes": "sizes = Constant <value = int64[4] {2,3,9,12}> ()",
        "backward": "dx = org.pytorch.aten.value_selecting_reduction_backward",
    },
    "forward_spelt_by_its_own_name": {"forward": "y, i = org.pytorch.aten.max (x, dim, keep)"},
    # the one spatial axis is the window: adaptive, of output size 1
    "one_spatial_axis_of_symbolic_length": {
        "keepdim": "1",
        "inputs": "float[N,C,H] x, float[N,C,1] dy",
        "outputs": "float[N,C,1] y, float[N,C,H] dx",
    },
    # axis 1 of [N, 9, 12], as ORTModule writes a maximum over the points of each pillar
    "points_before_features": {
        "dim": "1",
        "inputs": "float[N,9,12] x, float[N,12] dy",
        "outputs": "float[N,12] y, float[N,9,12] dx",
    },
}


@pytest.mark.parametrize("changes", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(changes: dict[str, str], written: Written) -> None:
    positive = {"between": POSITIVE_ZEROS, "operands": "grad, dim, i, sizes, keep"}
    check_lowered(axis_gradient(**positive, **changes), written)


def test_only_the_sign_of_a_zero_gradient_is_lost() -> None:
    model = onnx.parser.parse_model(axis_gradient())
    feeds = random_feeds(model)
    assert np.signbit(feeds["dy"][feeds["dy"] == 0]).any()
    expected, found = (run_reference(graph, feeds)["dx"] for graph in (model, lower(model).model))
    assert_same_bits(found, expected + np.float32(0))


def without_result() -> onnx.ModelProto:
    """Return a model whose gradient nobody takes."""
    model = onnx.parser.parse_model(axis_gradient(outputs="float[2,3,12] y"))
    model.graph.node[-1].output[0] = ""
    return model


NEAR_MISSES: NearMisses = {
    (Code.UNKNOWN_SHAPE, "points_of_symbolic_number"): axis_gradient(x="N,H,12", y="N,12", dim="1"),
    (Code.POOL_ATTRIBUTES, "axis_of_a_scalar"): axis_gradient(
        dim="0", inputs="float x, float dy", outputs="float y, float dx"
    ),
    (Code.ATTRIBUTE_MISMATCH, "other_axis"): axis_gradient(forward=ARG_MAX.replace("2", "3")),
    (Code.ATTRIBUTE_MISMATCH, "axis_kept_in_the_forward_only"): axis_gradient(
        forward=ARG_MAX.replace("keepdims=0", "keepdims=1")
    ),
    (Code.POOL_ATTRIBUTES, "axis_from_outside"): axis_gradient(
        more="int64 given", operands="dy, given, i, sizes, keep"
    ),
    (Code.POOL_ATTRIBUTES, "two_axes"): axis_gradient(
        between="both = Constant <value = int64[2] {2,3}> ()", operands="dy, both, i, sizes, keep"
    ),
    (Code.POOL_ATTRIBUTES, "no_flag_whether_the_axis_is_kept"): axis_gradient(
        forward=ARG_MAX.replace("keepdims=0", "keepdims=0.0")
    ),
    (Code.POOL_ATTRIBUTES, "a_flag_that_runtimes_read_in_different_ways"): axis_gradient(
        forward=ARG_MAX.replace("keepdims=0", "keepdims=2"), keepdim="1"
    ),
    (Code.POOL_ATTRIBUTES, "axis_beyond_the_rank"): axis_gradient(dim="4"),
    (Code.CONSTANT_INDICES, "traced_indices"): axis_gradient(
        x="1,1,3,2", y="1,1,2", forward="y = Relu (dy)\ni = Constant <value = int64[1,1,2] {0,1}> ()"
    ),
    (Code.INDICES_SOURCE, "median"): axis_gradient(forward=FORWARD.replace('"max"', '"median"')),
    (Code.INDICES_SOURCE, "minimum"): axis_gradient(forward=ARG_MAX.replace("ArgMax", "ArgMin")),
    (Code.INDICES_SOURCE, "maxima_as_indices"): axis_gradient(operands="dy, dim, y, sizes, keep"),
    (Code.INDICES_SOURCE, "indices_from_outside"): axis_gradient(
        more="int64[2,3,12] given", operands="dy, dim, given, sizes, keep"
    ),
    (Code.DX_SHAPE, "other_sizes"): axis_gradient(
        sizes="sizes = Constant <value = int64[4] {2,3,10,12}> ()", outputs="float[2,3,12] y, float[2,3,10,12] dx"
    ),
    (Code.DX_SHAPE, "sizes_from_outside"): axis_gradient(more="int64[4] given", operands="dy, dim, i, given, keep"),
    (Code.GRAD_SHAPE, "gradient_of_another_shape"): axis_gradient(inputs="float[2,3,9,12] x, float[2,3,13] dy"),
    (Code.UNKNOWN_SHAPE, "unknown_shape"): axis_gradient(
        forward=f'v = org.pytorch.aten.ATen <operator="silu"> (x)\n{FORWARD.replace("(x", "(v")}'
    ),
    (Code.ARITY, "no_result"): without_result(),
}


@pytest.mark.parametrize(("code", "text"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, text: str | onnx.ModelProto, says: Says) -> None:
    says(check_refused(text, code))
