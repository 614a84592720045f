# SPDX-License-Identifier: Apache-2.0

"""Runs the benchmarks: all questions or those named on the command line. Then writes the page of all results so far."""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.page import write_page

DOCS = Path(__file__).parent.parent / "docs"
QUESTIONS = (
    "pass",
    "scaling",
    "process",
    "bodies",
    "kernels",
    "averages",
    "overhead",
    "training_step",
    "eager_step",
    "artifact_step",
)
"""Each is a module `question_NAME`, imported only when it is measured, because some need PyTorch."""

logger = logging.getLogger("benchmarks")


def main() -> None:
    """Measure, and write docs/benchmarks/results.json, the plots and docs/benchmarks.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=f"of {', '.join(QUESTIONS)} (default: all)")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder to write into (default: docs)")
    options = parser.parse_args()
    if unknown := set(options.questions) - set(QUESTIONS):
        parser.error(f"no such question: {', '.join(sorted(unknown))}")
    logging.basicConfig(format="%(asctime)s %(message)s")
    logger.setLevel(logging.INFO)
    stored = options.docs / "benchmarks" / "results.json"
    stored.parent.mkdir(parents=True, exist_ok=True)
    results = json.loads(stored.read_text(encoding="utf-8")) if options.questions and stored.exists() else {}
    measured = options.questions or QUESTIONS
    results["earlier"] = measured_earlier(results, measured, machine())
    results["machine"] = machine()
    for name in measured:
        logger.info("measuring: %s", name)
        with tempfile.TemporaryDirectory() as work:
            results[name] = import_module(f"benchmarks.question_{name}").measure(Path(work))
    stored.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write_page(results, options.docs)


def measured_earlier(
    results: dict[str, Any], measured: Sequence[str], now: dict[str, str]
) -> dict[str, dict[str, str]]:
    """Return the machine of each question that is not measured now, but was measured on another one than `now`."""
    before = {name: results["machine"] for name in QUESTIONS if name in results} | results.get("earlier", {})
    return {name: other for name, other in before.items() if name not in measured and other != now}


if __name__ == "__main__":
    main()
