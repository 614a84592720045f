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
    "labels_of_an_image": one_hot(
        "r = Unsqueeze (t, one)",
        inputs="float[4,3,9] x, float[4,1] dy, int64[4,5,6] t",
        scatter="f = Shape (r) v = Expand (minus, f) g0 = ConstantOfShape (f) s = ScatterElements <axis=1> (g0, r, v)",
    ),
    "constants_onto_zeros": one_hot("r = ConstantOfShape <value = int64[1] {2}> (column)"),
    "rows_of_an_embedding": one_hot(
        "r = Unsqueeze (t, last)",
        inputs="float[4,3,9] x, float[4,7,3] dy, int64[4,7] t",
        updates="u = Neg (dy)",
        scatter='s = ScatterND <reduction="add"> (z, r, u)',
    ),
    "rows_of_an_embedding_by_elements": one_hot(
        "q = Clip (t, low, high) w = Reshape (q, column14) r = Expand (w, rows14)",
        inputs="float[4,3,9] x, float[14,3] dy, int64[2,7] t",
        updates="u = Neg (dy)",
        scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)',
    ),
    "rows_of_an_upsampling": one_hot(
        "r = Identity (pairs)",
        inputs="float[4,3,9] x, float[8,3] dy",
        updates="u = Neg (dy)",
        scatter='s = ScatterElements <axis=-2, reduction="add"> (z, r, u)',
    ),
}
REFUSED = {
    "floats": one_hot("q = Unsqueeze (t, one) r = Cast <to=7> (q)", inputs=LABELS.replace("int64", "float")),
    "through_floats": one_hot("f = Cast <to=1> (t) q = Unsqueeze (f, one) r = Cast <to=7> (q)"),
    "positions_of_elements": one_hot("r = NonZero (t)"),
    "one_of_two_sources_is_a_tensor": one_hot("q = Unsqueeze (t, one) m = ArgMax <axis=1> (dy) r = Add (q, m)"),
    "a_random_number": one_hot("q = RandomUniform <shape=[4,1]> () r = Cast <to=7> (q)"),
    "unknown_operator": one_hot("q = Unsqueeze (t, one) r = other.Op (q)"),
    "recorded_by_a_pool_of_another_model": gradient(
        inputs="float[2,3,9,12] x, float[2,3,5,6] dy, int64[2,3,5,6] labels",
        rows="r = Reshape (labels, row_shape)",
    ),
    "recorded_by_a_trace": one_hot("r = ConstantOfShape <value = int64[1] {2}> (column)", updates=COMPUTED),
    "other_elements_in_each_column": one_hot(
        "r = Identity (columns)",
        inputs="float[4,3,9] x, float[2,3] dy",
        updates="u = Neg (dy)",
        scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)',
    ),
    "other_elements_in_each_column_of_an_input": one_hot(
        "r = Expand (t, rows14)",
        inputs="float[4,3,9] x, float[14,3] dy, int64[1,3] t",
        updates="u = Neg (dy)",
        scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)',
    ),
    "the_same_elements_in_each_row": one_hot(
        "r = Expand (row, rows2)",
        inputs="float[4,3,9] x, float[4,2] dy, int64[1,2] row",
        updates="u = Neg (dy)",
        scatter='s = ScatterElements <axis=1, reduction="add"> (z, r, u)',
    ),
    "one_column": one_hot(
        "w = Reshape (t, column) r = Expand (w, column)",
        inputs="float[4,3,9] x, float[4,1] dy, int64[2,2] t",
        updates="u = Neg (dy)",
        scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)',
    ),
    "input_of_a_loop": head(18)
    + """
        g (int64 n, bool on, int64[4] t, float[4,3] z) => (float s)
        <int64[1] one = {1}, float[4,1] u = {-1, -1, -1, -1}> {
            last, s = Loop (n, on, t) <
                body = b (int64 step, bool go, int64[4] l) => (bool go2, int64[4] l2, float[4,3] f) {
                  go2 = Identity (go) l2 = Identity (l) r = Unsqueeze (l, one)
                  f = ScatterElements <axis=1> (z, r, u) }>
        }""",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in UNRELATED.items()])
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
    plan = LoweringPlan.of(inspect(model), "")
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
