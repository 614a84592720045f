# SPDX-License-Identifier: Apache-2.0

"""Other packages' tools on training graphs before these are lowered; `make fuzz-tools` runs for longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, inliner, parser

from tests.heads import head

pytestmark = [pytest.mark.tools, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("onnxslim")

from poolgrad_lowering import lower  # noqa: E402
from tests.generators import places  # noqa: E402
from tests.generators.fuzz import QUIET  # noqa: E402
from tests.generators.plans import Plan, plans  # noqa: E402
from tests.generators.transforms import Transform  # noqa: E402
from tests.harness.other_tools.apart import Apart, ToolError  # noqa: E402
from tests.other_tools import search  # noqa: E402
from tests.other_tools.before_lowering import Case, Tally, check, check_changed, declares_false_types, misuses_operators  # noqa: E402
from tests.other_tools.producers import TOOLS  # noqa: E402
from tests.pool_graphs import parse  # noqa: E402

SOME = settings(QUIET, max_examples=3, derandomize=True)
BUILT = {name: case for name, case in search.built_cases() if name in ("ort/nested", "torch/lenet", "torch/nested")}


@pytest.fixture(scope="module")
def apart() -> Iterator[Apart]:
    with Apart() as process:
        yield process


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", BUILT)
def test_built_models(name: str, tool: str, apart: Apart) -> None:
    check(search.for_tool(BUILT[name], tool), tool, apart, Tally())


@pytest.mark.parametrize("tool", TOOLS)
def test_random_graphs(tool: str, apart: Apart) -> None:
    @SOME
    @given(plans(), st.sampled_from(search.PLACES))
    def example(plan: Plan, place: Transform) -> None:
        check(search.random_case(plan, tool, place), tool, apart, Tally())

    example()


def test_most_tools_take_a_model_and_keep_its_gradients(apart: Apart) -> None:
    """So that the other tests do not pass because every tool fails."""
    kept = set()
    for tool in TOOLS:
        tally = Tally()
        check(search.for_tool(BUILT["torch/lenet"], tool), tool, apart, tally)
        if tally.counts["lowered"] == tally.counts["sites"] == 2:
            kept.add(tool)
    assert {"onnxslim", "onnxsim", "onnxoptimizer", "onnxscript optimizer", "onnxruntime offline, all"} <= kept
    assert len(kept) >= len(TOOLS) - 4


@pytest.fixture
def two_gradients() -> Case:
    return BUILT["torch/lenet"]


def test_a_gradient_that_is_lost(two_gradients: Case) -> None:
    """A tool that makes the scatters multiply loses both gradients, with a code that is not known of it."""
    changed = _copied(two_gradients.model)
    for node in changed.graph.node:
        if node.op_type == "ScatterElements":
            del node.attribute[:]
            node.attribute.extend([helper.make_attribute("axis", 1), helper.make_attribute("reduction", "mul")])
    tally = Tally()
    with pytest.raises(AssertionError, match="reduction"):
        check_changed(two_gradients, changed, "onnxslim", tally, 2)
    assert tally.counts["other results"] == 1
    assert tally.refused["reduction"] == 2


def in_a_function(opset: int) -> ModelProto:
    return parser.parse_model(
        f"""{head(opset, "local", ir=10)}
        training (float[2,3,4] x, float[2,3,2] dy) => (float[2,3,4] dx) {{ dx = local.Pooled (x, dy) }}
        <domain: "local", opset_import: ["": {opset}]>
        Pooled (x, dy) => (dx) {{
            y, i = MaxPool <kernel_shape = [2], strides = [2]> (x)
            dx = MaxPoolGrad <kernel_shape = [2], strides = [2]> (dy, i)
        }}"""
    )


QUANTISERS = ("onnxruntime quantize_dynamic", "onnxruntime quant_pre_process, skip_symbolic_shape")
ONNX_CONVERTER = "onnx version_converter, newest"


@pytest.mark.parametrize("tool", [*QUANTISERS, ONNX_CONVERTER])
def test_a_tool_that_removes_functions(tool: str, apart: Apart) -> None:
    """Nothing is left to lower, and `MaxPoolGrad` cannot be inlined before, as onnx's converter does not know it."""
    model = in_a_function(9)
    assert len(lower(model).report.lowered) == 1
    changed = apart.apply(tool, model)
    assert not changed.functions
    assert not lower(changed).report.anchors
    with pytest.raises(ToolError, match="no registered schema"):
        apart.apply(tool, inliner.inline_local_functions(model))


