# SPDX-License-Identifier: Apache-2.0

"""AdaptiveMaxPool written out by tables: every kind of sizes that is lowered, and tables with one thing changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.graphs import Written
from tests.oracles import assert_same_bits, run_ort
from tests.patterns.lowering_checks import TARGETS, NearMisses, check_lowered, check_refused, near_misses
from tests.patterns.written_out import adaptive, adaptive_windows
from tests.texts import Says

SPELLINGS = {
    "two_axes_that_do_not_divide": adaptive((5, 7), (3, 4)),
    "one_axis_whose_argmax_has_the_pooled_shape": adaptive((25,), (7,)),
    "sizes_that_divide_become_a_max_pool": adaptive((6, 8), (3, 2)),
    # Of nested pools the inner one reads rows (N, C, 35): its tables tell that they were 5 by 7.
    "a_plane_whose_shape_was_merged_away": adaptive((5, 7), (3, 4), x_shape=(2, 3, 35), flat="f = Identity (x)"),
    "rows_of_two_axes": adaptive((5, 7), (3, 4), tables={"flat_shape": [6, 35]}),
    "half_types_between_casts": adaptive(
        (5, 7),
        (3, 4),
        element_type="float16",
        updates="v = Reshape (dy, row_shape)\nu = Cast <to=1> (v)",
        result="d = Cast <to=10> (s)\ndx = Reshape (d, x_shape)",
        tables={"zero": np.float32(0)},
    ),
}


@pytest.mark.parametrize("model", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(model: ModelProto, written: Written) -> None:
    check_lowered(model, written, runners=[run_ort])  # onnx's evaluator takes no negative axis in GatherElements


SIZES = [((5,), (2,)), ((3, 4), (5, 6)), ((13, 15), (4, 4)), ((1, 7), (1, 3)), ((4, 5, 6), (3, 2, 4)), ((7, 7), (7, 7))]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("sizes", "counts"), SIZES)
def test_against_torch(sizes: tuple[int, ...], counts: tuple[int, ...], target: str) -> None:
    torch = pytest.importorskip("torch")
    result = lower(adaptive(sizes, counts), target=target)
    assert [anchor.pattern for anchor in result.report.anchors] == ["adaptive_window_tables"]
    random = np.random.default_rng(len(sizes))
    x = random.integers(0, 4, (2, 3, *sizes)).astype(np.float32)  # ties: torch takes the first of them too
    dy = random.integers(-4, 5, (2, 3, *counts)).astype(np.float32)  # sums of them are exact in any order
    leaf = torch.tensor(x, requires_grad=True)
    pooling = getattr(torch.nn.functional, f"adaptive_max_pool{len(sizes)}d")
    pooling(leaf, counts).backward(torch.tensor(dy))
    assert_same_bits(run_ort(result.model, {"x": x, "dy": dy})["dx"], leaf.grad.numpy())


POSITIONS, MASK = adaptive_windows((5, 7), (3, 4))


def changed(table: Any, at: tuple[int, ...], value: Any) -> Any:
    """Return a copy of a table with one element changed."""
    copy = np.array(table)
    copy[at] = value
    return copy


def everywhere(table: Any) -> Any:
    """Return the table of positions for all planes."""
    return np.broadcast_to(table, (2, 3, *table.shape)).copy()


def swapped(table: Any, one: int, other: int) -> Any:
    """Return a copy of a table with two columns exchanged."""
    copy = np.array(table)
    copy[:, [one, other]] = copy[:, [other, one]]
    return copy


NEAR_MISSES: NearMisses = {
    (Code.WINDOW_TABLES, "a_window_that_reads_elsewhere"): adaptive(
        (5, 7), (3, 4), tables={"windows": changed(POSITIONS, (2, 1), 30).reshape(-1)}
    ),
    (Code.WINDOW_TABLES, "a_position_that_was_not_read"): adaptive(
        (5, 7), (3, 4), tables={"positions": everywhere(changed(POSITIONS, (2, 1), 30))}
    ),
    (Code.WINDOW_TABLES, "positions_that_differ_between_planes"): adaptive(
        (5, 7), (3, 4), tables={"positions": changed(everywhere(POSITIONS), (1, 2, 2, 1), 30)}
    ),
    (Code.WINDOW_TABLES, "other_windows_than_adaptive_ones"): adaptive(
        (5, 7),
        (3, 4),
        tables={
            "windows": changed(POSITIONS, (2, 1), 30).reshape(-1),
            "positions": everywhere(changed(POSITIONS, (2, 1), 30)),
        },
    ),
    (Code.WINDOW_TABLES, "one_element_more"): adaptive((5, 7), (3, 4), tables={"mask": np.ones_like(MASK)}),
    (Code.WINDOW_TABLES, "one_element_less"): adaptive((5, 7), (3, 4), tables={"mask": changed(MASK, (0, 1), False)}),
    (Code.WINDOW_TABLES, "another_order_in_each_window"): adaptive(
        (5, 7),
        (3, 4),
        tables={
            "windows": swapped(POSITIONS, 0, 1).reshape(-1),
            "positions": everywhere(swapped(POSITIONS, 0, 1)),
            "mask": MASK,
        },
    ),
    (Code.WINDOW_TABLES, "masked_with_zeros"): adaptive((5, 7), (3, 4), tables={"minus_infinity": np.float32(0)}),
    (Code.WINDOW_TABLES, "a_window_beyond_the_plane"): adaptive(
        (5, 7), (3, 4), tables={"windows": changed(POSITIONS, (2, 1), 35).reshape(-1)}
    ),
    (Code.WINDOW_TABLES, "a_window_before_the_plane"): adaptive(
        (5, 7), (3, 4), tables={"windows": changed(POSITIONS, (0, 0), -36).reshape(-1)}
    ),
    (Code.WINDOW_TABLES, "no_gather"): adaptive((4, 6), (2, 3), gather="g = Neg (f)"),
    (Code.WINDOW_TABLES, "windows_from_outside"): adaptive(
        (4, 6), (2, 2), maximum="a = ArgMax <axis=-1, keepdims=0> (x)"
    ),
    (Code.WINDOW_TABLES, "maximum_over_another_axis"): adaptive(
        (4,), (2,), maximum="a = ArgMax <axis=-2, keepdims=0> (m)"
    ),
    (Code.WINDOW_TABLES, "one_plane_as_a_vector"): adaptive((5, 7), (3, 4), planes=(1, 1), tables={"flat_shape": [35]}),
    (Code.WINDOW_TABLES, "no_planes"): adaptive((5, 7), (3, 4), planes=(0, 3)),
    (Code.WINDOW_TABLES, "four_axes"): adaptive((3, 3, 3, 3), (2, 2, 2, 2)),
    (Code.WINDOW_TABLES, "rows_of_planes_whose_batch_was_merged_away"): adaptive(
        (5, 7), (3, 4), x_shape=(6, 35), flat="f = Identity (x)"
    ),
    (Code.REDUCTION, "overwriting"): adaptive((5, 7), (3, 4), scatter="s = ScatterElements <axis=1> (z, r, u)"),
    (Code.ROW_LENGTH, "rows_of_another_tensor"): adaptive(
        (5, 7), (3, 4), tables={"canvas_shape": [6, 36]}, outputs="float[6,36] s", result=""
    ),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, model: ModelProto, says: Says) -> None:
    says(check_refused(model, code))
