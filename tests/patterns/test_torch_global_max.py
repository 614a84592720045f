# SPDX-License-Identifier: Apache-2.0

"""AdaptiveMaxPool(1), text in and text out: every spelling that is lowered, and what is no such gradient."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.parser import parse_model

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.graphs import Written
from tests.oracles import assert_same_bits, run_ort
from tests.patterns.lowering_checks import NearMisses, check_lowered, check_refused, near_misses
from tests.patterns.reductions import global_max
from tests.texts import Says


def by_rows(numbers: str = "0, 1, 2, 3, 4, 5") -> str:
    """Return the spelling of `index_put(accumulate=True)`: entry [row, 0] is (row, position)."""
    return global_max(
        indices="""a1 = Unsqueeze (a, last)
            a2 = Unsqueeze (a1, last)
            i = Reshape (a2, row_shape)
            j = Unsqueeze (i, last)
            r = Concat <axis=-1> (rows, j)""",
        scatter='s = ScatterND <reduction="add"> (z, r, u)',
        constants={"rows": f"int64[6,1,1] rows = {{{numbers}}}"},
    )


ROWS_OF_THREE_AXES = {
    "row_shape": "int64[3] row_shape = {2, 3, 1}",
    "canvas_shape": "int64[3] canvas_shape = {2, 3, 20}",
}
SPELLINGS = {
    "rows_of_three_axes": global_max(
        constants=ROWS_OF_THREE_AXES, scatter='s = ScatterElements <axis=-1, reduction="add"> (z, r, u)'
    ),
    "axis_from_the_front": global_max(maximum="a = ArgMax <axis=2, keepdims=0> (f)"),
    "kept": global_max(
        maximum="a = ArgMax <axis=-1> (f)", indices="a2 = Unsqueeze (a, last)\nr = Reshape (a2, row_shape)"
    ),
    "allowzero": global_max(result="dx = Reshape <allowzero=1> (s, x_shape)"),
    "by_row_and_position": by_rows(),
    # ArgMax never has the pooled shape: the lowered graph makes it.
    "planes_flattened_into_rows": global_max(
        flat="f = Flatten <axis=2> (x)",
        maximum="r = ArgMax <axis=1> (f)",
        indices="",
        constants={"last": "int64[1] unused = {0}", "flat_shape": "float other = {0}"},
    ),
    "symbolic_batch": global_max(
        x="N,3,4,5",
        y="N,3,1,1",
        flat_shape=[-1, 3, 20],
        row_shape=[-1, 3, 1],
        x_shape=[-1, 3, 4, 5],
        canvas="shape = Shape (f)\nz = Expand (zero, shape)",
        scatter='s = ScatterElements <axis=-1, reduction="add"> (z, r, u)',
    ),
    # PyTorch writes 1-D pools so; the tensor in front of the wrapping is the pooled one.
    "one_axis_wrapped_in_two": global_max(
        x="2,3,20",
        y="2,3,1",
        axes=[2],
        two=[2],
        constants={"x_shape": "int64[4] w_shape = {2, 3, 1, 20}"},
        forward="y = ReduceMax <keepdims=1> (x, axes)\nw = Unsqueeze (x, two)",
        flat="f = Reshape (w, flat_shape)",
        updates="dw = Unsqueeze (dy, two)\nu = Reshape (dw, row_shape)",
        result="d = Reshape (s, w_shape)\ndx = Squeeze (d, two)",
    ),
    "three_axes": global_max(
        x="2,3,2,2,5",
        y="2,3,1,1,1",
        axes=[2, 3, 4],
        x_shape=[2, 3, 2, 2, 5],
        indices="""a1 = Unsqueeze (a, last)
            a2 = Unsqueeze (a1, last)
            a3 = Unsqueeze (a2, last)
            r = Reshape (a3, row_shape)""",
    ),
    "half_types_between_casts": global_max(
        element="float16",
        updates="w = Cast <to=1> (dy)\nu = Reshape (w, row_shape)",
        result="d = Reshape (s, x_shape)\ndx = Cast <to=10> (d)",
    ),
}


@pytest.mark.parametrize("source", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(source: str, written: Written) -> None:
    check_lowered(source, written)


@pytest.mark.parametrize("ties", [False, True])
def test_against_torch(ties: bool) -> None:
    torch = pytest.importorskip("torch")
    x = np.zeros((2, 3, 4, 5), np.float32) if ties else np.random.default_rng(1).normal(size=(2, 3, 4, 5))
    dy = np.random.default_rng(2).normal(size=(2, 3, 1, 1)).astype(np.float32)
    pooled = torch.tensor(x, dtype=torch.float32, requires_grad=True)
    torch.nn.functional.adaptive_max_pool2d(pooled, 1).backward(torch.tensor(dy))
    lowered = lower(parse_model(global_max())).model
    found = run_ort(lowered, {"x": x.astype(np.float32), "dy": dy})
    assert_same_bits(found["dx"], pooled.grad.numpy())


NEAR_MISSES: NearMisses = {
    (Code.REDUCTION, "maximum_of_what_is_there"): global_max(
        scatter='s = ScatterElements <axis=1, reduction="max"> (z, r, u)'
    ),
    (Code.ROWS_NOT_PLANES, "rows_exchanged"): by_rows("1, 0, 2, 3, 4, 5"),
    (Code.ROWS_NOT_PLANES, "along_the_rows"): global_max(
        canvas_shape=[20, 6], scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)'
    ),
    (Code.ROWS_NOT_PLANES, "one_row_for_all"): global_max(
        row_shape=[1, 6], canvas_shape=[1, 20], outputs="float[2,3,1,1] y, float[1,20] s", result=""
    ),
    (Code.DX_SHAPE, "result_in_another_shape"): global_max(
        x_shape=[3, 2, 4, 5], outputs="float[2,3,1,1] y, float[3,2,4,5] dx"
    ),
    (Code.UNKNOWN_SHAPE, "unknown_shape"): global_max(more="int64[k] flat", flat="f = Reshape (x, flat)"),
}


@pytest.mark.parametrize(("code", "source"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, source: str, says: Says) -> None:
    says(check_refused(source, code))
