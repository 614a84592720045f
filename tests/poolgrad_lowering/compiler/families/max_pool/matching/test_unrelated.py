# SPDX-License-Identifier: Apache-2.0

"""Scatters that are proven to be no gradient of a pool are unrelated; what is close to them stays refused."""

from __future__ import annotations

import json

import onnx
import pytest

from poolgrad_lowering import LoweringPlan, PlanError, SiteChoice, inspect, lower
from tests.heads import head
from tests.patterns.lookalikes.scatter import gradient

POOL = "y, i = MaxPool <kernel_shape=[2]> (x)"
LABELS = "float[4,3,9] x, float[4,1] dy, int64[4] t"
CONSTANTS = "int64[1] one = {1}, int64 none = {-100}, int64 first = {0}, int64[1] last = {-1}"
ZEROS = "int64[2] sizes = {4, 3}, float zero = {0}"
TABLES = """int64 low = {0}, int64 high = {3}, int64[2] column14 = {14, 1},
    int64[2] rows14 = {14, 3}, int64[2] rows2 = {4, 2},
    int64[8,3] pairs = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3},
    int64[2,3] columns = {0, 1, 2, 3, 0, 1}"""
MINUS_ONE = "int64[2] column = {4, 1}, float minus = {-1}"


def one_hot(
    positions: str = "r = Unsqueeze (t, one)",
    *,
    inputs: str = LABELS,
    updates: str = "u = Expand (minus, column)",
    scatter: str = "s = ScatterElements <axis=1> (z, r, u)",
) -> str:
    """A MaxPool, and a scatter onto zeros by labels."""
    return f"""{head(18, "other")}
        g ({inputs}) => (float[4,3,8] y, float s) <{CONSTANTS}, {ZEROS}, {TABLES}, {MINUS_ONE}>
        {{ {POOL} z = Expand (zero, sizes) {positions} {updates} {scatter} }}"""


COMPUTED = "u = Mul (dy, dy)"
UNRELATED = {
    "labels": one_hot(),
    "labels_with_computed_updates": one_hot(updates=COMPUTED),
    "labels_of_32_bits": one_hot("q = Unsqueeze (t, one) r = Cast <to=7> (q)", inputs=LABELS.replace("int64", "int32")),
    "labels_through_many_operators": one_hot(
        """c = Cast <to=7> (t) w = Unsqueeze (c, one) e = Equal (w, none) k = Not (e) a = Where (k, w, first)
        n = Concat <axis=1> (a, a) m = Add (n, n) r = Sub (m, n)""",
        updates="u = ConstantOfShape (column)",
    ),
    "labels_of_the_next_word": one_hot(
        """ends = Constant <value_ints = [0, 1]> () five = Constant <value_ints = [5]> ()
        p = Pad (t, ends, none) n = Slice (p, one, five)
        q = Abs (n) w = Neg (q) a = Sign (w) b = Max (a, n) d = Min (b, n)
        f = GatherElements (d, ids) r = Unsqueeze (f, one)""",
        inputs=f"{LABELS}, int64[4] ids", updates="u = ConstantOfShape (column)"),
    "labels_of_an_image": one_hot(
        "r = Unsqueeze (t, one)", inputs="float[4,3,9] x, float[4,1] dy, int64[4,5,6] t",
        scatter="f = Shape (r) v = Expand (minus, f) g0 = ConstantOfShape (f) s = ScatterElements <axis=1> (g0, r, v)"),
    "constants_onto_zeros": one_hot("r = ConstantOfShape <value = int64[1] {2}> (column)"),
    "rows_of_an_embedding": one_hot(
        "r = Unsqueeze (t, last)", inputs="float[4,3,9] x, float[4,7,3] dy, int64[4,7] t", updates="u = Neg (dy)",
        scatter='s = ScatterND <reduction="add"> (z, r, u)'),
    "rows_of_an_embedding_by_elements": one_hot(
        "q = Clip (t, low, high) w = Reshape (q, column14) r = Expand (w, rows14)",
        inputs="float[4,3,9] x, float[14,3] dy, int64[2,7] t", updates="u = Neg (dy)",
        scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)'),
    "rows_of_tokens_by_a_tile": one_hot(
        "q = Clip (t, low, high) w = Reshape (q, column14) n = Constant <value_ints = [1, 3]> () r = Tile (w, n)",
        inputs="float[4,3,9] x, float[14,3] dy, int64[2,7] t", updates="u = Neg (dy)",
        scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)'),
    "ends_of_edges_that_are_no_loops": one_hot(
        """a = Gather (t, first) b = Gather (t, high) m = Equal (a, b) k = Not (m) p = NonZero (k)
        w = Transpose <perm=[1, 0]> (p) q = Transpose <perm=[1, 0]> (t) g0 = GatherND (q, w)
        n = Transpose <perm=[1, 0]> (g0) c = Concat <axis=1> (n, t) e = Gather (c, first) r = Unsqueeze (e, one)""",
        inputs="float[4,3,9] x, float[4,1] dy, int64[4,2] t", updates="u = Neg (dy)",
        scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)'),
    "rows_of_an_upsampling": one_hot(
        "r = Identity (pairs)", inputs="float[4,3,9] x, float[8,3] dy", updates="u = Neg (dy)",
        scatter='s = ScatterElements <axis=-2, reduction="add"> (z, r, u)'),
    "one_row_of_indices_for_several": one_hot(
        "r = Expand (row, rows2)", inputs="float[4,3,9] x, float[4,2] dy, int64[2] row", updates="u = Neg (dy)",
        scatter='s = ScatterElements <axis=1, reduction="add"> (z, r, u)'),
    "the_same_elements_in_each_row": one_hot(
        "r = Expand (row, rows2)", inputs="float[4,3,9] x, float[4,2] dy, int64[1,2] row", updates="u = Neg (dy)",
        scatter='s = ScatterElements <axis=1, reduction="add"> (z, r, u)'),
}  # fmt: skip
_TOP = "float[4,3,9] x, float[4,3] v, float[4,2] dy"
_BY_ROW = 's = ScatterElements <axis=1, reduction="add"> (z, r, u)'
_DY = "u = Neg (dy)"


