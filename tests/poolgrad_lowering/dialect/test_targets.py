# SPDX-License-Identifier: Apache-2.0

"""The table of products, and names that find their row exactly."""

from __future__ import annotations

import pytest

from poolgrad_lowering import UnknownTargetError
from poolgrad_lowering.dialect.targets import DEFAULT_TARGET, TARGETS, find_target


@pytest.mark.parametrize(
    "name", ["", "Ascend910", "Ascend910B5", "Ascend910B31", "Ascend910B3 ", "910B3", "atlas", "a2"]
)
def test_no_prefix_matches(name: str) -> None:
    with pytest.raises(UnknownTargetError) as caught:
        find_target(name)
    for target in TARGETS:
        assert target in str(caught.value)
    assert "poolgrad targets" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        *(
            ("atlas-a22", "atlas-a2"),
            ("atlasa3", "atlas-a3"),
            ("Ascend910B33", "Ascend910B3"),
            ("ascend-950", "ascend950"),
        ),
        *(("910B3", "Ascend910B3"), ("Ascend 910B3", "Ascend910B3"), ("9599", "Ascend950PR_9599")),
        *(("A2", "atlas-a2"), ("a3", "atlas-a3"), ("950", "ascend950"), ("Ascend950PR", "ascend950")),
        *(("910B", "atlas-a2"), ("Ascend910_93", "atlas-a3"), ("310P", "atlas-inference")),
    ],
)
def test_suggestions(name: str, suggestion: str) -> None:
    with pytest.raises(UnknownTargetError, match=f"did you mean {suggestion}"):
        find_target(name)


def test_a_name_like_no_other_has_no_suggestion() -> None:
    with pytest.raises(UnknownTargetError) as caught:
        find_target("cuda")
    assert "did you mean" not in str(caught.value)


def test_the_table() -> None:
    socs = [soc.lower() for target in TARGETS.values() for soc in target.socs]
    assert len(socs) == len(set(socs))
    assert not set(socs) & set(TARGETS)
    assert DEFAULT_TARGET in TARGETS
    assert all(name == target.name for name, target in TARGETS.items())


def test_what_is_no_name() -> None:
    with pytest.raises(TypeError, match=r"target is a int; it takes a name, e\.g\. 'Ascend910B3'"):
        find_target(910)  # type: ignore[arg-type]
