# SPDX-License-Identifier: Apache-2.0

"""Verifies every model below a folder with the model of the same relative path below another folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from poolgrad_lowering.entry.each_model import Found, OnResult, for_each, models_below
from poolgrad_lowering.entry.verify import verify_files
from poolgrad_lowering.model.io.atomic_write import PathLike
from poolgrad_lowering.verification.result import Verification


@dataclass(frozen=True)
class PairResult:
    """The result for two models of one relative path: their verification or the error."""

    path: str
    verification: Verification | None = None
    error: str | None = None


def verify_folder(
    original: PathLike,
    lowered: PathLike,
    *,
    jobs: int | None = None,
    on_result: OnResult[PairResult] | None = None,
    **options: Any,
) -> list[PairResult]:
    """Verify every `*.onnx` below `original` with the one of the same relative path below `lowered`.

    Returns one result per path that is in one of the folders, sorted. `options` are those of `verify_files`. `jobs` and
    `on_result` are as in `lower_folder`. Raises `FileError` if one of the paths is not a folder or has no model.
    """
    folders = Path(original), Path(lowered)
    before, after = ({found.path: found for found in models_below(folder)} for folder in folders)
    models = [_pair(before.get(path), after.get(path), *folders) for path in sorted(before.keys() | after.keys())]
    work = partial(_verify_one, *folders, options)
    return for_each(work, models, PairResult, jobs=jobs, on_result=on_result)


def _pair(before: Found | None, after: Found | None, original: Path, lowered: Path) -> Found:
    """Return what both folders have, with an error if one of them lacks it. At least one has it."""
    if before is None:
        return Found(after.path if after else "", f"it is not in '{original}'")
    if after is None:
        return Found(before.path, before.error or f"it is not in '{lowered}'")
    return Found(before.path, before.error or after.error)


def _verify_one(original: Path, lowered: Path, options: dict[str, Any], path: str) -> PairResult:
    return PairResult(path, verify_files(original / path, lowered / path, **options))
