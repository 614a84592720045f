# SPDX-License-Identifier: Apache-2.0

"""What is read of backward operators: the pooled sizes from wherever they are told, types, copies and constants."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering.patterns.aten_adaptive_max_pool_grad import match as match_adaptive
from tests.patterns.aten_graphs import model
from tests.pool_graphs import main_value

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
