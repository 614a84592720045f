# SPDX-License-Identifier: Apache-2.0

"""Models run in onnxruntime as users run them, at its default optimisation level, where no test says why not."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
OTHER_LEVELS = {
    "harness/ge/execution.py",  # runs a graph in pieces, which are optimised otherwise than the whole
    "harness/sessions/mixed_sessions.py",  # sums have the bits of the stand-in
    "other_tools/after_lowering.py",  # what onnxruntime writes at every level
    "other_tools/producers.py",  # the same, before lowering
    "poolgrad_lowering/ge/test_rewrites.py",  # no level: a rewrite must not be folded back
    "poolgrad_lowering/model/ir/test_order.py",  # the order of the nodes as they are
    "harness/releases/prepare.py",  # asks only whether operators are known
    "harness/releases/runner.py",  # every level of every release
    "runtime/test_ep_claims.py",  # three levels
    "runtime/test_ep_products.py",  # nothing runs, and folding would allocate gigabytes
    "torch_step/test_order.py",  # the order of the nodes as they are
}


def test_other_levels_have_a_reason() -> None:
    setting = ".graph_optimization_level = "
    found = {path.relative_to(HERE).as_posix() for path in HERE.rglob("*.py") if setting in path.read_text("utf-8")}
    assert found - {Path(__file__).name} == OTHER_LEVELS
