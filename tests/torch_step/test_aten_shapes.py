# SPDX-License-Identifier: Apache-2.0

"""The table of shapes with which the compiler's rules for PyTorch's pools are tested, against PyTorch itself."""

from __future__ import annotations

import pytest
import torch

from tests.poolgrad_lowering.model.facts.test_aten_pools import SHAPES


def _argument(text: str) -> bool | int | list[int]:
    kind, numbers = text.split(" ")
    values = [int(number) for number in numbers.strip("{}").split(",") if number]
    if "[" in kind:
        return values
    return bool(values[0]) if kind == "bool" else values[0]


@pytest.mark.parametrize("case", SHAPES)
def test_shapes(case: tuple[str, str, tuple[str, ...]]) -> None:
    operator, shape, arguments = case
    name, _, overload = operator.partition(".")
    called = getattr(getattr(torch.ops.aten, name), overload or "default")
    found = called(torch.randn([int(size) for size in shape.split(",")]), *map(_argument, arguments))
    results = found if isinstance(found, tuple) else (found,)
    assert {",".join(map(str, result.shape)) for result in results} == {SHAPES[case]}