@pytest.mark.parametrize("tool", QUANTISERS)
def test_quantisation_in_a_newer_opset_keeps_functions(tool: str, apart: Apart) -> None:
    assert len(lower(apart.apply(tool, in_a_function(11))).report.lowered) == 1


def test_functions_that_are_inlined_before_a_conversion(apart: Apart) -> None:
    scattered = places.in_a_function(BUILT["torch/lenet"].model, [])
    assert len(lower(scattered).report.lowered) == 2
    assert not lower(apart.apply(ONNX_CONVERTER, scattered)).report.anchors
    changed = apart.apply(ONNX_CONVERTER, inliner.inline_local_functions(scattered))
    assert len(lower(changed).report.lowered) == 2


@pytest.mark.parametrize("declared", ["float16", "float"])
@pytest.mark.parametrize("place", ["a = Cast <to = 1> (x)", "h = Cast <to = 1> (x) a = Neg (h)"])
def test_a_graph_that_declares_another_type_than_it_computes(declared: str, place: str) -> None:
    """Runtimes refuse it, so that there is nothing to be lowered."""
    branch = f"() => ({declared}[2] a) {{ {place} }}"
    model = parse(
        f"g (bool c, float16[2] x) => (y) {{ y = If (c) <then_branch = t {branch}, else_branch = e {branch}> }}",
        opset=18,
    )
    assert bool(declares_false_types(model)) == (declared == "float16")


@pytest.mark.parametrize(("opset", "is_wrong"), [(12, False), (13, True)])
def test_a_node_that_is_not_of_the_opset(opset: int, is_wrong: bool) -> None:
    """onnxscript's converter writes a newer opset and leaves some nodes as they are, in branches too."""
    branch = "() => (float[2, 1] a) { a = Unsqueeze <axes = [1]> (x) }"
    model = parse(
        f"g (bool c, float[2] x) => (y) {{ y = If (c) <then_branch = t {branch}, else_branch = e {branch}> }}",
        opset=opset,
    )
    assert bool(misuses_operators(model)) == is_wrong


def test_a_tool_that_writes_such_a_graph(two_gradients: Case) -> None:
    changed, tally = _copied(two_gradients.model), Tally()
    changed.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    check_changed(two_gradients, changed, "onnxslim", tally, 2)
    assert tally.told == {"tool: declares other element types than the nodes compute": 1}
    assert tally.counts["lowered"] == 2


def test_a_tool_that_removes_declared_types() -> None:
    """What a PyTorch pool gives has the type and the rank that its operands tell."""
    model = parse(
        """g (float[2,3,4,4] x, float[2,3,1,1] dy) => (float[2,3,2,2] dx) <int64[2] size = {2, 2}> {
            y, i = org.pytorch.aten.ATen <operator = "adaptive_max_pool2d"> (x, size)
            z, j = MaxPool <kernel_shape = [2, 2]> (y)
            dx = MaxPoolGrad <kernel_shape = [2, 2]> (dy, j)
        }""",
        imports='"org.pytorch.aten": 1',
    )
    tally = Tally()
    check_changed(Case(model, None), model, "onnxslim", tally, 1)
    assert not tally.told
    assert tally.counts["lowered"] == 1


def test_a_tool_that_crashes(two_gradients: Case) -> None:
    """The process is started again; a name that it does not know is an error that it raises."""
    with Apart() as process:
        process._process.kill()
        process._process.join()
        with pytest.raises(ToolError, match="crash, exit code -9"):
            process.apply("onnxslim", two_gradients.model)
        with pytest.raises(ToolError, match="KeyError"):
            process.apply("nobody", two_gradients.model)
        assert process.apply("onnx inliner", two_gradients.model) == two_gradients.model


def test_search_writes_what_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(case: Case, _tool: str, _apart: Apart, tally: Tally) -> None:
        tally.counts["graphs"] += 1
        assert case.target != "ascend950", "the target"

    monkeypatch.setattr(search, "check", mistaken)
    monkeypatch.setattr(search, "built_cases", dict)
    assert search.main(["--minutes", "5", "--folder", str(tmp_path), "--tool", "onnx inliner"]) == 1
    told = (tmp_path / "failure.txt").read_text(encoding="utf-8")
    assert told.startswith("onnx inliner\nas_it_is Plan(")
    assert "AssertionError: the target" in told
    assert {path.name for path in tmp_path.iterdir()} >= {"model.onnx", "changed.onnx", "changed.onnxtxt"}
    assert "| onnx inliner |" in capsys.readouterr().out


def _copied(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy
