# SPDX-License-Identifier: Apache-2.0

"""Lowers a model in memory and reports: the pass, its report, and after it the definitions of training operators."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from onnx import ModelProto

from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.compiler.lowering.pipeline import Decisions, apply, decide
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.io.external_files import data_warnings
from poolgrad_lowering.model.ir.collector import collector_paused
from poolgrad_lowering.report.describe import describe, recounted
from poolgrad_lowering.report.report import Report

if TYPE_CHECKING:
    from poolgrad_lowering.standard.result import Standardised


class Outcome(NamedTuple):
    """The result of a lowering: its report, but for the model's sizes in bytes, which are known when it is written."""

    unsized: Report

    @property
    def changed(self) -> bool:
        """Whether the model is another one: a gradient was lowered, or an operator replaced by its definition."""
        standard = self.unsized.standard
        return bool(self.unsized.lowered) or (standard is not None and bool(standard.replaced))

    def report(self, bytes_before: int, bytes_after: int) -> Report:
        """Return the report, given the sizes of the serialised model."""
        return self.unsized._replace(bytes_before=bytes_before, bytes_after=bytes_after)


@collector_paused()
def lower_in_place(
    model: ModelProto,
    options: Options,
    gate: Gate,
    observe: Callable[[Decisions], None] | None = None,
    *,
    standard: bool = False,
) -> Outcome:
    """As `lower`, but modifies the model, and calls `observe` before. Raises `InvalidModelError` and `PlanError`."""
    started = time.perf_counter()
    decisions = decide(model, options, gate)
    if observe is not None:
        observe(decisions)
    report, warnings = describe(decisions), data_warnings(gate.external, gate.folder)
    growth = apply(decisions)
    if standard:
        replaced = standardise_in_place(model, gate)
        growth += replaced.growth
        report = report._replace(operators=recounted(report.operators, model), standard=replaced)
    nodes_after, seconds = report.nodes_before + growth, time.perf_counter() - started
    return Outcome(report._replace(nodes_after=nodes_after, seconds=seconds, warnings=warnings))


def standardise_in_place(model: ModelProto, gate: Gate) -> Standardised:
    """Write the operators of training runtimes that are left in the model in standard ONNX."""
    from poolgrad_lowering.standard.rewrite import standardise  # noqa: PLC0415 - what a plain lowering does not load

    index = gate.index(model)
    return standardise(model, index, Facts(index, ExternalData(gate.folder, gate.limits)))
