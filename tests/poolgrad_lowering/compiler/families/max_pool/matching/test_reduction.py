# SPDX-License-Identifier: Apache-2.0

"""Which ReduceMax is found to be over the windows of an ArgMax."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from poolgrad_lowering.compiler.families.max_pool.gradient import Reduction
from poolgrad_lowering.compiler.families.max_pool.matching.axis_maximum import (
    with_gathered_reduction,
    with_whole_reduction,
)
from poolgrad_lowering.dialect.op import Maximum
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import static_dims
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Value
from tests.pool_graphs import axis_record, parse

CONSTANTS = """
    last = Constant <value = int64[1] {3}> ()
    from_the_end = Constant <value = int64[1] {-1}> ()
    twice = Constant <value = int64[2] {3, -1}> ()
    before = Constant <value = int64[1] {2}> ()
    plane = Constant <value = int64[2] {3, 2}> ()
    apart = Constant <value = int64[2] {1, 3}> ()
    beyond = Constant <value = int64[2] {3, 4}> ()
    under = Constant <value = int64[2] {3, -5}> ()
    none = Constant <value = int64[0] {}> ()
    rows = Constant <value = int64[3] {2, 3, 20}> ()
    columns = Constant <value = int64[4] {2, 3, 20, 1}> ()
    lines = Constant <value = int64[2] {24, 5}> ()
    batches = Constant <value = int64[2] {2, 60}> ()
    zero = Constant <value = int64[1] {0}> ()
    first = Constant <value = int64[1] {-4}> ()
    fifth = Constant <value = int64[1] {4}> ()
