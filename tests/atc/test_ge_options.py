# SPDX-License-Identifier: Apache-2.0

"""The texts that GE takes for the options input_shape and precision_mode."""

from __future__ import annotations

import pytest

from tests.harness.ge.faults import GeError
from tests.harness.ge.options import computes_in_float16, parse_input_shape

TAKEN: list[tuple[str, dict[str, list[int]]]] = [
    ("x:2,3", {"x": [2, 3]}),
    ("x:2,3;lr:", {"x": [2, 3], "lr": []}),
    ("lr:", {"lr": []}),
    (" x :\t2 , 3\n", {"x": [2, 3]}),
    ("a:b:4", {"a:b": [4]}),
    (":4", {"": [4]}),
    ("x:007", {"x": [7]}),
    ("x:1;x:2", {"x": [1]}),
    ("x:9223372036854775807", {"x": [2**63 - 1]}),
]
REFUSED = [
    ("lr;", "E10002"),
    ("lr", "E10002"),
    ("x:2;lr;", "E10002"),
    ("x:2,3;", "E10002"),
    (";x:2", "E10002"),
    ("", "E10002"),
    ("x:N", "E10014"),
    ("x:2.0", "E10002"),
    ("x:.", "E10002"),
    ("x:2,", "E10014"),
    ("x: ", "E10014"),
    ("x:-", "E10014"),
    ("x:--2", "E10014"),
    ("x:+2", "E10002"),
    ("x:2 3", "E10002"),
    ("x:0x10", "E10002"),
    ("x:²", "E10014"),
    ("x:٣", "E10014"),
    ("x:9223372036854775808", "E10013"),
]
DYNAMIC = [("x:-1,3", [-1, 3]), ("x:0,3", [0, 3]), ("x:-5", [-5])]


@pytest.mark.parametrize(("text", "shapes"), TAKEN)
@pytest.mark.parametrize("is_dynamic", [True, False])
def test_a_text_that_is_taken(text: str, shapes: dict[str, list[int]], is_dynamic: bool) -> None:
    assert parse_input_shape(text, is_dynamic=is_dynamic) == shapes


@pytest.mark.parametrize(("text", "code"), REFUSED)
@pytest.mark.parametrize("is_dynamic", [True, False])
def test_a_text_that_is_refused(text: str, code: str, is_dynamic: bool) -> None:
    with pytest.raises(GeError) as error:
        parse_input_shape(text, is_dynamic=is_dynamic)
    assert error.value.faults[0].code == code


@pytest.mark.parametrize(("text", "shape"), DYNAMIC)
def test_sizes_below_1_are_for_dynamic_inputs(text: str, shape: list[int]) -> None:
    assert parse_input_shape(text, is_dynamic=True) == {"x": shape}
    with pytest.raises(GeError, match="E10011"):
        parse_input_shape(text)


def test_precision_modes() -> None:
    assert computes_in_float16("")
    assert computes_in_float16("force_fp16")
    assert not computes_in_float16("must_keep_origin_dtype")
    with pytest.raises(GeError, match="E10001"):
        computes_in_float16("fp32")
