# SPDX-License-Identifier: Apache-2.0

"""Which values are the Indices of a MaxPool, and what they count."""

from __future__ import annotations

import pytest

from poolgrad_lowering.analysis.provenance import Numbering, find_indices, indices
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from tests.pool_graphs import main_value, parse

GRAPH = """g (uint8[2,3,4,4] x) => (w, j) {
    y, i = MaxPool<kernel_shape = [2, 2]>(x)
    w = Cast<to = 7>(y)
    j = Identity(i)
}"""


@pytest.mark.parametrize("name", ["i", "j"])
def test_the_second_output_is_the_indices(name: str) -> None:
    facts, value = main_value(parse(GRAPH), name)
    found = indices(facts, value)
    assert (found.pool.proto.op_type, found.numbering, found.argmax) == ("MaxPool", Numbering.TENSOR, value)


@pytest.mark.parametrize("name", ["y", "w"])
def test_the_first_output_is_no_indices(name: str) -> None:
    """The maxima of integers are integers, and no positions."""
    facts, value = main_value(parse(GRAPH), name)
    assert find_indices(facts, value) is None
    with pytest.raises(Refuse) as refused:
        indices(facts, value)
    assert refused.value.refusal.code is Code.INDICES_SOURCE
    assert refused.value.refusal.reason == "indices come from 'y', which is not the Indices of a MaxPool"