def of_top(search: str, *, inputs: str = _TOP, updates: str = _DY, scatter: str = _BY_ROW) -> str:
    """A scatter by positions that are searched in the rows of `v`."""
    return one_hot(search, inputs=inputs, updates=updates, scatter=scatter)


def of_mask(mask: str, *, more: str = "", inputs: str = "") -> str:
    """The gradient of the elements of `v` that a mask keeps."""
    return one_hot(
        f"{mask} n = NonZero (m) {more or 'r = Transpose <perm=[1,0]> (n)'}",
        inputs=f"float[4,3,9] x, float[4,3] v, float[4,3] w, float[K] dy{inputs}",
        updates=_DY,
        scatter='s = ScatterND <reduction="add"> (z, r, u)',
    )


TWO = "two = Constant <value_ints = [2]> ()"
ONE = "k1 = Constant <value_ints = [1]> ()"
OTHER_POSITIONS = {
    "two_largest": of_top(f"{TWO} t, r = TopK (v, two)"),
    "two_smallest": of_top(f"{TWO} t, r = TopK <largest=0> (v, two)"),
    "two_largest_counted_over_all": one_hot(
        f"{TWO} t, i2 = TopK (v, two) q = Mul (i2, one) r = Reshape (q, flat)",
        inputs=_TOP,
        updates="u = Reshape (dy, flat)",
        scatter="flat = Constant <value_ints = [-1]> () f = Reshape (z, flat) s = ScatterElements <axis=0> (f, r, u)",
    )
    .replace("{ y, i", "{ flat = Constant <value_ints = [-1]> () y, i")
    .replace("flat = Constant <value_ints = [-1]> () f", "f"),
    "smallest": of_top(f"{ONE} t, r = TopK <largest=0> (v, k1)", inputs=_TOP.replace("4,2", "4,1")),
    "minimum": of_top("r = ArgMin <axis=1> (v)", inputs=_TOP.replace("4,2", "4,1")),
    "minimum_of_a_layer": of_top("a = Softmax (v) r = ArgMin <axis=1> (a)", inputs=_TOP.replace("4,2", "4,1")),
    "mask": of_mask("m = Greater (v, zero)"),
    "mask_of_a_product": of_mask("p = Mul (v, w) m = Greater (p, zero)"),
    "mask_of_a_layer": of_mask("p = MatMul (v, w3) a = Relu (p) m = Greater (a, zero)", inputs=", float[3,3] w3"),
    "mask_of_a_layer_and_its_input": of_mask(
        "p = MatMul (v, w3) a = Add (p, v) m = Less (a, zero)", inputs=", float[3,3] w3"
    ),
    "coordinates_apart": of_mask(
        "m = Greater (v, zero)",
        more="""i0 = Constant <value_ints = [0]> () i1 = Constant <value_ints = [1]> ()
        a = Gather <axis=0> (n, i0) b = Gather <axis=0> (n, i1) c = Concat <axis=0> (a, b)
        r = Transpose <perm=[1,0]> (c)""",
    ),
    "mask_of_labels": of_mask("e = Equal (t, none) m = Not (e)", inputs=", int64[4,3] t"),
    "labels_with_a_number_for_none": one_hot(
        "c = Equal (t, last) d = Not (c) r = Where (d, t, first)",
        inputs="float[4,3,9] x, float[4,3] dy, int64[4,3] t",
        updates=_DY,
        scatter=_BY_ROW,
    ),
    "slices_by_any_positions": one_hot(
        "f = Floor (w) q = Cast <to=7> (f) r = Unsqueeze (q, last)",
        inputs="float[4,3,9] x, float[2] w, float[2,3] dy",
        updates=_DY,
        scatter='s = ScatterND <reduction="add"> (z, r, u)',
    ),
}
MAY_BE_MAXIMA = {
    "largest_of_two": of_top(
        f"{TWO} t, p = TopK (v, two) b = Constant <value_ints = [0]> () r = Slice (p, b, one, one)",
        inputs=_TOP.replace("4,2", "4,1"),
    ),
    "two_largest_with_zeros_for_one": of_top(
        f"{TWO} t, r = TopK (v, two)",
        inputs=_TOP.replace("4,2", "4,1"),
        updates="c = Constant <value = float[4,1] {0,0,0,0}> () u = Concat <axis=1> (dy, c)",
    ),
    "so_many_from_outside": of_top("t, r = TopK (v, k)", inputs=f"{_TOP}, int64[1] k"),
    "largest": of_top(f"{ONE} t, r = TopK (v, k1)", inputs=_TOP.replace("4,2", "4,1")),
    "minimum_of_negated": of_top("a = Neg (v) r = ArgMin <axis=1> (a)", inputs=_TOP.replace("4,2", "4,1")),
    "minimum_of_differences": of_top(
        "a = Sub (zero, v) e = Exp (a) r = ArgMin <axis=1> (e)", inputs=_TOP.replace("4,2", "4,1")
    ),
    "minimum_of_negative_products": of_top(
        "f = Constant <value_float = -2.0> () a = Mul (v, f) r = ArgMin <axis=1> (a)", inputs=_TOP.replace("4,2", "4,1")
    ),
    "mask_of_differences_from_maxima": of_mask("h = ReduceMax (v, one) d = Sub (v, h) m = GreaterOrEqual (d, zero)"),
    "mask_of_neighbours": of_mask("h = Transpose <perm=[1,0]> (v) q = Reshape (h, sizes) m = Greater (v, q)"),
    "mask_from_outside": of_mask("m = Identity (given)", inputs=", bool[4,3] given"),
    "mask_of_one_hot_numbers": of_mask(
        "a = ArgMax <axis=1> (v) b = Constant <value = int64[1,3] {0,1,2}> () m = Equal (a, b)"
    ),
}
REFUSED = {
    **MAY_BE_MAXIMA,
    "floats": one_hot("q = Unsqueeze (t, one) r = Cast <to=7> (q)", inputs=LABELS.replace("int64", "float")),
    "through_floats": one_hot("f = Cast <to=1> (t) q = Unsqueeze (f, one) r = Cast <to=7> (q)"),
    "positions_of_elements": one_hot("r = NonZero (t)", inputs=LABELS.replace("[4] t", "[4,3] t"), updates=COMPUTED),
    "a_row_of_what_has_the_axes_of_a_tensor": one_hot(
        "v = Reshape (t, rows2) e = Gather (v, first) r = Unsqueeze (e, one)",
        inputs="float[4,3,9] x, float[2,1] dy, int64[2,2,1,2] t",
        updates=COMPUTED,
        scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)',
    ),
    "one_of_two_sources_is_a_tensor": one_hot("q = Unsqueeze (t, one) m = ArgMax <axis=1> (dy) r = Add (q, m)"),
    "a_random_number": one_hot("q = RandomUniform <shape=[4,1]> () r = Cast <to=7> (q)"),
    "unknown_operator": one_hot("q = Unsqueeze (t, one) r = other.Op (q)"),
    "recorded_by_a_pool_of_another_model": gradient(
        more="int64[2,3,5,6] labels", rows="r = Reshape (labels, row_shape)"
    ),
    "recorded_by_a_trace": one_hot("r = ConstantOfShape <value = int64[1] {2}> (column)", updates=COMPUTED),
    "other_elements_in_each_column": one_hot(
        "r = Identity (columns)", inputs="float[4,3,9] x, float[2,3] dy", updates="u = Neg (dy)",
        scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)'),
    "other_elements_in_each_column_of_an_input": one_hot(
        "r = Expand (t, rows14)", inputs="float[4,3,9] x, float[14,3] dy, int64[1,3] t", updates="u = Neg (dy)",
        scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)'),
    "one_column": one_hot(
        "w = Reshape (t, column) r = Expand (w, column)", inputs="float[4,3,9] x, float[4,1] dy, int64[2,2] t",
        updates="u = Neg (dy)", scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)'),
    "input_of_a_loop": head(18)
    + """
        g (int64 n, bool on, int64[4] t, float[4,3] z) => (float s)
        <int64[1] one = {1}, float[4,1] u = {-1, -1, -1, -1}> {
            last, s = Loop (n, on, t) <
                body = b (int64 step, bool go, int64[4] l) => (bool go2, int64[4] l2, float[4,3] f) {
                  go2 = Identity (go) l2 = Identity (l) r = Unsqueeze (l, one)
                  f = ScatterElements <axis=1> (z, r, u) }>
        }""",
}  # fmt: skip


