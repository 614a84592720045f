# SPDX-License-Identifier: Apache-2.0

"""Translation validation: proves that a lowered model computes the same as its original, from the two models alone.

The models are in memory, or in files; a lowered model can be verified before it is written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx import ModelProto

from poolgrad_lowering.model.diagnostics.errors import InvalidModelError, VerificationError
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.atomic_write import PathLike
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.io.external_files import data_warnings
from poolgrad_lowering.model.io.model_file import errors_name, parse_model, read_bytes, require_model
from poolgrad_lowering.model.io.results import WithModel, model_of
from poolgrad_lowering.model.ir.external import ModelFolder
from poolgrad_lowering.verification.exports.decomposed import put_back
from poolgrad_lowering.verification.exports.inlined import with_functions_of
from poolgrad_lowering.verification.exports.restored import restored, with_rounded_rewrites
from poolgrad_lowering.verification.graph.protos import default_opset
from poolgrad_lowering.verification.graph.roles import without_row
from poolgrad_lowering.verification.outside.fields import initializers_as_inputs
from poolgrad_lowering.verification.outside.stored import Source, with_comparable_data, with_loaded_constants
from poolgrad_lowering.verification.outside.structure import Obligation, compare_structure, mistaken
from poolgrad_lowering.verification.result import (
    Difference,
    SiteResult,
    UnprovenError,
    Verification,
    WholeModel,
    failure_text,
)
from poolgrad_lowering.verification.running.data import NO_NEGATIVE_ZERO, ONLY_MULTIPLES
from poolgrad_lowering.verification.running.operators import compare_operators
from poolgrad_lowering.verification.running.site import DifferentialTest, Failure, Settings, describe, write_reproducer
from poolgrad_lowering.verification.running.validity import flaw_of
from poolgrad_lowering.verification.running.whole import compare_whole
from poolgrad_lowering.verification.sites.cut import cut_out
from poolgrad_lowering.verification.sites.doubts import doubt, foreign_bodies

logger = logging.getLogger(__name__)

SiteProgress = Callable[[int, int, str], None]
"""Called with the number of finished sites, the number of all sites, and the name of the current one."""


def verify(
    original: ModelProto,
    lowered: ModelProto | WithModel,
    settings: Settings,
    *,
    whole_model: bool = True,
    reproducer: Path | None = None,
    folder: Path | None = None,
    progress: SiteProgress | None = None,
) -> Verification:
    """As `poolgrad_lowering.verify`, with `settings` in place of runs, seed and backend, and without their errors."""
    given: ModelProto = model_of(lowered)
    for model in (original, given):
        require_model(model)
    seed = settings.seed
    started = time.perf_counter()
    source = with_functions_of(original, given)
    with_operators, rewritten = put_back(source, given)
    operators = compare_operators(source, given, rewritten, seed)
    given = with_operators
    compared = restored(source, given)
    differences, cases = compare_structure((source, compared))
    if differences:
        differences = [*mistaken(source, given), *differences]
    foreign = foreign_bodies(compared)
    results: list[SiteResult] = []
    for number, case in enumerate(cases):
        if progress is not None:
            progress(number, len(cases), case.region.identifier)
        result, failure = _verdict(case, settings, foreign, folder)
        if failure is not None and reproducer is not None:
            result = replace(result, reproducer=str(write_reproducer(reproducer, result.name, failure)))
            reproducer = None  # only the first one is written
        results.append(result)
    if progress is not None:
        progress(len(cases), len(cases), "")
    if whole_model:
        spares, reorders = (_all_proven_without(data, results) for data in (NO_NEGATIVE_ZERO, ONLY_MULTIPLES))
        rounded = with_rounded_rewrites(source, given)
        whole = compare_whole(
            original if rounded is source else rounded, given, seed, spares_zero_signs=spares, reorders_sums=reorders
        )
    else:
        whole = WholeModel("skipped", "not requested")
    if not differences and all(site.status == "proven" for site in results):
        differences = _faults(model_of(lowered))  # nodes that were put back may have hidden them
    if whole_model and not whole.ran:
        flaws = {"original": flaw_of(original), "lowered model": flaw_of(model_of(lowered))}
        texts = [f"the {which} is not valid ONNX: {flaw}" for which, flaw in flaws.items() if flaw is not None]
        differences += [Difference("models", text) for text in texts]  # what is not valid computes nothing to be proven
    seconds = time.perf_counter() - started
    inputs = tuple(initializers_as_inputs(original.graph, compared.graph))
    proofs = tuple(results), tuple(differences)
    backend = "bodies" if settings.provider is None else settings.provider.backend
    return Verification(seed, backend, *proofs, whole, seconds, inputs, operators)


def verify_files(original: PathLike, lowered: PathLike, settings: Settings, **options: Any) -> Verification:
    """As `poolgrad_lowering.verify_files`, with `settings` as in `verify`."""
    before, after = with_comparable_data(_read(Path(original)), _read(Path(lowered)))
    return verify(before, after, settings, folder=Path(original).parent, **options)


def require_verified(original: ModelProto, lowered: ModelProto, file: Path) -> Verification:
    """Return the proof. Raises `VerificationError` unless every site is proven and nothing else differs.

    The external data of both models is in the folder of `file`, the original's file.
    """
    data = ExternalData(ModelFolder.of_file(file))
    before, after = with_comparable_data(Source(original, data), Source(lowered, data))
    found = verify(before, after, Settings(), folder=file.parent)
    if not found.proven:
        raise VerificationError(
            f"the lowered model is not proven to compute the same as the original: {failure_text(found)}"
        )
    return found


def _read(path: Path) -> Source:
    """Return the model of a file, which is checked. Logs warnings about its external data."""
    model = parse_model(read_bytes(path), path)
    folder = ModelFolder.of_file(path)
    gate = Gate(folder=folder)
    with errors_name(path):
        gate.index(model)
    for warning in data_warnings(gate.external, folder):
        logger.warning("%s: %s: %s", path, warning.tensor, warning.reason)
    return Source(model, ExternalData(folder))


def _faults(lowered: ModelProto) -> list[Difference]:
    """Return a difference if the lowered model is not valid, as one that nothing can load is no lowering."""
    try:
        Gate().index(lowered)
    except InvalidModelError as error:
        return [Difference(error.where, f"the lowered model is not valid: {error.what} ({error.fault.value})")]
    return []


def _all_proven_without(data: str, sites: Collection[SiteResult]) -> bool:
    """Whether all sites are proven, and one was not run with this data: it can make the whole models differ."""
    return all(site.status == "proven" for site in sites) and any(data in site.not_drawn for site in sites)


def _verdict(
    case: Obligation, settings: Settings, foreign: Collection[str], folder: Path | None
) -> tuple[SiteResult, Failure | None]:
    blank, unknown = describe(case.region), without_row(case.region.removed)
    try:
        cut = with_loaded_constants(cut_out(case.region, case.units, case.types), folder)
        site = DifferentialTest(cut, case.models, case.types, settings)
        blank = replace(blank, not_drawn=site.not_drawn)
        runs, failure = site.check()
    except UnprovenError as error:
        said = str(error) if unknown is None else f"{str(error).removesuffix('.')}; {unknown}"
        return replace(blank, reason=said), None
    if failure is not None and unknown is not None:  # the data may be such as its row would leave out
        return replace(blank, runs=runs, reason=f"the two sides gave different results, and {unknown}"), None
    if failure is not None:
        return replace(blank, status="differs", runs=runs, mismatch=failure.mismatch), failure
    reason = doubt(cut, case.types, foreign, case.units, default_opset(case.models[1]))
    return replace(blank, status="unproven" if reason else "proven", runs=runs, reason=reason), None
