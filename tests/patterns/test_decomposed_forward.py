# SPDX-License-Identifier: Apache-2.0

"""MaxPool written out by index arithmetic: every kind of windows is lowered, changed windows and arithmetic are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto

from poolgrad_lowering import lower
from poolgrad_lowering.compiler.families.verdicts import Lowered
from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.compiler.lowering.pipeline import decide
from poolgrad_lowering.model.diagnostics.codes import Code
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.windows import AdaptiveWindows, PoolAttributes
from tests.graphs import Written
from tests.oracles import assert_same_bits, run_ort
from tests.patterns.lowering_checks import (
    TARGETS,
    NearMisses,
    check_refused,
    check_same_results,
    check_well_formed,
    near_misses,
)
from tests.patterns.written_out import pool
from tests.texts import Says


@pytest.mark.parametrize("target", TARGETS[:2])
def test_as_decomposed(target: str, written: Written) -> None:
    model = pool((9, 12), (3, 3), (2, 2), begins=(1, 1), ends=(1, 1))
    lowered = lower(model, target=target).model
    written(model, lowered)
    check_same_results(model, lowered)
    check_well_formed(model, lowered, target)


WINDOWS: dict[str, dict[str, Any]] = {
    "tiling": {"sizes": (8, 6), "kernel": (2, 2), "strides": (2, 2)},
    "overlapping": {"sizes": (7, 9), "kernel": (3, 2), "strides": (1, 1)},
    "gaps": {"sizes": (9, 11), "kernel": (2, 3), "strides": (3, 4)},
    "padded": {"sizes": (8, 7), "kernel": (3, 3), "strides": (2, 2), "begins": (1, 1), "ends": (1, 1)},
    "rounded_up": {"sizes": (8, 9), "kernel": (3, 3), "strides": (2, 2), "begins": (1, 1), "ends": (2, 1)},
    "dilated": {"sizes": (9, 8), "kernel": (2, 3), "strides": (1, 2), "ends": (0, 1), "dilations": (3, 2)},
    "one_window": {"sizes": (4, 5), "kernel": (4, 5), "strides": (1, 1)},
    "one_tap": {"sizes": (5, 7), "kernel": (1, 1), "strides": (2, 3)},
    "two_windows": {"sizes": (6, 8), "kernel": (2, 3), "strides": (4, 5)},
    "one_window_of_a_larger_plane": {"sizes": (5, 7), "kernel": (2, 3), "strides": (9, 9), "ends": (1, 1)},
    "over_the_whole_plane_from_anywhere": {
        "sizes": (3, 3),
        "kernel": (6, 6),
        "strides": (2, 2),
        "begins": (3, 3),
        "ends": (3, 3),
        "first": 1,
    },
    "one_plane": {"sizes": (6, 6), "kernel": (2, 2), "strides": (2, 2), "planes": (1, 1)},
    "one_axis": {"sizes": (9,), "kernel": (3,), "strides": (2,), "begins": (1,), "ends": (1,)},
    "three_axes": {
        "sizes": (4, 5, 6),
        "kernel": (2, 3, 2),
        "strides": (1, 2, 3),
        "begins": (0, 1, 1),
        "ends": (1, 1, 0),
    },
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_windows(windows: dict[str, Any], target: str) -> None:
    model = pool(**windows)
    result = lower(model, target=target)
    assert [anchor.pattern for anchor in result.report.lowered] == ["decomposed_forward"]
    check_same_results(model, result.model)


def found_windows(model: ModelProto) -> PoolAttributes | AdaptiveWindows:
    """Return the windows of the model's one gradient, as the form found them."""
    [lowered] = decide(model, Options(), Gate()).verdicts
    assert isinstance(lowered, Lowered)
    return lowered.gradient.windows


def test_of_what_is_not_seen_the_least_is_stated() -> None:
    """A single tap has no dilation, and a single window no stride: one beyond the canvas makes no second one."""
    assert found_windows(pool((5, 7), (1, 3), (9, 9), ends=(0, 1))) == PoolAttributes(
        kernel=(1, 3),
        strides=(5, 8),
        begins=(0, 0),
        ends=(0, 1),
        dilations=(1, 1),
        ceil=False,
        auto_pad="NOTSET",
        storage_order=0,
    )


