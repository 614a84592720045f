# SPDX-License-Identifier: Apache-2.0

"""ScatterND with addition, text in and text out: its two spellings, and near misses with the reason each gets."""

from __future__ import annotations

from typing import Any

import onnx
import onnx.parser
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.graphs import Written
from tests.patterns.lookalikes.scatter import gradient
from tests.patterns.lowering_checks import NearMisses, check_lowered, check_refused, near_misses
from tests.texts import Says

FIRST = [108 * plane for plane in range(6)]
LAST = "int64[1] last = {-1}"


def repeated(numbers: list[int], times: int = 1) -> str:
    """Numbers as text, each several times."""
    return ", ".join(str(number) for number in numbers for _ in range(times))


BASE = f"int64[2,3,1,1] base = {{{repeated(FIRST)}}}"
ROWS = f"int64[6,30,1] table = {{{repeated(list(range(6)), 30)}}}"


def flat(base: str = BASE, **steps: Any) -> str:
    """On the flattened tensor, by indices to which a table adds their plane's first index."""
    constants = {
        "base": base,
        "last": LAST,
        "row_shape": "int64[1] row_shape = {-1}",
        "canvas_shape": "int64[1] canvas_shape = {648}",
    }
    changed = {
        "rows": "a = Add (p, base)\nw = Reshape (a, row_shape)\nv = Unsqueeze (w, last)",
        "scatter": 's = ScatterND <reduction="add"> (z, v, u)',
    }
    return gradient(constants=constants, **(changed | steps))


def by_rows(table: str = ROWS, constants: dict[str, str] | None = None, **steps: Any) -> str:
    """On rows, one per plane, by a table of the rows' numbers joined to the indices."""
    changed = {
        "rows": "r = Reshape (p, row_shape)\nw = Unsqueeze (r, last)\nv = Concat <axis=-1> (table, w)",
        "scatter": 's = ScatterND <reduction="add"> (z, v, u)',
    }
    return gradient(constants={"table": table, "last": LAST} | (constants or {}), **(changed | steps))


THREE_AXES = {
    "row_shape": "int64[3] row_shape = {2, 3, 30}",
    "canvas_shape": "int64[3] canvas_shape = {2, 3, 108}",
    "channel": f"int64[2,3,30,1] channel = {{{repeated([0, 1, 2, 0, 1, 2], 30)}}}",
}
SPELLINGS = {
    "flat": flat(),
    "base_in_front": flat(rows="a = Add (base, p)\nw = Reshape (a, row_shape)\nv = Unsqueeze (w, last)"),
    "base_on_rows": flat(
        f"int64[6,1] base = {{{repeated(FIRST)}}}, int64[2] as_rows = {{6, 30}}",
        rows="q = Reshape (p, as_rows)\na = Add (q, base)\nw = Reshape (a, row_shape)\nv = Unsqueeze (w, last)",
    ),
    "base_of_every_index": flat(
        f"int64[180] base = {{{repeated(FIRST, 30)}}}",
        rows="q = Reshape (p, row_shape)\na = Add (q, base)\nv = Unsqueeze (a, last)",
    ),
    "base_of_every_line": flat(f"int64[2,3,5,1] base = {{{repeated(FIRST, 5)}}}"),
    "indices_in_the_pooled_shape": flat(
        rows="a = Add (p, base)\nb = Identity (a)\nv = Unsqueeze (b, last)",
        updates="",
        scatter='s = ScatterND <reduction="add"> (z, v, dy)',
    ),
    "an_expand_that_changes_nothing": flat(
        rows="a = Add (p, base)\nw = Reshape (a, row_shape)\nn = Shape (w)\ne = Expand (w, n)\nv = Unsqueeze (e, last)",
        updates="f = Reshape (dy, row_shape)\nu = Expand (f, one)",
        base=f"{BASE}, int64[1] one = {{1}}",
    ),
    "zeros_added": flat(
        f"{BASE}, float[648] more = {{{repeated([0], 648)}}}", result="t = Add (more, s)\ndx = Reshape (t, x_shape)"
    ),
    "base_by_range": flat(
        "int64 none = {0}, int64 planes = {6}, int64 each = {1}, int64 plane = {108}, "
        "int64[4] per_plane = {2, 3, 1, 1}",
        rows="""n = Range (none, planes, each)
            m = Mul (n, plane)
            base = Reshape (m, per_plane)
            a = Add (base, p)
            w = Reshape (a, row_shape)
            v = Unsqueeze (w, last)""",
    ),
    "rows_by_range": by_rows(
        "int64 none = {0}, int64 planes = {6}, int64 each = {1}, int64[2] column = {6, 1}",
        rows="""n = Range (none, planes, each)
            c = Reshape (n, column)
            r = Reshape (p, row_shape)
            c_shape = Shape (c)
            r_shape = Shape (r)
            both = Max (c_shape, r_shape)
            e = Expand (c, both)
            t = Unsqueeze (e, last)
            f = Expand (r, both)
            w = Unsqueeze (f, last)
            v = Concat <axis=-1> (t, w)""",
    ),
    "rows": by_rows(),
    "rows_along_a_positive_axis": by_rows(
        rows="r = Reshape (p, row_shape)\nw = Unsqueeze (r, last)\nv = Concat <axis=2> (table, w)"
    ),
    "rows_by_batch_and_channel": by_rows(
        f"int64[2,3,30,1] batch = {{{repeated([0, 1], 90)}}}",
        THREE_AXES,
        rows="r = Reshape (p, row_shape)\nw = Unsqueeze (r, last)\nv = Concat <axis=-1> (batch, channel, w)",
    ),
    "one_table_for_batch_and_channel": by_rows(
        f"int64[2,3,30,2] table = {{{', '.join(f'{n}, {c}' for n in range(2) for c in range(3) for _ in range(30))}}}",
        THREE_AXES,
    ),
}


