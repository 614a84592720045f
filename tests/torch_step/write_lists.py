# SPDX-License-Identifier: Apache-2.0

"""Exports the samples of PyTorch's lists as training steps, and records the results: the session `record-torch-lists`.

    python -m tests.torch_step.write_lists [--processes N] [NAME...]

With names, only these entries are recorded anew. The record is written after each entry.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import sys

import onnxruntime
import torch

from tests.torch_step.lists import RECORD, names, outcomes


def main() -> None:
    """Write the record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    listed = names()
    record = json.loads(RECORD.read_text(encoding="utf-8")) if given.names and RECORD.exists() else {}
    with multiprocessing.get_context("spawn").Pool(given.processes, _prepare) as pool:
        for name, found in pool.imap_unordered(_entry, given.names or listed):
            record[name] = found
            kept = {name: record[name] for name in listed if name in record}
            RECORD.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            sys.stdout.write(f"{name}: {found}\n")
            sys.stdout.flush()


def _prepare() -> None:
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(4)


def _entry(name: str) -> tuple[str, list[str]]:
    return name, outcomes(name)


if __name__ == "__main__":
    main()
