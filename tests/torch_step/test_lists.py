# SPDX-License-Identifier: Apache-2.0

"""PyTorch's own lists of modules and operators as training steps: each is right, or refused by a sentence.

A few of them run in every suite; all by `make test-torch-lists`.
"""

from __future__ import annotations

import json

import pytest

pytest.importorskip("expecttest")

from tests.torch_step.lists import RECORD, names, outcomes

LISTED = names()

ALWAYS = {
    "amax",
    "linalg.eigh",
    "module nn.InstanceNorm1d",
    "module nn.KLDivLoss",
    "nn.functional.cosine_similarity",
    "nn.functional.max_pool2d",
    "nn.functional.pad.replicate_negative",
    "nn.functional.softplus",
    "scatter_reduce.mean",
    "sgn",
}
"""What was wrong or called wrong once, a pool, and an operator that is refused."""


def test_the_record_has_all_entries_and_no_fault() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert list(record) == LISTED, "run `python3 tools/environments.py record-torch-lists`"
    assert not {name: found for name, found in record.items() if not all(map(_is_taken, found))}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.torch_lists) for name in LISTED]
)
def test_an_entry(name: str) -> None:
    assert outcomes(name) == json.loads(RECORD.read_text(encoding="utf-8"))[name]


def _is_taken(found: str) -> bool:
    """Whether an outcome is a right step or a refusal in plain words."""
    return found == "right" or (found.startswith("refused: ") and found.isprintable())
