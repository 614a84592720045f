# SPDX-License-Identifier: Apache-2.0

"""`make demo` ends in a summary of five lines, and fails if anything differs."""

from __future__ import annotations

import pytest

from models import demo
from poolgrad_lowering import runtime

SUMMARY = """\
== Summary
lowered: 6 gradients of max pools, with their forward pools
left as they are: 2 anchors that are no gradients of pools
run on AclnnExecutionProvider, backend host: 8 of 8 pools and gradients
equal to the original, bit for bit: 18 of 18 outputs
next: .nox/test/bin/poolgrad inspect YOUR_TRAINING_GRAPH.onnx
"""


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)


def test_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main() == 0
    assert capsys.readouterr().out.endswith(f"\n\n{SUMMARY}")


def test_a_difference_is_a_failure(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "is_equal", lambda a, _: a.ndim != 2)
    assert demo.main() == 1
    assert "bit for bit: 14 of 18 outputs" in capsys.readouterr().out


def test_a_node_that_ran_elsewhere_is_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "assignment", lambda _: [])
    assert demo.main() == 1
    assert "backend host: 0 of 8 pools and gradients" in capsys.readouterr().out
