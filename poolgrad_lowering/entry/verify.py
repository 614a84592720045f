# SPDX-License-Identifier: Apache-2.0

"""Verifies lowered models against their originals, by their function bodies or on the execution provider.

The models are two in memory, in two files, or all below two folders.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx import ModelProto

from poolgrad_lowering.entry.each_model import Found, OnResult, for_each, models_below
from poolgrad_lowering.model.diagnostics.errors import SessionError
from poolgrad_lowering.model.io.atomic_write import PathLike
from poolgrad_lowering.verification.result import Verification
from poolgrad_lowering.verification.running.evaluator import Provider
from poolgrad_lowering.verification.running.site import Settings
from poolgrad_lowering.verification.verifier import verify as compare
from poolgrad_lowering.verification.verifier import verify_files as compare_files

if TYPE_CHECKING:
    from poolgrad_lowering.model.io.results import WithModel
    from poolgrad_lowering.verification.verifier import SiteProgress


def verify(
    original: ModelProto,
    lowered: ModelProto | WithModel,
    *,
    runs: int | None = None,
    seed: int = 0,
    backend: str | None = None,
    whole_model: bool = True,
    reproducer: Path | None = None,
    folder: Path | None = None,
    progress: SiteProgress | None = None,
) -> Verification:
    """Compare a lowered model with its original: sites by running both sides, everything else byte for byte.

    `lowered` is a model, or what `lower` returned. If the two are exchanged, or unrelated, the first of the differences
    says so. `runs` is the number of runs of each site; the default is enough for every kind of data and size. `backend`
    is None to run the function bodies of the lowered model, "host" or "cann" to use the execution provider. With
    `whole_model` both models are also run from end to end if onnxruntime can run them. The smallest failing case of the
    first site that differs is written into a subfolder of `reproducer`. Tensors in external files are read from
    `folder`.

    Operators of training runtimes that the lowered model has in standard ONNX are compared up to rounding, each with
    onnxruntime's own kernel; without onnxruntime-training they are unproven.

    Raises `TypeError` for a path, `ValueError` for less than one run or an unknown backend, `InvalidModelError` for
    names that are not UTF-8, `FileError` if the reproducer cannot be written, and the errors of `runtime.register` if
    there is no execution provider.
    """
    settings = _settings(runs, seed, backend)
    return compare(
        original, lowered, settings, whole_model=whole_model, reproducer=reproducer, folder=folder, progress=progress
    )


def verify_files(
    original: PathLike,
    lowered: PathLike,
    *,
    runs: int | None = None,
    seed: int = 0,
    backend: str | None = None,
    **options: Any,
) -> Verification:
    """Call `verify` for two files, with its options except `folder`.

    The external data of each model is read from the folder of its file; equal data can be in different files and at
    different offsets. Raises the errors of `verify`, `FileError` and `InvalidModelError`.
    """
    return compare_files(original, lowered, _settings(runs, seed, backend), **options)


def _settings(runs: int | None, seed: int, backend: str | None) -> Settings:
    if backend not in (None, "host", "cann"):
        raise ValueError(f"unknown backend '{backend}': give 'host' or 'cann'")
    if runs is not None and runs < 1:
        raise ValueError(f"runs must be 1 or more, not {runs}")
    return Settings(runs, seed, None if backend is None else _provider(backend))


def _provider(backend: str) -> Provider:
    """Return the execution provider for a backend. Raises the errors of `runtime.register` if there is none."""
    from poolgrad_lowering import runtime  # noqa: PLC0415 - only a backend needs the runtime

    runtime.register()

    def session(model: ModelProto) -> Any:
        import onnxruntime  # noqa: PLC0415 - as above

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are raised as exceptions
        made = runtime.create_session(model, backend=backend, session_options=options)
        own = [node for node in runtime.assignment(made) if node.domain == "npu"]
        if all(node.provider == "CPUExecutionProvider" for node in own):
            raise SessionError("it runs none of the site's nodes")
        return made

    return Provider(backend, session)


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
    models = []
    for path in sorted(before.keys() | after.keys()):
        pairs = zip((before, after), folders, strict=True)
        errors = [found[path].error if path in found else f"it is not in '{folder}'" for found, folder in pairs]
        models.append(Found(path, errors[0] or errors[1]))
    work = partial(_verify_one, *folders, options)
    return for_each(work, models, PairResult, jobs=jobs, on_result=on_result)


def _verify_one(original: Path, lowered: Path, options: dict[str, Any], path: str) -> PairResult:
    return PairResult(path, verify_files(original / path, lowered / path, **options))