def test_answers_that_keep_their_axis() -> None:
    """A view lies between ArgMax and the arithmetic."""
    model = pool((8, 6), (2, 2), (2, 2), maximum="k = ArgMax <axis=-1, keepdims=1> (w)\na = Squeeze (k, last)")
    result = lower(model)
    assert len(result.report.lowered) == 1
    check_same_results(model, result.model)


def test_against_torch() -> None:
    torch = pytest.importorskip("torch")
    result = lower(pool((9, 12), (3, 3), (2, 2), begins=(1, 1), ends=(1, 1)))
    assert len(result.report.lowered) == 1
    random = np.random.default_rng(3)
    x = random.integers(0, 4, (2, 3, 9, 12)).astype(np.float32)  # ties: torch takes the first of them too
    dy = random.integers(-4, 5, (2, 3, 5, 6)).astype(np.float32)  # sums of them are exact in any order
    leaf = torch.tensor(x, requires_grad=True)
    torch.nn.functional.max_pool2d(leaf, 3, 2, 1).backward(torch.tensor(dy))
    assert_same_bits(run_ort(result.model, {"x": x, "dy": dy})["dx"], leaf.grad.numpy())


@pytest.mark.parametrize("before", ["Identity", "Relu"])
def test_without_padding(before: str) -> None:
    """An optimiser may have taken a Pad of nothing out."""
    model = pool((8, 6), (2, 2), (2, 2), pad=f"c = {before} (x)")
    result = lower(model)
    assert [anchor.op for anchor in result.report.anchors] == ["MaxPool3DGradWithArgmax"]
    check_same_results(model, result.model)


PADDED: dict[str, Any] = {"sizes": (9, 12), "kernel": (3, 3), "strides": (2, 2), "begins": (1, 1), "ends": (1, 1)}


def coordinates(model: ModelProto) -> np.ndarray[Any, Any]:
    """Return the table of the model's GatherND, to change it."""
    (table,) = [tensor for tensor in model.graph.initializer if tensor.name == "coordinates"]
    return np.array(onnx.numpy_helper.to_array(table))


def moved() -> np.ndarray[Any, Any]:
    """One window looks one column further than a pool's."""
    table = coordinates(pool(**PADDED))
    table[2, :, 3, :, 1] += 1
    return table


def irregular() -> dict[str, np.ndarray[Any, Any]]:
    """All windows of one column, and what is reported of them, are one step further right."""
    table, starts = coordinates(pool(**PADDED)), np.arange(0, 12, 2)
    table[:, :, 3, :, 1] += 1
    starts[3] += 1
    return {"coordinates": table, "column_starts": starts.reshape(1, 1, 1, 6)}


def repeated() -> dict[str, np.ndarray[Any, Any]]:
    """The windows of the second row are those of the first."""
    table = coordinates(pool((4, 6), (2, 2), (2, 2)))
    table[1] = table[0]
    return {"coordinates": table, "row_starts": np.zeros((1, 1, 2, 1), np.int64)}