"""


def reduction(
    nodes: str,
    *,
    x: str = "x",
    sizes: Sequence[int] = (2, 3, 4, 5),
    axis: int = -1,
    opset: int = 18,
    whole: bool = True,
) -> Reduction | None:
    """Of the gradient of the ArgMax a over an axis of x, a value of the main graph; a may be in a branch."""
    model = parse(
        f"""g (float[2,3,4,5] x, float[2,3,4,5] other, int64[1] given, int64[K] sizes_given, bool b) => (a) {{
            {CONSTANTS}
            {nodes}
        }}""",
        opset=opset,
        imports='"com.microsoft": 1',
    )
    index = ModelIndex(model)
    facts, main = Facts(index), index.scopes[0]
    [a] = [value for scope in index.scopes if scope.defines("a") and (value := scope.resolve("a")) is not None]
    assert a.producer is not None
    gradient = axis_record(Value(main, x), a, static_dims(sizes), axis % len(sizes))
    if whole:
        gradient = with_whole_reduction(facts, gradient, a.producer)
    else:
        gradient = with_gathered_reduction(facts, gradient, a.producer, is_adaptive=True)
    assert (gradient.pool is None) == (gradient.reduction is None)
    assert gradient.pool is None or gradient.pool.label == "y"
    return gradient.reduction


LAST = "a = ArgMax <axis = 3> (x)"
PLANE = "v = Reshape (x, rows) a = ArgMax <axis = -1> (v)"
FOUND = {  # nodes, and the sizes of the maxima
    "last": (f"{LAST} y = ReduceMax (x, last)", [2, 3, 4, 1]),
    "last_from_the_end": (f"{LAST} y = ReduceMax (x, from_the_end)", [2, 3, 4, 1]),
    "last_named_twice": (f"{LAST} y = ReduceMax (x, twice)", [2, 3, 4, 1]),
    "without_the_axis": (f"{LAST} y = ReduceMax <keepdims = 0> (x, last)", [2, 3, 4]),
    "before_the_search": (f"y = ReduceMax (x, last) {LAST}", [2, 3, 4, 1]),
    "first_from_the_end": ("a = ArgMax <axis = 0> (x) y = ReduceMax (x, first)", [1, 3, 4, 5]),
    "plane": (f"{PLANE} y = ReduceMax (x, plane)", [2, 3, 1, 1]),
    "rows": (f"{PLANE} y = ReduceMax <keepdims = 0> (v, before)", [2, 3]),
    "copy": ("c = Identity (x) a = ArgMax <axis = 3> (c) y = ReduceMax (x, last)", [2, 3, 4, 1]),
    "lines": ("v = Reshape (x, lines) a = ArgMax <axis = 1> (v) y = ReduceMax (x, last)", [2, 3, 4, 1]),
    "behind_others": (
        f"m = ReduceMax (x, before) n = ReduceMin (x, last) {LAST} y = ReduceMax (x, last)",
        [2, 3, 4, 1],
    ),
    "behind_a_view_of_an_unknown_shape": (
        "u = Reshape (x, sizes_given) v = Reshape (u, rows) a = ArgMax <axis = 2> (v) y = ReduceMax (x, plane)",
        [2, 3, 1, 1],
    ),
    "given_on_by_an_empty_branch": (
        f"g = If (b) <then_branch = t () => (x) {{}}, else_branch = e () => (x) {{}}> {LAST} y = ReduceMax (x, last)",
        [2, 3, 4, 1],
    ),
}


@pytest.mark.parametrize(("nodes", "sizes"), FOUND.values(), ids=FOUND)
def test_found(nodes: str, sizes: list[int]) -> None:
    found = reduction(nodes)
    assert found is not None
    assert found.recorder.label == "a"
    assert found.y_shape == static_dims(sizes)


def test_axes_as_an_attribute() -> None:
    found = reduction(f"{LAST} y = ReduceMax <axes = [-1]> (x)", opset=17)
    assert found is not None
    assert found.order is Maximum.WHOLE


def test_the_order_of_lines_before_others() -> None:
    found = reduction("a = ArgMax <axis = 2> (x) y = ReduceMax (x, before)", axis=2)
    assert found is not None
    assert found.order is Maximum.WHOLE


def test_no_order_where_one_element_stands_behind_the_window() -> None:
    nodes = "v = Reshape (x, columns) a = ArgMax <axis = 2> (v) y = ReduceMax (v, before)"
    found = reduction(nodes, x="v", sizes=(2, 3, 20, 1), axis=2)
    assert found is not None
    assert found.order is None


NOT_FOUND = {
    "another_axis": f"{LAST} y = ReduceMax (x, before)",
    "more_axes": f"{LAST} y = ReduceMax (x, plane)",
    "fewer_axes": f"{PLANE} y = ReduceMax (x, last)",
    "axes_apart": "v = Reshape (x, batches) a = ArgMax <axis = 1> (v) y = ReduceMax (x, apart)",
    "the_fifth_axis": "a = ArgMax <axis = 0> (x) y = ReduceMax (x, fifth)",
    "an_axis_beyond_the_rank": f"{LAST} y = ReduceMax (x, beyond)",
    "an_axis_before_the_first": f"{LAST} y = ReduceMax (x, under)",
    "no_axes": f"{LAST} y = ReduceMax (x, none)",
    "axes_left_out": f"{LAST} y = ReduceMax (x)",
    "axes_from_outside": f"{LAST} y = ReduceMax (x, given)",
    "another_tensor": f"{LAST} y = ReduceMax (other, last)",
    "another_operator": f"{LAST} y = ReduceMin (x, last)",
    "an_operator_of_that_name": f"{LAST} y = com.microsoft.ReduceMax (x, last)",
    "behind_another_operator": f"{LAST} n = Neg (x) y = ReduceMax (n, last)",
    "last_maximum": "a = ArgMax <axis = 3, select_last_index = 1> (x) y = ReduceMax (x, last)",
    "in_a_branch": f"""{LAST} y = If (b) <
        then_branch = t () => (yt) {{ yt = ReduceMax (x, last) }},
        else_branch = e () => (ye) {{ ye = ReduceMax (x, last) }}
    >""",
}


@pytest.mark.parametrize("nodes", NOT_FOUND.values(), ids=NOT_FOUND)
def test_not_found(nodes: str) -> None:
    assert reduction(nodes) is None
    assert reduction(nodes, whole=False) is None


def test_a_tensor_that_gives_the_axes_is_not_reduced() -> None:
    """Here [0] is searched along its one axis, and gives another maximum its own."""
    assert reduction("a = ArgMax <axis = 0> (zero) y = ReduceMax (other, zero)") is None


@pytest.mark.parametrize(("first", "second", "found"), [("y", "unused", False), ("unused", "y", True)])
def test_maxima_before_x_are_not_its(first: str, second: str, found: bool) -> None:
    """The node that pools reads x, so it stands behind it."""
    maxima = {"y": "y = ReduceMax (w, plane)", "unused": "unused = Neg (w)"}
    nodes = f"w = Neg (other) {maxima[first]} v = Reshape (w, rows) {maxima[second]} a = ArgMax <axis = 2> (v)"
    assert (reduction(nodes, x="v", sizes=(2, 3, 20)) is not None) is found


def test_a_maximum_is_not_its_own_operand() -> None:
    assert reduction(f"{LAST} y = ReduceMax (x, last)", x="y") is None


IN_A_BRANCH = """w = Neg (x) v = Identity (w) n = Neg (v) g = If (b) <
    then_branch = t () => (y, a) SHADOW { y = ReduceMax (v, last) a = ArgMax <axis = 3> (v) },
    else_branch = e () => (p, q) { p = Neg (x) q = Constant <value_int = 1> () }
>"""


@pytest.mark.parametrize(("initializers", "found"), [("", True), ("<float[1] w = {0}>", False)])
def test_a_branch_reads_x_of_the_graph_around_it(initializers: str, found: bool) -> None:
    """Where it stands late in that graph, before the branch; but not where another value of the branch has its name."""
    nodes = IN_A_BRANCH.replace("SHADOW", initializers)
    assert (reduction(nodes, x="w") is not None) is found


def test_no_search() -> None:
    assert reduction("n = Neg (x) a = Identity (n) y = ReduceMax (x, last)") is None
