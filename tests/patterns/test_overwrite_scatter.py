# SPDX-License-Identifier: Apache-2.0

"""Overwriting scatters, text in and text out: what is lowered where no windows overlap, and what stays."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.parser import parse_model

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.graphs import Written
from tests.oracles import run_reference
from tests.patterns.lookalikes.scatter import gradient
from tests.patterns.lowering_checks import (
    NearMisses,
    check_lowered,
    check_refused,
    near_misses,
    positive_feeds,
    random_feeds,
)
from tests.patterns.test_torch_scatter_add_nd import FIRST, repeated
from tests.texts import Says

TILES = {
    "inputs": "float[2,3,9,12] x, float[2,3,3,4] dy",
    "outputs": "float[2,3,3,4] y, float[2,3,9,12] dx",
    "pool": "y, i = MaxPool <kernel_shape=[3,3], strides=[3,3]> (x)",
}
ROW_SHAPE = {"row_shape": "int64[2] row_shape = {6, 12}"}
FLAT = {
    "base": f"int64[2,3,1,1] base = {{{repeated(FIRST)}}}",
    "last": "int64[1] last = {-1}",
    "row_shape": "int64[1] row_shape = {-1}",
    "canvas_shape": "int64[1] canvas_shape = {648}",
}
ND = {"rows": "a = Add (p, base)\nw = Reshape (a, row_shape)\nv = Unsqueeze (w, last)"}
PLAIN = "s = ScatterElements <axis=1> (z, r, u)"


SPELLINGS = {
    "elements": gradient(**TILES, scatter=PLAIN, constants=ROW_SHAPE),
    "reduction_written_out": gradient(
        **TILES, scatter='s = ScatterElements <axis=1, reduction="none"> (z, r, u)', constants=ROW_SHAPE
    ),
    "before_there_was_a_reduction": gradient(**TILES, scatter=PLAIN, constants=ROW_SHAPE).replace('"": 18', '"": 15'),
    "nd_on_the_flattened_tensor": gradient(**TILES, **ND, scatter="s = ScatterND (z, v, u)", constants=FLAT),
    "nd_on_rows": gradient(
        **TILES,
        rows="r = Reshape (p, row_shape)\nw = Unsqueeze (r, last)\nv = Concat <axis=-1> (table, w)",
        scatter="s = ScatterND (z, v, u)",
        constants=ROW_SHAPE
        | {"last": FLAT["last"], "table": f"int64[6,12,1] table = {{{repeated(list(range(6)), 12)}}}"},
    ),
    "zeros_added": gradient(
        **TILES,
        **ND,
        scatter="s = ScatterND (z, v, u)",
        result="t = Add (z2, s)\ndx = Reshape (t, x_shape)",
        constants=FLAT | {"more": f"float[648] z2 = {{{repeated([0], 648)}}}"},
    ),
}


@pytest.mark.parametrize("source", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(source: str, written: Written) -> None:
    check_lowered(source, written, feeds=positive_feeds(source))


@pytest.mark.parametrize(("bits", "scatter"), [(0x80000000, "overwrites"), (0, "adds zeros")])
def test_negative_zero_is_what_differs(bits: int, scatter: str) -> None:
    model = parse_model(SPELLINGS["elements" if scatter == "overwrites" else "zeros_added"])
    feeds = {"x": random_feeds(model)["x"], "dy": np.full((2, 3, 3, 4), -0.0, np.float32)}
    before, after = (run_reference(m, feeds)["dx"].view(np.uint32).max() for m in (model, lower(model).model))
    assert (before, after) == (bits, 0)


NEAR_MISSES: NearMisses = {
    (Code.OVERLAPPING_OVERWRITE, "overlapping_windows"): gradient(scatter=PLAIN),
    (Code.OVERLAPPING_OVERWRITE, "overlap_on_one_axis"): gradient(
        y="2,3,3,6",
        row_shape=[6, 18],
        pool="y, i = MaxPool <kernel_shape=[3,3], strides=[3,2], pads=[0,1,0,0]> (x)",
        scatter=PLAIN,
    ),
    (Code.OVERLAPPING_OVERWRITE, "overlap_by_dilation"): gradient(
        y="2,3,4,5",
        row_shape=[6, 20],
        pool="y, i = MaxPool <kernel_shape=[2,2], strides=[2,2], dilations=[2,2]> (x)",
        scatter=PLAIN,
    ),
    (Code.OVERLAPPING_OVERWRITE, "nd_overlapping"): gradient(**ND, scatter="s = ScatterND (z, v, u)", constants=FLAT),
    (Code.BASE_NOT_ZERO, "tiles_onto_ones"): gradient(
        **TILES, scatter=PLAIN, constants=ROW_SHAPE | {"zero": "float zero = {1}"}
    ),
    (Code.ROW_LENGTH, "tiles_on_a_larger_canvas"): gradient(
        **TILES | {"outputs": "float[2,3,3,4] y, float[6,109] dx"},
        scatter=PLAIN,
        result="dx = Identity (s)",
        constants=ROW_SHAPE | {"canvas_shape": "int64[2] canvas_shape = {6, 109}"},
    ),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, model: str, says: Says) -> None:
    says(check_refused(model, code))