NEAR_MISSES: NearMisses = {
    (Code.WINDOW_TABLES, "other_row_starts"): pool(**PADDED, tables={"row_starts": np.arange(5).reshape(1, 1, 5, 1)}),
    (Code.WINDOW_TABLES, "other_width_of_the_window"): pool(**PADDED, tables={"width_float": np.float32(2)}),
    (Code.WINDOW_TABLES, "other_width_of_the_plane"): pool(**PADDED, tables={"columns": 11}),
    (Code.WINDOW_TABLES, "padding_not_taken_off"): pool(**PADDED, tables={"column_pad": 0}),
    (Code.WINDOW_TABLES, "rounded_to_nothing"): pool(
        **PADDED, row="d_float = Cast <to=1> (a)\nd_part = Div (d_float, width_float)\nd = Cast <to=7> (d_part)"
    ),
    (Code.WINDOW_TABLES, "answers_of_other_windows"): pool(
        **PADDED,
        column="o = GatherElements <axis=3> (a, order)\ne = Mod <fmod=0> (o, width)\n"
        "es = Mul (e, column_dilation)\nh_canvas = Add (column_starts, es)\nh = Sub (h_canvas, column_pad)",
        tables={"order": np.broadcast_to(np.arange(6)[::-1], (2, 3, 5, 6)).copy()},
    ),
    (Code.WINDOW_TABLES, "a_window_that_looks_elsewhere"): pool(**PADDED, tables={"coordinates": moved()}),
    (Code.WINDOW_TABLES, "windows_that_are_not_evenly_spaced"): pool(**PADDED, tables=irregular()),
    (Code.WINDOW_TABLES, "windows_of_a_part_of_the_plane"): pool((8, 6), (2, 2), (2, 2), begins=(-2, 0)),
    (Code.WINDOW_TABLES, "windows_on_top_of_each_other"): pool((4, 6), (2, 2), (2, 2), tables=repeated()),
    (Code.WINDOW_TABLES, "windows_that_read_an_element_twice"): pool((8, 6), (2, 2), (2, 2), dilations=(0, 1)),
    (Code.WINDOW_TABLES, "padded_with_zeros"): pool(**PADDED, tables={"minus_infinity": np.float32(0)}),
    (Code.WINDOW_TABLES, "planes_exchanged"): pool(
        (8, 6),
        (2, 2),
        (2, 2),
        tables={"split_shape": [3, 2, 4, 3, 4]},
        to_back="b = Transpose <perm=[5,4,0,2,1,3]> (g)",
        indices="r = Reshape (p, row_shape)",
        outputs="float[2,3,8,6] dx",
    ),
    (Code.WINDOW_TABLES, "reflected"): pool(**PADDED, pad='c = Pad <mode="reflect"> (x, pads)'),
    (Code.WINDOW_TABLES, "coordinates_of_one_axis"): pool(
        **PADDED, tables={"coordinates": coordinates(pool(**PADDED))[..., :1]}
    ),
    (Code.WINDOW_TABLES, "four_axes"): pool((2, 3, 2, 2), (1, 2, 1, 1), (1, 1, 1, 1)),
    (Code.WINDOW_TABLES, "no_planes"): pool((4, 6), (2, 2), (2, 2), planes=(0, 3)),
    (Code.WINDOW_TABLES, "no_windows"): pool((4, 6), (5, 2), (2, 2)),
    (Code.WINDOW_TABLES, "maximum_over_another_axis"): pool(
        (4, 4), (1, 2), (1, 2), maximum="a = ArgMax <axis=-2, keepdims=0> (w)"
    ),
    (Code.WINDOW_TABLES, "pads_of_named_axes"): pool(
        **PADDED,
        pad="c = Pad (x, plane_pads, minus_infinity, plane_axes)",
        tables={"plane_pads": [1, 1, 1, 1], "plane_axes": [2, 3]},
    ),
    (Code.WINDOW_TABLES, "windows_of_a_function_of_x"): pool(
        **PADDED, to_front="o = Transpose <perm=[2,3,0,1]> (c)\nt = Neg (o)"
    ),
    # two that the form leaves to others: no producer writes them
    (Code.INDICES_SOURCE, "windows_transposed_twice"): pool(
        **PADDED, to_back="o = Transpose <perm=[4,5,0,1,2,3]> (g)\nb = Transpose <perm=[0,1,2,4,3,5]> (o)"
    ),
    (Code.DX_SHAPE, "answers_that_are_positions"): pool((4, 5), (4, 5), (1, 1), indices="r = Reshape (a, row_shape)"),
    (Code.REDUCTION, "overwriting"): pool(**PADDED, scatter="s = ScatterElements <axis=1> (z, r, u)"),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, model: ModelProto, says: Says) -> None:
    says(check_refused(model, code))
