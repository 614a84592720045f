# SPDX-License-Identifier: Apache-2.0

"""An unedited plan changes nothing, an edited plan is applied exactly, and an error names its place."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import ModelProto

from poolgrad_lowering import (
    LoweringPlan,
    PlanError,
    SiteChoice,
    inspect,
    lower,
    lower_file,
    read_plan,
    verify,
)
from poolgrad_lowering.compiler.lowering.match import identifier
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.entry.file_io import FileOptions
from poolgrad_lowering.entry.files import inspect_file
from poolgrad_lowering.model.ir.index import ModelIndex
from tests.pool_graphs import parse, torch_gradient
from tests.texts import Says

BUILT = Path(__file__).parents[4] / "models" / "built"
TWO_SITES = parse(
    """g (float[2,3,8] X, float[2,3,4] dY, float[2,3,4] dZ) => (A, B) {
        Y, I = MaxPool<kernel_shape = [2], strides = [2]>(X)
        [first] A = MaxPoolGrad(dY, I)
        [second] B = MaxPoolGrad(dZ, I)
    }"""
)
GRADIENT, POOL, ADAPTIVE = "MaxPool3DGradWithArgmax", "MaxPool3DWithArgmaxV2", "AdaptiveMaxPool3DGrad"


def plan_of(model: ModelProto, **changes: dict[str, Any]) -> LoweringPlan:
    """The plan of a model with changed fields of some sites."""
    made = inspect(model).plan("")
    sites = tuple(
        SiteChoice(**{"site": c.site, "operator": c.operator, "forward": c.forward, **changes.get(c.site[5:], {})})
        for c in made.sites
    )
    return LoweringPlan(made.target, "", sites)


def operators(model: ModelProto) -> list[str]:
    return sorted(node.op_type for node in model.graph.node if node.domain == "npu")


# -- untouched


@pytest.mark.parametrize("target", ["atlas-a2", "ascend950"])
@pytest.mark.parametrize("name", ["torch/lenet", "torch/unet_level", "torch/dilated", "ort/ceil", "ort/lenet"])
@pytest.mark.parametrize("forward", [True, False])
def test_an_untouched_plan_changes_nothing(tmp_path: Path, name: str, target: str, forward: bool) -> None:
    source, plan = BUILT / f"{name}.onnx", tmp_path / "plan.json"
    planned = inspect_file(source, FileOptions(target=target, forward=forward), plan_path=plan)
    report = lower_file(source, tmp_path / "with.onnx", plan=read_plan(plan))
    lower_file(source, tmp_path / "without.onnx", target=target, forward=forward)
    assert (tmp_path / "with.onnx").read_bytes() == (tmp_path / "without.onnx").read_bytes()
    assert [anchor.op for anchor in report.anchors] == [anchor.op for anchor in planned.anchors]
    if forward:
        assert report.anchors == planned.anchors


def test_a_model_without_sites() -> None:
    plain = parse("g (float[2] X) => (float[2] Y) { Y = Relu(X) }")
    assert plan_of(plain).sites == ()
    assert lower(plain, plan=plan_of(plain)).model == plain


def test_a_plan_trusts_no_defaults_unless_it_says_so() -> None:
    plan = LoweringPlan("atlas-a2", "0" * 64, ())
    assert not plan.trust_defaults
    assert plan == LoweringPlan("atlas-a2", "0" * 64, (), trust_defaults=False)


# -- edited


@pytest.mark.refusal("skipped-by-plan")
def test_a_site_that_is_skipped(says: Says) -> None:
    result = lower(TWO_SITES, plan=plan_of(TWO_SITES, A={"operator": None, "forward": None}, B={"forward": None}))
    skipped, lowered = result.report.anchors
    assert (skipped.status, skipped.code, skipped.pattern) == ("refused", "skipped-by-plan", "ort_max_pool_grad")
    says(skipped.reason)
    assert (lowered.op, lowered.forward_op, lowered.forward_code) == (GRADIENT, None, "forward-readers")
    assert operators(result.model) == [GRADIENT]
    assert [node for node in result.model.graph.node if node.name == "first"] == [TWO_SITES.graph.node[1]]


@pytest.mark.refusal("skipped-by-plan")
def test_a_pool_that_is_left(says: Says) -> None:
    model = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
    result = lower(model, plan=plan_of(model, sums={"forward": None}))
    assert result.model == lower(model, forward=False).model
    [anchor] = result.report.anchors
    assert (anchor.forward_op, anchor.forward_code) == (None, "skipped-by-plan")
    says(anchor.forward_reason)


def test_every_edit_is_done_exactly_or_refused() -> None:
    """All plans for two sites that share a pool are applied exactly or rejected, and the results are correct."""
    choices = [(None, None), *itertools.product((GRADIENT, ADAPTIVE), (None, POOL))]
    refused = 0
    for first, second in itertools.product(choices, repeat=2):
        sites = (SiteChoice("main:A", *first), SiteChoice("main:B", *second))
        try:
            result = lower(TWO_SITES, plan=LoweringPlan("atlas-a2", "", sites))
        except PlanError:
            refused += 1
            continue
        assert [(anchor.op, anchor.forward_op) for anchor in result.report.anchors] == [first, second]
        assert verify(TWO_SITES, result.model, runs=1, whole_model=False).proven
    assert (
        refused == 2 * 2 + 2 * 2 * 2
    )  # the pool is wanted by one that the other one is skipped beside, or withholds it


def test_the_target_is_the_plans() -> None:
    model = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
    plan = inspect(model, target="ascend950").plan("")
    assert lower(model, plan=plan).report.target == "ascend950"
    assert lower(model, plan=plan, target="Ascend950PR_9599").report.target == "ascend950"
    with pytest.raises(PlanError, match="the plan is for ascend950, not for atlas-a2"):
        lower(model, plan=plan, target="atlas-a2")


def test_a_model_stays_as_it_was_where_a_plan_does_not_fit() -> None:
    before = TWO_SITES.SerializeToString()
    with pytest.raises(PlanError, match="site 'main:B' is missing"):
        lower(TWO_SITES, plan=LoweringPlan("atlas-a2", "", plan_of(TWO_SITES).sites[:1]))
    assert TWO_SITES.SerializeToString() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"A": {"forward": None}},
            r"'main:B' cannot become MaxPool3DWithArgmaxV2: the plan leaves the forward pool of .*\(skipped-by-plan\)$",
        ),
        (
            {"A": {"operator": None, "forward": None}},
            r"cannot become MaxPool3DWithArgmaxV2: the Indices of 'Y' are used .* \(forward-readers\)$",
        ),
        ({"B": {"forward": "MaxPoolWithArgmaxV3"}}, "on atlas-a2 it can only become MaxPool3DWithArgmaxV2"),
    ],
)
def test_pools_that_cannot_become_what_the_plan_says(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        lower(TWO_SITES, plan=plan_of(TWO_SITES, **changes))


def test_forward_pools_that_are_not_lowered() -> None:
    with pytest.raises(PlanError, match="forward pools are not lowered"):
        lower(TWO_SITES, plan=plan_of(TWO_SITES), forward=False)


def test_an_operator_whose_name_the_model_has_taken() -> None:
    """A function of the model's own is in the way of the operator that the plan chooses, and of no other."""
    taken = ModelProto.FromString(TWO_SITES.SerializeToString())
    taken.functions.add(domain="npu", name=ADAPTIVE, input=["a"], output=["a"])
    assert operators(lower(taken, plan=plan_of(taken)).model) == [GRADIENT, GRADIENT, POOL]
    with pytest.raises(PlanError) as raised:
        lower(taken, plan=plan_of(taken, B={"operator": ADAPTIVE}))
    conflict = f"the model defines its own function npu.{ADAPTIVE} (dialect-conflict)"
    assert str(raised.value) == f"'main:B' cannot become {ADAPTIVE}: {conflict}"


def test_a_plan_in_a_file_for_another_target(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(plan_of(TWO_SITES).to_json())
    with pytest.raises(PlanError) as raised:
        lower(TWO_SITES, plan=read_plan(path), target="ascend950")
    assert str(raised.value) == f"{path}: target: the plan is for atlas-a2, not for ascend950"


def test_names_are_written_as_they_are() -> None:
    plan = LoweringPlan("atlas-a2", "", (SiteChoice("main:梯度", GRADIENT, None),))
    assert '"site": "main:梯度"' in plan.to_json()


def test_a_site_is_named_by_its_first_output() -> None:
    model = parse("g (float[1,1,4] x) => (i) { y, i = MaxPool<kernel_shape = [2]>(x) [sink] z = Sink() }")
    model.graph.node[0].output[0] = ""
    del model.graph.node[1].output[:]
    main_graph = ModelIndex(model).scopes[0]
    taken: set[str] = set()
    assert [identifier(main_graph.node(number), taken) for number in (0, 1)] == ["main:i", "main:sink"]


def test_the_page_says_what_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[4] / "docs" / "report.md").read_text(encoding="utf-8").partition("## Plans")[2]
    source = (BUILT / "torch" / "lenet.onnx").read_bytes()
    Path("training.onnx").write_bytes(source)
    for command in re.findall(r"^poolgrad (.*)$", page, re.MULTILINE):
        assert main(shlex.split(command)) == 0
    assert Path("lowered.onnx").read_bytes() != source
    [shown] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert Path("plan.json").read_text() == shown
    [block] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(block, {})


# -- files that do not fit

Edit = Callable[[dict[str, Any]], object]

