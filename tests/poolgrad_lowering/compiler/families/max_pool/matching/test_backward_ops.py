# SPDX-License-Identifier: Apache-2.0

"""What is read of backward operators: the pooled sizes from wherever they are told, types, copies and constants."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families.max_pool.matching.backward_ops import (
    behind_casts,
    check_not_constant,
)
from poolgrad_lowering.compiler.families.shared.checks import stated_element_type
from poolgrad_lowering.model.diagnostics.codes import Code
from poolgrad_lowering.patterns.aten_adaptive_max_pool_grad import match as match_adaptive
from poolgrad_lowering.patterns.aten_max_pool_grad import match as match_pool
from tests.patterns.aten_graphs import FORWARD, PLANE_INDICES, max_pool_gradient, model
from tests.patterns.lowering_checks import refuses
from tests.pool_graphs import main_value, parse

UNKNOWN_GRADIENT = 'dy = org.pytorch.aten.ATen <operator="silu"> (w)'
ADAPTIVE = 'i = org.pytorch.aten.ATen <operator="adaptive_max_pool2d"> (x, size)'


def adaptive_sizes(forward: str, declared: str) -> list[str]:
    """The pooled shape of an adaptive pool whose output sizes only what is `declared` tells."""
    text = model(
        f"""{UNKNOWN_GRADIENT}
        {forward}
        dx = org.pytorch.aten.ATen <operator="adaptive_max_pool2d_backward"> (dy, x, i)""",
        "float[2,3,9,12] x, float[2,3,4,5] w, int64[2] size",
        "float[2,3,9,12] dx",
        types=declared,
    )
    facts, dx = main_value(onnx.parser.parse_model(text), "dx")
    assert dx.producer is not None
    found = match_adaptive(facts, dx.producer)
    assert found is not None
    return list(map(str, found.pooled_shape))


DECLARED = {
    "pooled": ("float[2,3,4,5] y", ["4", "5"]),
    "indices": ("int64[2,3,4,5] i", ["4", "5"]),
    "gradient": ("float[2,3,4,5] dy", ["4", "5"]),
    "pooled_before_the_indices": ("float[2,3,4,5] y, int64[2,3,4,M] i", ["4", "5"]),
    "pooled_of_another_rank": ("float[3,6,7] y, float[2,3,4,5] dy", ["4", "5"]),
    "pooled_of_a_larger_rank": ("float[2,3,6,7,8] y, float[2,3,4,5] dy", ["4", "5"]),
    "nothing": ("", ["?main:i[2]", "?main:i[3]"]),
}


@pytest.mark.parametrize(("declared", "expected"), DECLARED.values(), ids=DECLARED)
def test_sizes_of_an_adaptive_pool(declared: str, expected: list[str]) -> None:
    assert adaptive_sizes(f"y, {ADAPTIVE}", declared) == ["2", "3", *expected]


def test_sizes_where_the_maxima_are_left_out() -> None:
    assert adaptive_sizes(f", {ADAPTIVE}", "float[2,3,4,5] dy") == ["2", "3", "4", "5"]


@pytest.mark.parametrize(("height", "expected"), [("9", "5"), ("H", "7")])
def test_sizes_that_the_windows_give_are_not_as_declared(height: str, expected: str) -> None:
    """A declaration tells only what the windows do not: the rows of a symbolic height."""
    text = max_pool_gradient(
        forward=FORWARD,
        inputs=f"float[2,3,{height},12] x, float[2,3,{expected},6] dy",
        outputs=f"float[2,3,{height},12] dx",
        types="float[2,3,7,8] y",
    )
    facts, dx = main_value(onnx.parser.parse_model(text), "dx")
    assert dx.producer is not None
    found = match_pool(facts, dx.producer)
    assert found is not None
    assert list(map(str, found.pooled_shape)) == ["2", "3", expected, "6"]
    assert found.pool is not None
    assert found.pool.label == "y"


def test_the_pool_behind_plane_local_indices() -> None:
    """It is the MaxPool, and its windows are those of the gradient."""
    text = max_pool_gradient(forward=PLANE_INDICES)
    facts, dx = main_value(onnx.parser.parse_model(text), "dx")
    assert dx.producer is not None
    found = match_pool(facts, dx.producer)
    assert found is not None
    assert found.pool is not None
    assert (found.pool.label, found.known_argmax.value.name, found.numbering) == ("y", "i", Numbering.PLANE)
    assert found.windows == facts.pool(found.pool)


def test_the_first_type_that_is_known() -> None:
    text = """g (float16[2] half, float[2] single, int64[2] w) => (float16[2] out) {
        unknown = org.pytorch.aten.ATen <operator="silu"> (w)
        out = Identity (half)
    }"""
    parsed = parse(text, imports='"org.pytorch.aten": 1')
    facts, half = main_value(parsed, "half")
    unknown, single = (half.scope.resolve(name) for name in ("unknown", "single"))
    assert unknown is not None
    assert single is not None
    assert stated_element_type(facts, unknown, half, single) == onnx.TensorProto.FLOAT16
    assert stated_element_type(facts, single, half) == onnx.TensorProto.FLOAT
    assert stated_element_type(facts, unknown) == 0


COPIES = """g (int64[2] a, float[2] w) => (int64[2] out) <int64[2] stored = {0, 1}, int64[2] overridable = {0, 1}> {
    same = Identity (a)
    narrow = Cast <to=6> (same)
    wide = Cast <to=7> (narrow)
    byte = Cast <to=3> (a)
    real = Cast <to=1> (a)
    other = com.microsoft.Cast <to=7> (a)
    negative = Neg (a)
    made = Constant <value = int64[2] {0, 1}> ()
    of_shape = ConstantOfShape (a)
    out = Identity (wide)
}"""


@pytest.mark.parametrize(
    ("name", "copied", "cast"),
    [
        ("same", "a", "a"),
        ("narrow", "narrow", "a"),
        ("out", "wide", "a"),
        ("byte", "byte", "byte"),
        ("real", "real", "real"),
        ("other", "other", "other"),
        ("negative", "negative", "negative"),
    ],
)
def test_copies(name: str, copied: str, cast: str) -> None:
    """Indices are seen through casts between the types that hold them all."""
    _, value = main_value(parse(COPIES, imports='"com.microsoft": 1'), name)
    assert value.origin.name == copied
    assert behind_casts(value).name == cast


@pytest.mark.parametrize(
    ("name", "constant"),
    [("stored", True), ("made", True), ("overridable", False), ("a", False), ("of_shape", False), ("wide", False)],
)
def test_constants(name: str, constant: bool) -> None:
    """A default that a caller may override is none."""
    parsed = parse(COPIES, imports='"com.microsoft": 1')
    parsed.graph.input.append(onnx.helper.make_tensor_value_info("overridable", onnx.TensorProto.INT64, [2]))
    _, value = main_value(parsed, name)
    if not constant:
        check_not_constant(value)
        return
    with refuses(Code.CONSTANT_INDICES, names=name):
        check_not_constant(value)
