# SPDX-License-Identifier: Apache-2.0

"""A diagnosis of `doctor` as text."""

from __future__ import annotations

from collections.abc import Iterator

from poolgrad_lowering.runtime.doctor import Backend, Diagnosis, Operator, Part


def to_text(diagnosis: Diagnosis) -> str:
    """Return lines on every part, every backend, and the backend that `auto` selects."""
    return "".join(f"{line}\n" for line in _lines(diagnosis))


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"Python: {diagnosis.python}"
    yield f"poolgrad-lowering: {diagnosis.package}"
    yield f"onnxruntime: {_part(diagnosis.onnxruntime)}"
    yield f"provider: {_part(diagnosis.provider)}"
    yield f"host library: {_part(diagnosis.host_library)}"
    for backend in diagnosis.backends:
        yield f"backend {backend.backend}: {_state(backend)}"
        yield from (f"  {line}" for line in _details(backend))
    taken = diagnosis.auto.backend or "no backend"
    yield f"backend auto: takes {taken}: {diagnosis.auto.reason}"
    yield f"ATC, for offline conversion: {_optional(diagnosis.atc)}"
    yield f"ATC's plugin for domain npu: {_optional(diagnosis.atc_plugin)}"


def _part(part: Part) -> str:
    return " ".join(text for text in (part.found, part.problem and f"PROBLEM: {part.problem}") if text)


def _optional(part: Part) -> str:
    return part.found or f"none: {part.problem}"


def _state(backend: Backend) -> str:
    return "works" if backend.problem is None else f"cannot be used: {backend.problem}"


def _details(backend: Backend) -> Iterator[str]:
    if backend.soc is not None:
        yield f"device: {backend.soc} ({backend.product}), {backend.devices} in all"
    for library in backend.libraries:
        yield f"library: {library.path}" + (f", not used: {library.problem}" if library.problem else "")
    for package in backend.packages:
        yield f"package: {package.name} {package.version}"
    for symbol in backend.missing_symbols:
        yield f"missing symbol: {symbol}"
    for operator in backend.operators:
        yield f"operator: {_operator(operator, set(backend.element_types))}"


def _operator(operator: Operator, types: set[str]) -> str:
    if not operator.functions:
        return f"{operator.name} cannot run on this product"
    unusable = {*operator.missing, *(name for name, reasons in operator.refused.items() if reasons.keys() == types)}
    present = [function for function in operator.functions if function not in unusable]
    parts = [f"runs by {', '.join(present)}"] if present else []
    parts += [f"missing is {', '.join(operator.missing)}"] if operator.missing else []
    parts += [f"cannot run by {function}{_reasons(reasons, types)}" for function, reasons in operator.refused.items()]
    return f"{operator.name} {'; '.join(parts)}"


def _reasons(reasons: dict[str, str], types: set[str]) -> str:
    """The element types with which a function cannot run unless they are all, and the first of the reasons."""
    refused = "" if reasons.keys() == types else f" with {' and '.join(reasons)}"
    return f"{refused}: {next(iter(reasons.values()))}"