@pytest.mark.parametrize(
    "text", [pytest.param(text, id=name) for name, text in {**UNRELATED, **OTHER_POSITIONS}.items()]
)
@pytest.mark.refusal("unrelated-indices")
def test_unrelated(text: str) -> None:
    model = onnx.parser.parse_model(text)
    result = lower(model)
    [anchor] = result.report.anchors
    assert (anchor.status, anchor.code) == ("unrelated", "unrelated-indices")
    assert result.report.unrelated == (anchor,)
    assert not result.report.refused
    assert not result.report.refused_by_code
    assert result.model.SerializeToString() == model.SerializeToString()


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in REFUSED.items()])
def test_refused(text: str) -> None:
    [anchor] = inspect(onnx.parser.parse_model(text)).anchors
    assert (anchor.status, anchor.code) == ("refused", "indices-source")


def test_the_reason_names_the_inputs() -> None:
    [anchor] = inspect(onnx.parser.parse_model(one_hot())).anchors
    assert anchor.reason == "no pool computes the indices 'r': they come from 't' and constants"


def test_a_deep_chain_is_refused() -> None:
    """The search of the graph is bounded, so that a model with many scatters stays quick to lower."""
    chain = " ".join(f"t{n + 1} = Add (t{n}, first)" for n in range(70))
    [anchor] = inspect(onnx.parser.parse_model(one_hot(f"t0 = Unsqueeze (t, one) {chain} r = Identity (t70)"))).anchors
    assert anchor.code == "indices-source"


def test_a_forward_graph_stays_one() -> None:
    """A graph whose only scatter is unrelated has no gradient."""
    [note] = inspect(onnx.parser.parse_model(one_hot())).notes
    assert note.code == "forward-graph"


def test_a_plan_cannot_lower_it() -> None:
    model = onnx.parser.parse_model(one_hot())
    plan = inspect(model).plan("")
    assert plan.sites == ()
    assert lower(model, plan=plan).model == model
    chosen = LoweringPlan(plan.target, "", (SiteChoice("main:s", "MaxPool3DGradWithArgmax", None),))
    with pytest.raises(PlanError, match=r"'main:s' cannot be lowered: .*\(unrelated-indices\)"):
        lower(model, plan=chosen)


def test_reports_count_it_apart() -> None:
    report = inspect(onnx.parser.parse_model(one_hot()))
    summary = json.loads(report.to_json())["summary"]
    assert (summary["anchors"], summary["refused"], summary["unrelated"]) == (1, 0, 1)
    assert "1 anchor, 0 lowered, 0 refused, 1 unrelated" in repr(report)
