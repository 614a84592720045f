# SPDX-License-Identifier: Apache-2.0

"""Lowers a model in memory and reports: the pass, its report, and after it the definitions of training operators.

`lower` returns a lowered model and its report, `inspect` the report.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import ModelProto

from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.compiler.lowering.pipeline import Decisions, apply, decide
from poolgrad_lowering.model.diagnostics.errors import PoolgradError
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.atomic_write import PathLike
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.io.external_files import data_warnings
from poolgrad_lowering.model.io.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.model.io.model_file import require_model
from poolgrad_lowering.model.ir.collector import collector_paused
from poolgrad_lowering.model.ir.external import ModelFolder
from poolgrad_lowering.report.describe import describe, recounted
from poolgrad_lowering.report.report import Report

if TYPE_CHECKING:
    from poolgrad_lowering.compiler.lowering.plan import LoweringPlan


@dataclass(frozen=True)
class LoweringResult:
    """A lowered model, and the report of what was done with each anchor. A notebook shows its first site as a drawing.

    `decide` repeats what the lowering decided for the given model; if that was changed since, nothing is drawn.
    """

    model: ModelProto
    report: Report
    decide: Callable[[], Decisions | None] | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"<LoweringResult: {self.report!r}>"

    def _repr_html_(self) -> str:
        from poolgrad_lowering.report.drawing.parts import first_site  # noqa: PLC0415 - nothing is drawn before

        decisions = None if self.decide is None else self.decide()
        is_same = decisions is not None and describe(decisions).anchors == self.report.anchors
        return self.report._repr_html_() + (first_site(decisions) if decisions is not None and is_same else "")


def _decide_again(model: ModelProto, options: Options, limits: Limits, folder: ModelFolder | None) -> Decisions | None:
    """Return what a lowering does with a model; None if the model has been changed so that it cannot be lowered."""
    try:
        return decide(model, options, Gate(limits, folder))
    except PoolgradError:
        return None


def lower(
    model: ModelProto,
    *,
    target: str | None = None,
    forward: bool = True,
    plan: LoweringPlan | None = None,
    trust_defaults: bool = False,
    base_dir: PathLike | None = None,
    standard: bool = False,
    keep_onnx: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> LoweringResult:
    """Lower every gradient of a pool in a model that the target can run.

    The model that is given is not modified. What is not lowered stays as it is: the report names each refused anchor
    with a code and a reason. If nothing is lowered, the result's model serialises to the same bytes.

    Args:
        model: A training graph, forward and backward in one model.
        target: A product or SoC name (`poolgrad targets` lists them); by default the plan's target, else atlas-a2.
        forward: Whether forward pools are lowered with their gradients.
        plan: Chooses the operator of each site. It must name the sites of this model; its SHA-256 is not checked.
        trust_defaults: Whether to take initializers that are also graph inputs for constants. A plan that was made with
            this option implies it. The lowered model is right if no caller overrides them.
        base_dir: The folder of the model's external data, from which proofs read constants; without it, gradients that
            need external data are refused.
        standard: Whether to write the operators of training runtimes that are left, such as ConvGrad, in standard
            ONNX. Their results then differ from those of the original by rounding. Those without a definition stay:
            `report.standard.left` names them.
        keep_onnx: Whether to leave gradients that are written in ONNX's own operators, as those of average pools can
            be. A session beside onnxruntime's CANN provider then has fewer parts.
        limits: The largest model that is accepted, and how much external data is read, for models of unknown origin.
            The defaults are 2 GiB, 2^22 nodes, 32 levels of subgraphs, and 64 GiB of external data.

    Raises:
        TypeError: The model is not an `onnx.ModelProto`, but a path for example.
        UnknownTargetError: No product and no SoC has the name `target`.
        InvalidModelError: The model is not valid ONNX, or exceeds one of `limits`.
        PlanError: The plan does not fit the model or the target.

    Example:
        >>> import onnx
        >>> from poolgrad_lowering import lower
        >>> result = lower(onnx.load("training.onnx"), target="Ascend910B3")
        >>> result.report
        <Report for atlas-a2: 3 anchors, 2 lowered, 0 refused, 1 unrelated; nodes 78 → 69>
        >>> [(anchor.site, anchor.code) for anchor in result.report.unrelated]
        [('main:scatter', 'unrelated-indices')]
        >>> onnx.save(result.model, "lowered.onnx")
    """
    lowered, gate, bytes_before = copied(model, base_dir, limits)
    options = Options(target=target, forward=forward, plan=plan, trust_defaults=trust_defaults, keep_onnx=keep_onnx)
    report = lower_in_place(lowered, options, gate, standard=standard)
    bytes_after = len(gate.serialised(lowered)) if is_changed(report) else bytes_before
    again = partial(_decide_again, model, options, limits, gate.folder)
    return LoweringResult(lowered, report._replace(bytes_before=bytes_before, bytes_after=bytes_after), again)


def inspect(
    model: ModelProto,
    *,
    target: str | None = None,
    forward: bool = True,
    trust_defaults: bool = False,
    base_dir: PathLike | None = None,
    standard: bool = False,
    keep_onnx: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """Return the report that `lower` would give for a model.

    The parameters and the errors are those of `lower`.

    Example:
        >>> import onnx
        >>> from poolgrad_lowering import inspect
        >>> inspect(onnx.load("training.onnx"), target="Ascend310P3").refused_by_code
        {'target': 2}
    """
    result = lower(
        model,
        target=target,
        forward=forward,
        trust_defaults=trust_defaults,
        base_dir=base_dir,
        standard=standard,
        keep_onnx=keep_onnx,
        limits=limits,
    )
    return result.report


def copied(model: ModelProto, base_dir: PathLike | None, limits: Limits) -> tuple[ModelProto, Gate, int]:
    """Return a copy of a model, the gate for it, and its size in bytes. Raises `TypeError` if it is no model."""
    require_model(model)
    copy = ModelProto()
    copy.CopyFrom(model)
    gate = Gate(limits, None if base_dir is None else ModelFolder(Path(base_dir)))
    return copy, gate, len(gate.serialised(copy))


def is_changed(report: Report) -> bool:
    """Whether the model is another one: a gradient was lowered, or an operator replaced by its definition."""
    return bool(report.lowered) or (report.standard is not None and bool(report.standard.replaced))


@collector_paused()
def lower_in_place(
    model: ModelProto,
    options: Options,
    gate: Gate,
    observe: Callable[[Decisions], None] | None = None,
    *,
    standard: bool = False,
) -> Report:
    """As `lower`, but modifies the model, and calls `observe` before. Raises `InvalidModelError` and `PlanError`.

    The report is without the model's sizes in bytes, which are known when it is written.
    """
    started = time.perf_counter()
    decisions = decide(model, options, gate)
    if observe is not None:
        observe(decisions)
    report, warnings = describe(decisions), data_warnings(gate.external, gate.folder)
    growth = apply(decisions)
    if standard:
        from poolgrad_lowering.standard.rewrite import standardise  # noqa: PLC0415 - a plain lowering does not load it

        index = gate.index(model)
        replaced = standardise(model, index, Facts(index, ExternalData(gate.folder, gate.limits)))
        growth += replaced.growth
        report = report._replace(operators=recounted(report.operators, model), standard=replaced)
    nodes_after, seconds = report.nodes_before + growth, time.perf_counter() - started
    return report._replace(nodes_after=nodes_after, seconds=seconds, warnings=warnings)
