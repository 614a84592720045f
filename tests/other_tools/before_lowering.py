# SPDX-License-Identifier: Apache-2.0

"""What must hold of a training graph that a tool has changed before it is lowered.

The compiler takes it or says what is wrong with it; what is lowered is proven against the tool's result and computes
its bits; a gradient that was lowered without the tool still is, but for the losses that are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, checker, defs, helper, inliner, shape_inference
from onnxscript import ir

from poolgrad_lowering import LoweringResult, lower, verify
from poolgrad_lowering.model.diagnostics.errors import InvalidModelError
from tests.harness.other_tools.apart import Apart, ToolError
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.other_tools.producers import TOOLS

Array = npt.NDArray[Any]
Run = Callable[[ModelProto, Mapping[str, Array]], dict[str, Array]]
NO_ANCHOR = "no anchor"
"""In place of a code: what became of the gradient does not look like one."""


@dataclass(frozen=True)
class Loss:
    """Gradients that are refused with a code after tools whose names begin so, and what these do to them."""

    tools: str
    code: str
    why: str


_COMMON, _TRANSFORMERS = "onnxconverter-common float16", "onnxruntime.transformers float16"
_VIEWS = ("dx-shape", "rows-not-planes", "plane-base", "indices-numbering", "unknown-shape")
_OPTIMISERS = (
    "onnxconverter-common optimizer",
    "onnxoptimizer",
    "onnxruntime offline",
    "onnxruntime quant_pre_process",
    "onnxruntime.transformers optimizer",
    "onnxscript optimizer",
    "onnxscript rewriter",
    "onnxsim",
    "onnxslim",
)
KNOWN = (
    Loss(_COMMON, "dtype-mix", "a ConstantOfShape without a value, and constants in functions, stay float32"),
    Loss(f"{_COMMON}, scatters blocked", "dtype-mix", "no Cast stays between two scatters"),
    Loss(_COMMON, "other-consumer", "in a branch the Casts around a scatter are not where its result is read"),
    Loss(_COMMON, "no-forward-pool", "each reader of an input has a Cast of its own"),
    Loss(_COMMON, "window-tables", "positions are computed in float16"),
    Loss(_TRANSFORMERS, "dtype-mix", "constants in functions stay float32"),
    Loss(_TRANSFORMERS, "window-tables", "positions are computed in float16"),
    Loss("onnx version_converter", NO_ANCHOR, "functions are gone"),
    Loss("onnxscript version_converter", "indices-numbering", "a Split of opset 18 lacks the number of its outputs"),
    *(
        Loss(f"onnxruntime {tool}", NO_ANCHOR, "functions are gone")
        for tool in ("quant_pre_process", "quantize_dynamic")
    ),
    Loss("onnxoptimizer", NO_ANCHOR, "nodes of a branch that takes the place of its If lose their domains"),
    Loss("onnxsim", NO_ANCHOR, "views are merged, and as many other nodes are refused as before"),
    *(
        Loss(tool, "dtype-mix", "in float16, Casts to float32 are written for the CPU")
        for tool in ("onnxruntime offline", "onnxruntime quant_pre_process")
    ),
    Loss("onnxslim", "dtype-mix", "a Cast to float16 and back, which rounds, is gone"),
    *(Loss(tool, code, "views are merged") for tool in _OPTIMISERS for code in _VIEWS),
)


@dataclass(frozen=True)
class Case:
    """A model to be lowered with these options, and feeds with which it runs, if there are any."""

    model: ModelProto
    feeds: Mapping[str, Array] | None
    target: str = "atlas-a2"
    forward: bool = True


@dataclass
class Tally:
    """What became of the cases of one tool, and what it or the compiler said of models that it broke."""

    counts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)


def check(case: Case, tool: str, apart: Apart, tally: Tally) -> ModelProto | None:
    """Apply a tool to a case's model, lower the result and check it; returns the result, if there is one."""
    sites = len(_lowered(case, case.model).report.lowered)
    tally.counts["graphs"] += 1
    try:
        changed = apart.apply(tool, case.model)
    except ToolError as error:
        tally.counts["tool fails"] += 1
        tally.told[f"tool: {_start(error)}"] += 1
        return None
    check_changed(case, changed, tool, tally, sites)
    return changed


def check_changed(case: Case, changed: ModelProto, tool: str, tally: Tally, sites: int) -> None:
    """Lower what a tool has made of a case's model with so many gradients, and check the lowered model."""
    try:
        result = _lowered(case, changed)
    except InvalidModelError as error:
        tally.counts["not a model"] += 1
        tally.told[f"compiler: {error.fault.value}"] += 1
        return
    wrong = misuses_operators(changed) or declares_false_types(changed)
    if wrong:  # no runtime loads it: there is nothing to prove, and there are no results
        tally.told[f"tool: {wrong}"] += 1
    else:
        if result.report.lowered:
            _check_proof(changed, result.model, tally)
        if case.feeds is not None:
            _check_results(case, changed, result.model, tool, tally)
    tally.counts["sites"] += sites
    tally.counts["lowered"] += min(sites, len(result.report.lowered))
    lost = _lost(case, result, sites)
    tally.refused.update(lost)
    known = {loss.code for loss in KNOWN if tool.startswith(loss.tools)}
    unknown = lost.keys() - known
    assert not unknown, [(anchor.name, anchor.code, anchor.reason) for anchor in result.report.refused] or [NO_ANCHOR]


