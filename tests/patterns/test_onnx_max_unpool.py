# SPDX-License-Identifier: Apache-2.0

"""ONNX's MaxUnpool, text in and text out: what is lowered where no windows overlap, and what stays."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.parser import parse_model

from poolgrad_lowering import lower, verify
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.graphs import Written
from tests.heads import head
from tests.oracles import run_ort
from tests.patterns.lowering_checks import (
    TARGETS,
    NearMisses,
    check_lowered,
    check_refused,
    near_misses,
    positive_feeds,
)
from tests.texts import Says

TILES = "kernel_shape=[3,3], strides=[3,3]"


def gradient(
    *,
    x: str = "2,3,9,12",
    dy: str = "2,3,3,4",
    dx: str = "",
    pool: str = TILES,
    unpool: str = "",
    shape: str = "",
    more: str = "",
    between: str = "",
    indices: str = "i",
    element: str = "float",
    opset: int = 18,
) -> str:
    """Return the text of a MaxPool with attributes `pool`, nodes `between`, and a MaxUnpool with the same ones or
    `unpool`, whose third operand is `shape`; `more` are inputs of the graph."""
    operands = ", ".join(filter(None, ("dy", indices, shape)))
    return f"""{head(opset)}
        g ({element}[{x}] x, {element}[{dy}] dy {more}) => ({element}[{dy}] y, {element}[{dx or x}] dx) {{
            y, i = MaxPool <{pool}> (x)
            {between}
            dx = MaxUnpool <{unpool or pool}> ({operands})
        }}"""


@pytest.mark.parametrize("opset", [9, 11, 13, 18, 22])
def test_opsets(opset: int) -> None:
    model = parse_model(gradient(opset=opset))
    [anchor] = lower(model).report.anchors
    assert (anchor.status, anchor.pattern, anchor.op) == ("lowered", "onnx_max_unpool", "MaxPool3DGradWithArgmax")


SPELLINGS = {
    "attributes": gradient(),
    "symbolic_batch": gradient(x="N,3,9,12", dy="N,3,3,4"),
    "half": gradient(element="float16"),
    "other_attributes_of_the_same_shape": gradient(unpool="kernel_shape=[5,4], strides=[2,3], pads=[0,1,0,0]"),
    "the_shape_of_x_as_an_operand": gradient(shape="s", between="s = Shape (x)"),
    "a_shape_that_is_stated": gradient(shape="s", between="s = Constant <value = int64[4] {2,3,9,12}> ()"),
}


@pytest.mark.parametrize("source", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(source: str, written: Written) -> None:
    check_lowered(source, written, feeds=positive_feeds(source))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", SPELLINGS.values(), ids=SPELLINGS)
def test_verify_proves_it(source: str, target: str) -> None:
    model = parse_model(source)
    [site] = verify(model, lower(model, target=target)).sites
    assert (site.status, site.not_drawn) == ("proven", ("-0.0 in the incoming gradient",))


def test_an_operand_names_another_shape_for_every_runtime() -> None:
    """onnxruntime counts the Indices over the shape of the operand, ONNX over the one that follows from the windows."""
    source = gradient(
        x="1,1,5,5", dy="1,1,2,2", pool="kernel_shape=[2,2], strides=[2,2]", shape="s", between="s = Shape (x)"
    )
    model = parse_model(source)
    feeds = {"x": np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5), "dy": np.ones((1, 1, 2, 2), np.float32)}
    assert np.flatnonzero(run_ort(model, feeds)["dx"]).tolist() == [6, 8, 16, 18]
    assert not lower(model).report.lowered


PLANE = """plane = Constant <value = int64[1] {108}> ()
    p = Mod (i, plane)"""
NEAR_MISSES: NearMisses = {
    (Code.OVERLAPPING_OVERWRITE, "overlapping_windows"): gradient(
        dy="2,3,4,5", pool="kernel_shape=[3,3], strides=[2,2]", unpool="kernel_shape=[3,4], strides=[2,2]"
    ),
    (Code.INDICES_ALTERED, "changed_indices"): gradient(between="j = Mul (i, i)", indices="j"),
    (Code.INDICES_NUMBERING, "plane_local_indices"): gradient(between=PLANE, indices="p"),
    (Code.DX_SHAPE, "a_column_is_left"): gradient(x="2,3,9,13", dx="2,3,9,12"),
    (Code.DX_SHAPE, "a_column_is_left_and_stated"): gradient(x="2,3,9,13", shape="s", between="s = Shape (x)"),
    (Code.DX_SHAPE, "symbolic_sizes"): gradient(x="N,C,H,W", dy="N,C,OH,OW", shape="s", between="s = Shape (x)"),
    (Code.DX_SHAPE, "padding_of_a_symbolic_size"): gradient(
        x="N,C,H,W", dy="N,C,OH,OW", unpool=f"{TILES}, pads=[1,1,1,1]"
    ),
    (Code.DX_SHAPE, "another_number_of_axes"): gradient(unpool="kernel_shape=[3], strides=[3]"),
    (Code.DX_SHAPE, "another_shape_is_stated"): gradient(
        dx="2,3,10,12", shape="s", between="s = Constant <value = int64[4] {2,3,10,12}> ()"
    ),
    (Code.DX_SHAPE, "an_unknown_shape_is_stated"): gradient(shape="s", more=", int64[4] s"),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, model: str, says: Says) -> None:
    says(check_refused(model, code))
