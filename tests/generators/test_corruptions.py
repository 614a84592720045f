# SPDX-License-Identifier: Apache-2.0

"""`verify` catches every kind of corruption of a lowered model; the search for more ends in time and tells misses."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.generators import corrupted
from tests.generators.corruptions import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "verify.md"
OF_EACH = 3


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_caught(kind: str) -> None:
    random, tried = Random(3), 0
    for _ in range(200):
        models = corrupted.corrupted(kind, random)
        if models is not None:
            tried += 1
            assert corrupted.is_caught(*models, seed=tried)
        if tried == OF_EACH:
            return
    pytest.fail(f"only {tried} corruptions of this kind")


def test_the_page_names_every_kind() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"in {len(KINDS)} ways" in page
    assert f"The kinds: {', '.join(KINDS)}." in page


def test_time_is_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert corrupted.main(["--minutes", "0", "--folder", str(tmp_path / "found")]) == 0
    assert not (tmp_path / "found").exists()
    assert len(capsys.readouterr().out.splitlines()) == len(KINDS)


def test_a_miss_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrupted, "is_caught", lambda *_: False)
    monkeypatch.setattr(corrupted, "KINDS", {"node gone": KINDS["node gone"]})
    assert corrupted.main(["--minutes", "0.01", "--folder", str(tmp_path)]) == 1
    assert {path.name for path in (tmp_path / "node gone 1").iterdir()} == {"original.onnx", "lowered.onnx"}
