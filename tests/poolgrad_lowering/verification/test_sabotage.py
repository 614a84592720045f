# SPDX-License-Identifier: Apache-2.0

"""Miscompiled models are caught, with the right place named, and the written case shows it again."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from poolgrad_lowering import verify
from tests.oracles import run_reference
from tests.poolgrad_lowering.verification.sabotage import HARMLESS, SABOTAGES, Sabotage, base, models

SITES = {name: row for name, row in SABOTAGES.items() if row.site}
OUTSIDE = {name: row for name, row in SABOTAGES.items() if not row.site}


def rows(table: dict[str, Sabotage]) -> list[object]:
    return [pytest.param(row, id=name) for name, row in table.items()]


@pytest.mark.parametrize("name", ["gradients", "pools", "planar", "twins"])
def test_nothing_is_wrong_before(name: str) -> None:
    assert verify(*models(name), runs=2, whole_model=False).proven


@pytest.mark.parametrize("row", rows(SITES))
def test_the_site_is_named_and_reproduces(row: Sabotage, tmp_path: Path) -> None:
    original, lowered = models(row.base)
    row.edit(lowered)
    found = verify(original, lowered, runs=2, whole_model=False, reproducer=tmp_path)
    failure = found.first_failure
    assert failure is not None
    assert failure.mismatch is not None, failure.reason
    assert (failure.status, failure.name) == ("differs", row.site)
    assert re.search(row.says, failure.mismatch.what), failure.mismatch.what
    assert failure.reproducer is not None
    folder = Path(failure.reproducer)
    one, other = (onnx.load(folder / name) for name in ("original.onnx", "lowered.onnx"))
    assert not verify(one, other, runs=2, whole_model=False).proven
    if failure.mismatch.index is not None:
        with np.load(folder / "inputs.npz") as archive:
            feeds = dict(archive)
        with np.errstate(all="ignore"):
            expected, result = (run_reference(model, feeds)[failure.mismatch.output] for model in (one, other))
        assert str(expected[failure.mismatch.index]) == failure.mismatch.expected
        assert str(result[failure.mismatch.index]) == failure.mismatch.found


@pytest.mark.parametrize("row", rows(OUTSIDE))
def test_the_place_outside_is_named(row: Sabotage) -> None:
    original, lowered = models(row.base)
    row.edit(lowered)
    found = verify(original, lowered, runs=1, whole_model=False)
    assert not found.proven
    assert any(re.search(row.says, difference.what) for difference in found.differences), found.differences


@pytest.mark.parametrize("row", rows(HARMLESS))
def test_what_changes_nothing_is_proven(row: Sabotage) -> None:
    original, lowered = models(row.base)
    row.edit(lowered)
    assert lowered.SerializeToString() != base(row.base)[1]
    assert verify(original, lowered, runs=2, whole_model=False).proven