def symbolic(join: str, *inputs: str) -> str:
    """One plane of symbolic size, by indices in the whole tensor; `join` makes the entries v of the indices w."""
    x = ", ".join(("float[1,1,h,w] x", "float[u] u", *inputs))
    return gradient(
        row_shape=[-1],
        constants={"last": LAST},
        inputs=x,
        outputs="float[1,1,h,w] dx",
        companion="",
        first="",
        plane_local="",
        rows=f"r = Reshape (i, row_shape)\nw = Unsqueeze (r, last)\n{join}",
        updates="",
        canvas="k = Size (x)\nc = Reshape (k, row_shape)\nz = Expand (zero, c)",
        scatter='s = ScatterND <reduction="add"> (z, v, u)',
        result="n = Shape (x)\ndx = Reshape (s, n)",
    )


@pytest.mark.parametrize("source", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(source: str, written: Written) -> None:
    check_lowered(source, written)


def test_symbolic_sizes() -> None:
    """The near misses of `symbolic` differ from this in one Concat."""
    model = onnx.parser.parse_model(symbolic("v = Identity (w)"))
    assert "npu" in {node.domain for node in lower(model, target="atlas-a2").model.graph.node}


def unlike(numbers: list[int], position: int, number: int) -> list[int]:
    """The numbers with another one at a position."""
    return [*numbers[:position], number, *numbers[position + 1 :]]


BATCH_AND_CHANNEL = "r = Reshape (p, row_shape)\nw = Unsqueeze (r, last)\nv = Concat <axis=-1> (batch, channel, w)"
PAIRS = "int64[3] pairs = {3, 30, 2}, int64[2] halves = {3, 30}"
NEAR_MISSES: NearMisses = {
    # the table of each plane's first index
    (Code.PLANE_BASE, "one_base_is_another"): flat(f"int64[2,3,1,1] base = {{{repeated(unlike(FIRST, 5, 432))}}}"),
    (Code.PLANE_BASE, "base_along_the_channels_alone"): flat(f"int64[1,3,1,1] base = {{{repeated(FIRST[:3])}}}"),
    (Code.PLANE_BASE, "base_along_the_width"): flat(f"int64[1,1,1,6] base = {{{repeated(FIRST)}}}"),
    (Code.PLANE_BASE, "base_is_an_input"): flat("int64 unused = {0}", more="int64[2,3,1,1] base"),
    (Code.PLANE_BASE, "base_on_whole_tensor_indices"): flat(
        rows="a = Add (i, base)\nw = Reshape (a, row_shape)\nv = Unsqueeze (w, last)"
    ),
    (Code.ROWS_NOT_PLANES, "no_base"): flat(rows="w = Reshape (p, row_shape)\nv = Unsqueeze (w, last)"),
    # the table of rows
    (Code.ROWS_NOT_PLANES, "one_row_is_another"): by_rows(
        f"int64[6,30,1] table = {{{repeated(unlike([int(r) for r in range(6) for _ in range(30)], 31, 0))}}}"
    ),
    (Code.UNKNOWN_SHAPE, "one_row_without_axes"): by_rows("int64 table = {0}", {"declared": "int64[6,30,2] v"}),
    (Code.ROWS_NOT_PLANES, "one_channel_is_another"): by_rows(
        f"int64[2,3,30,1] batch = {{{repeated([0, 1], 90)}}}",
        THREE_AXES | {"channel": f"int64[2,3,30,1] channel = {{{repeated([0, 1, 2, 0, 2, 1], 30)}}}"},
        rows=BATCH_AND_CHANNEL,
    ),
    (Code.ROWS_NOT_PLANES, "channels_are_an_input"): by_rows(
        f"int64[2,3,30,1] batch = {{{repeated([0, 1], 90)}}}",
        {**THREE_AXES, "channel": "int64 unused = {0}"},
        more="int64[2,3,30,1] channel",
        rows=BATCH_AND_CHANNEL,
    ),
    (Code.ROWS_NOT_PLANES, "channels_of_fewer_axes"): by_rows(
        f"int64[2,3,30,1] batch = {{{repeated([0, 1], 90)}}}",
        THREE_AXES | {"channel": "int64[1,3,1,1] channel = {0, 1, 2}"},
        rows=BATCH_AND_CHANNEL,
    ),
    (Code.ROWS_NOT_PLANES, "rows_of_unknown_length"): by_rows(
        more="int64[6,k,1] more",
        rows="r = Reshape (p, row_shape)\nw = Unsqueeze (r, last)\nv = Concat <axis=-1> (more, w)",
    ),
    (Code.ROWS_NOT_PLANES, "pairs_of_positions"): by_rows(
        PAIRS, rows="v = Reshape (p, pairs)", updates="u = Reshape (dy, halves)"
    ),
    (Code.ROWS_NOT_PLANES, "pairs_of_positions_joined_to_nothing"): by_rows(
        PAIRS, rows="w = Reshape (p, pairs)\nv = Concat <axis=-1> (w)", updates="u = Reshape (dy, halves)"
    ),
    (Code.ROWS_NOT_PLANES, "a_batch_and_pairs_of_positions"): by_rows(
        f"int64[2,3,15,1] batch = {{{repeated([0, 1], 45)}}}",
        {
            "pairs": "int64[4] pairs = {2, 3, 15, 2}",
            "row_shape": "int64[3] row_shape = {2, 3, 15}",
            "canvas_shape": "int64[3] canvas_shape = {2, 3, 108}",
        },
        rows="w = Reshape (p, pairs)\nv = Concat <axis=-1> (batch, w)",
    ),
    (Code.ROWS_NOT_PLANES, "entries_of_more_axes_than_the_rows"): by_rows(
        f"int64[1,1,180,1] table = {{{repeated([0], 180)}}}",
        {"row_shape": "int64[3] row_shape = {1, 1, 180}", "canvas_shape": "int64[2] canvas_shape = {1, 648}"},
        rows="r = Reshape (i, row_shape)\nw = Unsqueeze (r, last)\nv = Concat <axis=-1> (table, w)",
    ),
    (Code.ROWS_NOT_PLANES, "tables_below_each_other"): by_rows(
        f"int64[3,30,2] table = {{{repeated([0], 180)}}}",
        {"pairs": "int64[3] pairs = {3, 30, 2}"},
        rows="w = Reshape (p, pairs)\nv = Concat <axis=0> (table, w)",
    ),
    (Code.INDICES_SOURCE, "positions_joined_to_others_for_elements"): gradient(
        constants={"others": f"int64[6,30] others = {{{repeated([0], 180)}}}"},
        rows="q = Reshape (p, row_shape)\nr = Concat <axis=1> (others, q)",
        updates="f = Reshape (dy, row_shape)\nu = Concat <axis=1> (f, f)",
    ),
    (Code.ROWS_NOT_PLANES, "rows_are_an_input"): by_rows("int64 unused = {0}", more="int64[6,30,1] table"),
    (Code.ROWS_NOT_PLANES, "channel_before_batch"): by_rows(
        f"int64[2,3,30,1] batch = {{{repeated([0, 1], 90)}}}",
        THREE_AXES | {"canvas_shape": "int64[3] canvas_shape = {3, 2, 108}"},
        rows="r = Reshape (p, row_shape)\nw = Unsqueeze (r, last)\nv = Concat <axis=-1> (channel, batch, w)",
    ),
    (Code.INDICES_NUMBERING, "whole_tensor_indices_on_rows"): by_rows(
        rows="r = Reshape (i, row_shape)\nw = Unsqueeze (r, last)\nv = Concat <axis=-1> (table, w)"
    ),
    # the scatter
    (Code.ROWS_NOT_PLANES, "slices"): flat(
        f"{BASE}, int64[2] slices = {{-1, 1}}, int64[2] canvas_slices = {{648, 1}}",
        canvas="z = Expand (zero, canvas_slices)",
        updates="u = Reshape (dy, slices)",
    ),
    (Code.REDUCTION, "maximum"): flat(scatter='s = ScatterND <reduction="max"> (z, v, u)'),
    (Code.ROWS_NOT_PLANES, "other_entries_in_front"): symbolic(
        "v = Concat <axis=0> (foreign, w)", "int64[f,1] foreign"
    ),
    (Code.INDICES_SOURCE, "other_entries_behind_those_of_the_pool"): symbolic(
        "v = Concat <axis=0> (w, foreign)", "int64[f,1] foreign"
    ),
    (Code.ROWS_NOT_PLANES, "entries_of_the_pool_twice"): symbolic("v = Concat <axis=-2> (w, w)"),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, model: str, says: Says) -> None:
    says(check_refused(model, code))