NEAR_MISSES: dict[str, tuple[Edit, str, str]] = {
    "another file": (
        lambda plan: plan.update(model_sha256="0" * 64), ": model_sha256",
        "the plan is for another model file, its SHA-256 is not "),
    "another version": (lambda plan: plan.update(schema_version=2), ": schema_version", "'schema_version' is 2, not 1"),
    "no such target": (
        lambda plan: plan.update(target="atlas-a4"), ": target", "unknown target 'atlas-a4' (did you mean atlas-a"),
    "another target": (
        lambda plan: plan.update(target="atlas-training"), ": sites[0]", "'main:A' cannot be lowered: "),
    "no such field": (lambda plan: plan.update(sides=[]), "", "has no field 'sides' (did you mean sites?)"),
    "a field too few": (lambda plan: plan.pop("target"), "", "the plan lacks 'target'\n"),
    "sites of a wrong kind": (lambda plan: plan.update(sites={}), ": sites", "'sites' must be a list"),
    "a truth for a number": (
        lambda plan: plan.update(schema_version=True), ": schema_version", "'schema_version' must be a whole number"),
    "no such site": (
        lambda plan: plan["sites"][1].update(site="main:C"), ": sites[1]",
        "the model has no site 'main:C' (did you mean main:"),
    "a site twice": (lambda plan: plan["sites"].append(plan["sites"][0]), ": sites[2]", "is listed twice, first at "),
    "a site too few": (lambda plan: plan["sites"].pop(), ": sites", "site 'main:B' is missing: a plan names every"),
    "a site that is none": (lambda plan: plan["sites"].append(3), ": sites[2]", "a site must be an object"),
    "no such field of a site": (
        lambda plan: plan["sites"][0].update(skip=True), ": sites[0]",
        "a site has no field 'skip': its fields are site, "),
    "a field of a site too few": (
        lambda plan: plan["sites"][0].pop("forward"), ": sites[0]", "a site lacks 'forward'\n"),
    "no such operator": (
        lambda plan: plan["sites"][0].update(operator="MaxPool3dGradWithArgmax"), ": sites[0].operator",
        "not a possible operator (did you mean MaxPool3DGradWithArgmax?)"),
    "nothing like an operator": (
        lambda plan: plan["sites"][0].update(operator="none"), ": sites[0].operator",
        "'operator' is 'none', which is not a possible operator: give one of MaxPool3DGradWithArgmax, "),
    "an operator of another product": (
        lambda plan: plan["sites"][0].update(operator="MaxPoolGradWithArgmaxV3"),
        ": sites[0]",
        "cannot become MaxPoolGradWithArgmaxV3: MaxPoolGradWithArgmaxV3 cannot express the windows of a pool of "
        "[2, 3, 8] to [2, 3, 4] (operator-windows)",
    ),
    "a pool in a gradient's place": (
        lambda plan: plan["sites"][0].update(operator="MaxPool3DWithArgmaxV2"), ": sites[0].operator",
        "which is not a possible operator"),
    "a gradient in a pool's place": (
        lambda plan: plan["sites"][0].update(forward="MaxPool3DGradWithArgmax"), ": sites[0].forward",
        "'forward' is 'MaxPool3DGradWithArgmax', which is not a possible operator"),
    "a pool without its gradient": (
        lambda plan: plan["sites"][0].update(operator=None), ": sites[0].forward",
        "'forward' must be null if 'operator' is"),
    "notes of a wrong kind": (
        lambda plan: plan["sites"][0].update(alternatives="none"), ": sites[0].alternatives",
        "'alternatives' must be a list or null\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    edit, place, message = NEAR_MISSES[name]
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").write_bytes(TWO_SITES.SerializeToString())
    assert main(["inspect", "m.onnx", "--plan", "plan.json"]) == 0
    plan = json.loads(Path("plan.json").read_text())
    edit(plan)
    Path("plan.json").write_text(json.dumps(plan))
    capsys.readouterr()
    assert main(["lower", "m.onnx", "-o", "out.onnx", "--plan", "plan.json"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"poolgrad: error: plan.json{place}: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert not Path("out.onnx").exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{\n  "sites": [,]\n}', "plan.json:2: not JSON: Expecting value at column 13"),
        (b"[]", "plan.json: the plan must be an object"),
        (b"{\n\xff}", "plan.json: it is not UTF-8 text"),
        (b'{"target": 1,\n"target": 2}', "plan.json: not JSON: an object has two members 'target'"),
        (b'{"a": 1, "b": 2, "b": 3}', "plan.json: not JSON: an object has two members 'b'"),
        (b'{"schema_version": NaN}', "plan.json: not JSON: NaN is not a number"),
    ],
)
def test_files_that_are_no_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_bytes(data)
    with pytest.raises(PlanError) as caught:
        read_plan("plan.json")
    assert str(caught.value) == message


def test_a_plan_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(TWO_SITES.SerializeToString())
    assert main(["inspect", str(path), "--plan", str(path)]) == 2
    assert "cannot write the plan to" in capsys.readouterr().err
    assert path.read_bytes() == TWO_SITES.SerializeToString()
    assert main(["lower", str(path), "-o", str(tmp_path / "out.onnx"), "--plan", str(tmp_path / "absent.json")]) == 2
    assert "cannot read" in capsys.readouterr().err