def misuses_operators(model: ModelProto) -> str:
    """Say so if a node has not the inputs, outputs or attributes of its operator in ONNX, else return nothing."""
    parts = [(model.graph.node, model.opset_import), *((held.node, held.opset_import) for held in model.functions)]
    for nodes, imports in parts:
        context = checker.C.CheckerContext()
        context.ir_version = model.ir_version
        context.opset_imports = {one.domain: one.version for one in imports}
        for node in _flat(nodes):
            with suppress(defs.SchemaError):  # MaxPoolGrad, for one, is no operator of ONNX
                defs.get_schema(node.op_type, context.opset_imports.get("", 1), node.domain)
                try:
                    checker.check_node(node, context)
                except checker.ValidationError:
                    return "writes a node with other inputs, outputs or attributes than its operator has"
    return ""


def _flat(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """The nodes that hold no graph, at any depth."""
    for node in nodes:
        graphs = [attribute.g for attribute in node.attribute if attribute.type == AttributeProto.GRAPH]
        if not graphs:
            yield node
        for graph in graphs:
            yield from _flat(graph.node)


def declares_false_types(model: ModelProto) -> str:
    """Say so if a graph declares other element types than onnx infers without what it declares, else return nothing."""
    bare = ModelProto()
    bare.CopyFrom(model)
    declared = dict(_element_types(bare.graph, forget=True))
    try:
        inferred = dict(_element_types(shape_inference.infer_shapes(bare).graph))
    except shape_inference.InferenceError:
        return ""  # something else is wrong with it
    if any(declared.get(name) not in (None, 0, found) for name, found in inferred.items() if found):
        return "declares other element types than the nodes compute"
    return ""


def _element_types(graph: GraphProto, *, forget: bool = False) -> Iterator[tuple[str, int]]:
    """The names and element types of what the nodes of a graph and of its subgraphs compute; `forget`: removes them."""
    computed = {name for node in graph.node for name in node.output}
    for value in (*graph.value_info, *graph.output):
        if value.name in computed:
            yield value.name, value.type.tensor_type.elem_type
        if forget:  # also what is declared of initializers
            value.ClearField("type")
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _element_types(attribute.g, forget=forget)


def _lowered(case: Case, model: ModelProto) -> LoweringResult:
    return lower(model, target=case.target, forward=case.forward)


def _check_proof(changed: ModelProto, lowered: ModelProto, tally: Tally) -> None:
    """All sites are proven, but for those of which a tool has removed the types that only the model declared.

    So are those of a model that is no longer valid, which is a fault of the tool.
    """
    found = verify(changed, lowered)
    if any(difference.what.startswith("the original is not valid ONNX") for difference in found.differences):
        tally.told["tool: writes a model that is not valid ONNX"] += 1
        found = replace(found, differences=())
    untyped = [site for site in found.sites if site.status == "unproven" and str(site.reason).endswith(" is not known")]
    if untyped:
        tally.told["verify: a type is not known"] += len(untyped)
    tried = replace(found, sites=tuple(site for site in found.sites if site not in untyped))
    reasons = [(site.name, site.reason, site.mismatch) for site in tried.sites if site.status != "proven"]
    assert tried.proven, (reasons, found.differences, found.whole_model)


def _lost(case: Case, result: LoweringResult, sites: int) -> Counter[str]:
    """The codes of the gradients that were lowered without the tool and are not any more."""
    missing = sites - len(result.report.lowered)
    if missing <= 0:
        return Counter()
    before = Counter(anchor.code for anchor in _lowered(case, case.model).report.refused)
    after = Counter(str(anchor.code) for anchor in result.report.refused)
    after.subtract(before)
    codes = Counter({code: count for code, count in after.items() if count > 0})
    return codes or Counter({NO_ANCHOR: missing})


def _check_results(case: Case, changed: ModelProto, lowered: ModelProto, tool: str, tally: Tally) -> None:
    """The lowered model computes the bits of the tool's result, where that runs; whether those are right is counted."""
    expected = _run(case.model, case.feeds or {})
    if expected is None:
        return
    feeds = _feeds(case, changed)
    found = None if feeds is None else _run(changed, feeds)
    if feeds is None or found is None:
        tally.counts["does not run"] += 1
        return
    results, run = found
    after = run(lowered, feeds)
    for name, value in results.items():
        assert_same_bits(after[name], value)
    tally.counts["compared"] += 1
    tally.counts["other results"] += not TOOLS[tool].narrows and not _same(results, expected[0])


def _feeds(case: Case, changed: ModelProto) -> dict[str, Array] | None:
    """The case's feeds in the types of the changed model's inputs; None if it wants other sizes."""
    given = {}
    for value in changed.graph.input:
        tensor, fed = value.type.tensor_type, (case.feeds or {}).get(value.name)
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
        if fed is None or any(size not in (None, have) for size, have in zip(sizes, fed.shape, strict=True)):
            return None
        given[value.name] = fed.astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return given


def _run(model: ModelProto, feeds: Mapping[str, Array]) -> tuple[dict[str, Array], Run] | None:
    """The results, and what computed them: onnxruntime, else onnx's evaluator; None if neither runs the model."""
    for run in (run_ort, _run_reference):
        with suppress(Exception):  # whatever an evaluator says
            return run(model, feeds), run
    return None


def _run_reference(model: ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Run a model in onnx's evaluator, which needs sorted nodes."""
    ordered = ir.from_proto(model)
    ordered.graph.sort()
    model = ir.to_proto(ordered)
    own = any(function.domain != "npu" for function in model.functions)
    with np.errstate(all="ignore"):
        return run_reference(inliner.inline_local_functions(model) if own else model, feeds)


def _same(found: Mapping[str, Array], expected: Mapping[str, Array]) -> bool:
    """Whether they are the same but for rounding: optimisers may reorder the arithmetic around the pools."""
    try:
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-5)
    except (AssertionError, KeyError):
        return False
    return True


def _start(error: Exception) -> str:
    """The first words of a message, without the names in it."""
    return " ".join(str(error).split())[:80]
