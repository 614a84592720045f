# SPDX-License-Identifier: Apache-2.0

"""Operators in other operators, against torch's own."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from poolgrad_lowering.torch.decompositions import decompositions  # noqa: E402

aten = torch.ops.aten
WRITTEN = decompositions("matmul")

AT = torch.tensor([[0, 2, 2], [-1, 0, 2]])
"""Positions that occur twice, and a negative one."""

INDICES: dict[str, list[Any]] = {
    "the first axis": [AT],
    "an inner axis": [None, AT],
    "two axes": [None, AT, AT[0]],
    "two axes apart": [AT, None, AT[1]],
    "all axes": [AT, AT - 1, AT[1], AT[0]],
}


@pytest.mark.parametrize("name", INDICES)
def test_values_are_added_at_indices(name: str) -> None:
    indices = INDICES[name]
    x = torch.randint(9, (4, 3, 3, 5))
    values = torch.randint(9, x[tuple(slice(None) if index is None else index for index in indices)].shape)
    for added in (values, values.flatten()[0], values[-1:]):
        for operator in (aten.index_put, aten._unsafe_index_put):
            found = WRITTEN[operator.default](x, indices, added, True)
            assert torch.equal(found, operator(x, indices, added, True))


def test_values_that_are_put_or_masked_stay() -> None:
    index_put = WRITTEN[aten.index_put.default]
    assert index_put(torch.zeros(4), [AT], torch.ones(()), False) is NotImplemented
    assert index_put(torch.zeros(4), [torch.ones(4) > 0], torch.ones(()), True) is NotImplemented


@pytest.mark.parametrize("pads", [(-1, 2), (-1, -2, 1, 0), (2, -1, -3, 0, -1, -1)])
def test_negative_pads(pads: tuple[int, ...]) -> None:
    x = torch.randn(3, 5, 7)
    pad = WRITTEN[aten.constant_pad_nd.default]
    assert torch.equal(pad(x, pads, 2.5), torch.nn.functional.pad(x, pads, value=2.5))
    assert pad(x, [1, 0], 2.5) is NotImplemented


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str) -> None:
    x = torch.linspace(-6, 6, 101, dtype=torch.float64)
    found = WRITTEN[aten.gelu.default](x, approximate=approximate)
    # Some roundings of float64 of numbers up to 6.
    torch.testing.assert_close(found, torch.nn.functional.gelu(x, approximate=approximate), rtol=0, atol=1e-14)
