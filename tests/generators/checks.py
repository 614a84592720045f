# SPDX-License-Identifier: Apache-2.0

"""What must hold of every plan: verdicts as expected, the bits of the definition before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, inliner

from poolgrad_lowering import AtcExport, CannExport, LoweringResult, export_atc, export_cann, lower
from poolgrad_lowering.model.diagnostics.errors import InvalidModelError
from poolgrad_lowering.report.report import AnchorReport
from tests.generators.forms import BFLOAT, FORMS
from tests.generators.models import build, feeds, results
from tests.generators.mutants import mutant
from tests.generators.places import FUNCTION_DOMAIN
from tests.generators.plans import Plan
from tests.generators.protos import Choices
from tests.generators.transforms import Transform, declared_shapes, false_shapes, is_defined, reorder
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.patterns.lowering_checks import all_nodes, check_well_formed

Array = npt.NDArray[Any]
NEWEST_OF_ONNXRUNTIME = 26


def check_plan(plan: Plan, counts: Counter[str] | None = None) -> None:
    """Lower the plan's model and check everything that is known of the result."""
    model = build(plan)
    result = lower(model, target=plan.target, forward=plan.forward)
    check_verdicts(plan, result)
    check_decoys(model, result.model)
    before = check_results(plan, model)
    after = check_results(plan, result.model)
    for name, value in before.items():
        assert_same_bits(after[name], value)
    infers = not any(site.pooling.drops_a_window for _, site in plan.sites())
    check_well_formed(model, result.model, plan.target, infers=infers)
    if counts is not None:
        counts.update(tally(plan, result))


def check_verdicts(plan: Plan, result: LoweringResult) -> None:
    """Each site has exactly its verdict; no decoy is lowered; nothing else is an anchor that is lowered."""
    lowered = Counter(site_of(anchor) for anchor in result.report.lowered)
    for name, site in plan.sites():
        anchors = [anchor for anchor in result.report.anchors if site_of(anchor) == name]
        if site.refusal is None:
            found = [(anchor.status, anchor.pattern, anchor.code) for anchor in anchors]
            assert ("lowered", FORMS[site.form].pattern, None) in found, (name, found, _reasons(anchors))
            assert lowered.pop(name) == 1, (name, found)
        else:
            assert site.refusal.value in [anchor.code for anchor in anchors], (name, _reasons(anchors))
    assert not lowered, lowered


def check_same_verdicts(plan: Plan, transform: Transform, choices: Choices) -> None:
    """The plan's model in another way of writing gets the same verdicts, and is lowered to the same bits."""
    model = build(plan)
    other = transform(model, choices)
    lowered = [lower(written, target=plan.target, forward=plan.forward) for written in (model, other)]
    first, second = (Counter(_verdict(anchor) for anchor in result.report.anchors) for result in lowered)
    assert first == second, (first - second, second - first)
    check_results(plan, reorder(lowered[1].model, [0]))


def _verdict(anchor: AnchorReport) -> tuple[str, ...]:
    """What a verdict says, but for names and for what becomes of the forward pool."""
    return (
        anchor.op_type,
        anchor.status,
        str(anchor.pattern),
        str(anchor.code),
        str(anchor.op),
        str(anchor.attributes),
    )


def check_false_shapes(plan: Plan, choices: Choices) -> None:
    """What is lowered does not depend on what the model declares of values that the graph computes.

    Only texts do: a size of a pool that no formula tells has the name that the model gives it, if it does.
    """
    model = declared_shapes(build(plan), choices)
    lowered = [
        lower(written, target=plan.target, forward=plan.forward) for written in (model, false_shapes(model, choices))
    ]
    for result in lowered:
        del result.model.graph.value_info[:], result.model.graph.output[:]
    assert lowered[0].model == lowered[1].model
    true, false = ([a._replace(reason=None, forward_reason=None) for a in one.report.anchors] for one in lowered)
    assert true == false


EXPORTS: dict[str, Callable[..., AtcExport | CannExport]] = {"ATC": export_atc, "graph mode": export_cann}


def check_export(plan: Plan, purpose: str) -> None:
    """An export gives the bits of the definition and of the original; it is the same from a lowered model."""
    model, export = build(plan), EXPORTS[purpose]
    exported = export(model, target=plan.target).model
    for source in (lower(model, target=plan.target).model, exported):
        assert export(source, target=plan.target).model == exported
    before, after = check_results(plan, model), check_results(plan, exported)
    for name, value in before.items():
        assert_same_bits(after[name], value)
    onnx.checker.check_model(_without_undefined(exported))
    names = [node.name for node in all_nodes(exported.graph)]
    assert len(names) == len(set(names))


def _without_undefined(model: ModelProto) -> ModelProto:
    """The model, with operators that neither ONNX nor the model defines in a domain of their own."""
    own = {(function.domain, function.name) for function in model.functions}
    copied = ModelProto()
    copied.CopyFrom(model)
    for node in all_nodes(copied.graph):
        if not is_defined(node) and (node.domain, node.op_type) not in own:
            node.domain = "undefined"
    copied.opset_import.add(domain="undefined", version=1)
    return copied


def check_mutant(plan: Plan, which: int, how: int) -> str:
    """What is lowered of a mutant of the plan's model gives the mutant's results; returns what became of it."""
    model = mutant(build(plan), which, how)
    try:
        lowered = lower(model, target=plan.target, forward=plan.forward)
    except InvalidModelError:
        return "mutants turned away"
    if not lowered.report.lowered:
        return "mutants refused"
    try:
        expected = _reference(model, feeds(plan))
    except Exception:
        return "mutants that do not run"
    if not _as_declared(plan, model, expected):
        return "mutants with other types"
    found = _reference(lowered.model, feeds(plan))
    for name, value in expected.items():
        assert_same_bits(_unsigned(found[name]), _unsigned(value))
    return "mutants lowered"


def _as_declared(plan: Plan, model: ModelProto, found: Mapping[str, Array]) -> bool:
    """Whether the results of operators that ONNX does not define are as the model declares, which alone tells."""
    told = {name for node in model.graph.node if not is_defined(node) for name in node.output}
    return all(
        found[name].dtype == value.dtype and found[name].shape == value.shape
        for name, value in results(plan).items()
        if name in told
    )


def _unsigned(values: Array) -> Array:
    """Values without signs of zeros: a scatter that overwrites keeps one, the lowered node adds it to +0.0."""
    return values + 0 if values.dtype.kind == "f" else values


def site_of(anchor: AnchorReport) -> str:
    """The name of the site (or decoy) that an anchor belongs to."""
    return anchor.name.partition("/")[0]


def _reasons(anchors: list[AnchorReport]) -> list[tuple[str | None, str | None]]:
    return [(anchor.code, anchor.reason) for anchor in anchors]


def check_decoys(model: ModelProto, lowered: ModelProto) -> None:
    """Every node of a decoy keeps its bytes."""
    kept = {node.SerializeToString() for node in lowered.graph.node}
    assert all(node.SerializeToString() in kept for node in model.graph.node if node.name.startswith("decoy"))


def check_results(plan: Plan, model: ModelProto) -> dict[str, Array]:
    """Run a model: where a result is known by definition, it has those bits. Returns all results."""
    found = run(plan, model, feeds(plan))
    for name, value in results(plan).items():
        assert_same_bits(found[name], value)
    return found


def run(plan: Plan, model: ModelProto, given: Mapping[str, Array]) -> dict[str, Array]:
    """In onnxruntime, if it has all operators and types of the model, else in onnx's evaluator with the oracles.

    onnxruntime's shape inference counts windows that its kernel drops.
    """
    exotic = BFLOAT in plan.element_types or any(site.pooling.drops_a_window for _, site in plan.sites())
    if plan.opset <= NEWEST_OF_ONNXRUNTIME and not exotic and _is_standard(model):
        return run_ort(model, given)
    return _reference(_inlined(model), given)


def _reference(model: ModelProto, given: Mapping[str, Array]) -> dict[str, Array]:
    with np.errstate(all="ignore"):
        return run_reference(model, given)


def _inlined(model: ModelProto) -> ModelProto:
    """The model, its own functions put in place of their calls: gradients need to see their pools."""
    own = any(function.domain == FUNCTION_DOMAIN for function in model.functions)
    return inliner.inline_local_functions(model) if own else model


def _is_standard(model: ModelProto) -> bool:
    """Whether every operator is ONNX's or one of the model's functions."""
    own = {(function.domain, function.name) for function in model.functions}
    nodes = [*all_nodes(model.graph), *(node for function in model.functions for node in function.node)]
    return all((node.domain, node.op_type) in own or onnx.defs.has(node.op_type, node.domain) for node in nodes)


def tally(plan: Plan, result: LoweringResult) -> Counter[str]:
    """What to count of a plan."""
    counts = Counter({"graphs": 1, "decoys": len(plan.decoys), "lowered": len(result.report.lowered)})
    for _, site in plan.sites():
        counts.update(["sites", f"form {site.form}"])
    for anchor in result.report.anchors:
        if anchor.forward_op is not None:
            counts["forward pools moved"] += 1
        if anchor.code is not None:
            counts[f"refused {anchor.code}"] += 1
    return counts
