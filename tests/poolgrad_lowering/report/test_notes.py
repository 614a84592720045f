# SPDX-License-Identifier: Apache-2.0

"""The notes on a model as a whole, on what other tools really leave of a lowered model."""

from __future__ import annotations

import re
from pathlib import Path

import onnx.compose
import onnx.inliner
import onnx.parser
import onnx.version_converter
import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering import export_cann, inspect, lower
from poolgrad_lowering.dialect import OPS, function_body
from poolgrad_lowering.dialect.op import Op
from poolgrad_lowering.dialect.targets import TARGETS, Support
from tests.pool_graphs import GRADIENT, ort_gradient, parse
from tests.texts import Says

BUILT = Path(__file__).parents[3] / "models" / "built" / "spellings"
LOWERED = lower(GRADIENT).model


def noted(model: ModelProto, **options: str) -> dict[str, str]:
    """The text of each note, by its code."""
    return {note.code: note.text for note in inspect(model, **options).notes}


def warned(model: ModelProto) -> list[str]:
    return [note.code for note in inspect(model).notes if note.warning]


def named_products(text: str) -> set[str]:
    """Those of today's products with operators that a note says a model was lowered for."""
    named = re.split(", | or ", text.rpartition("), for ")[2])
    return {"ascend950", "atlas-a3", "atlas-a2"}.intersection(named)


def test_an_original_needs_no_note() -> None:
    assert noted(GRADIENT) == {}


@pytest.mark.note("forward-graph")
def test_a_forward_graph(says: Says) -> None:
    model = parse(
        """g (float[2,3,8] X) => (Z) {
            Y = MaxPool<kernel_shape = [2]>(X)
            Z = MaxPool<kernel_shape = [3]>(Y)
        }"""
    )
    [(code, text)] = noted(model).items()
    assert code == "forward-graph"
    says(text)
    assert not warned(model)


AVERAGE = """<ir_version: 8, opset_import: ["" : 18]>
g (float[2,3,4,5] dy) => (float[2,3,8,10] dx) <float four = {4}, int64[4] p = {-1,1,4,5}, float[1,1,2,2] w = {1,1,1,1},
    int64[4] x = {2,3,8,10}> {
    mean = Div (dy, four)
    planes = Reshape (mean, p)
    sums = ConvTranspose <strides = [2,2]> (planes, w)
    dx = Reshape (sums, x)
}"""


@pytest.mark.note("in-onnx")
def test_a_gradient_in_operators_of_onnx(says: Says) -> None:
    """CANN's graph engine has them: `export-cann` leaves the gradient, unless it is told not to."""
    model = onnx.parser.parse_model(AVERAGE)
    [(code, text)] = noted(model).items()
    assert code == "in-onnx"
    says(text)
    assert not warned(model)


@pytest.mark.refusal("in-onnx")
def test_such_a_gradient_stays_beside_the_cann_provider(says: Says) -> None:
    model = onnx.parser.parse_model(AVERAGE)
    kept = export_cann(model)
    [anchor] = kept.report.lowering.anchors
    assert (anchor.status, anchor.code) == ("refused", "in-onnx")
    says(anchor.reason)
    assert not kept.report.lowering.notes
    assert not any(node.domain for node in kept.model.graph.node)
    [node] = [node for node in export_cann(model, lower_onnx=True).model.graph.node if node.domain]
    assert node.op_type == "AvgPool3DGrad"


@pytest.mark.note("forward-graph")
def test_a_forward_graph_of_average_pools(says: Says) -> None:
    [(code, text)] = noted(
        parse("g (float[1,1,4] X) => (Y) { Z = AveragePool<kernel_shape = [2]>(X) Y = GlobalAveragePool(Z) }")
    ).items()
    assert code == "forward-graph"
    says(text)


@pytest.mark.note("no-pool")
def test_no_pool(says: Says) -> None:
    [(code, text)] = noted(parse("g (float[2] X) => (Y) { Y = Relu(X) }")).items()
    assert code == "no-pool"
    says(text)


def test_a_refused_anchor_may_be_a_gradient() -> None:
    """A pool whose gradient is written in an unknown form is no proof of a forward graph."""
    model = parse(
        """g (float[2,3,4] X, float[2,3,4] dY, int64[2,3,4] I) => (Y, dX) {
            Y = MaxPool<kernel_shape = [2]>(X)
            dX = MaxPoolGrad(dY, I)
        }"""
    )
    assert noted(model) == {}


@pytest.mark.note("already-lowered")
@pytest.mark.parametrize(("target", "others"), [("atlas-a2", {"ascend950", "atlas-a3"}), ("ascend950", set())])
def test_lowered_already(target: str, others: set[str]) -> None:
    [(code, text)] = noted(lower(GRADIENT, target=target).model).items()
    assert code == "already-lowered"
    assert text.startswith("already lowered: 2 npu nodes (")
    assert named_products(text) == {target, *others}


def test_a_product_that_does_not_take_the_type_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    a2 = TARGETS["atlas-a2"]
    operators = dict.fromkeys(a2.operators, Support(element_types=frozenset((TensorProto.FLOAT16,))))
    monkeypatch.setitem(TARGETS, "atlas-a2", a2._replace(operators=operators))
    assert named_products(noted(LOWERED)["already-lowered"]) == {"ascend950", "atlas-a3"}


@pytest.mark.note("no-bodies")
def test_functions_that_a_tool_removed(says: Says) -> None:
    converted = onnx.version_converter.convert_version(LOWERED, 20)
    assert not converted.functions
    says(noted(converted)["no-bodies"])
    assert warned(converted) == ["no-bodies"]


@pytest.mark.note("renamed-operators")
def test_operators_that_a_tool_renamed(says: Says) -> None:
    found = noted(onnx.compose.add_prefix(LOWERED, "p_"))
    assert list(found) == ["renamed-operators"]
    says(found["renamed-operators"])


@pytest.mark.parametrize("opset", [10, 14, 18])
def test_bodies_that_onnx_inlined(opset: int) -> None:
    """Each range of opsets has a body of its own."""
    model = parse(
        """g (float[2,3,4] X, float[2,3,2] dY) => (dX) {
            Y, I = MaxPool<kernel_shape = [2], strides = [2]>(X)
            dX = MaxPoolGrad(dY, I)
        }""",
        opset=opset,
    )
    inlined = onnx.inliner.inline_local_functions(lower(model).model)
    assert "the function bodies of 1 npu gradient were inlined" in noted(inlined)["inlined-bodies"]


@pytest.mark.note("inlined-bodies")
@pytest.mark.parametrize("target", ["atlas-a2", "ascend950"])
def test_bodies_of_average_pools_that_were_inlined(target: str, says: Says) -> None:
    lowered = lower(onnx.load(BUILT / "ort_average.onnx"), target=target)
    inlined = onnx.inliner.inline_local_functions(lowered.model)
    found = noted(inlined)
    assert list(found) == ["inlined-bodies"]
    says(found["inlined-bodies"])


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_every_body_of_a_gradient_has_its_marker_once(op: Op) -> None:
    for maximum, body in op.bodies.items():
        made = [
            name
            for node in function_body(op.name, 18, [TensorProto.FLOAT], maximum=maximum).node
            for name in node.output
        ]
        others = {other.marker for each in OPS.values() for other in each.bodies.values()} - {body.marker, ""}
        assert made.count(body.marker) == ("Grad" in op.name)
        assert others.isdisjoint(made)


@pytest.mark.note("inlined-bodies")
def test_bodies_of_some_operators_that_were_inlined() -> None:
    """The forward pool is left. Values of the functions themselves are not taken for inlined ones."""
    inlined = onnx.inliner.inline_selected_functions(LOWERED, [("npu", "MaxPool3DGradWithArgmax")])
    assert warned(inlined) == ["inlined-bodies"]
    assert "no node of domain npu is left" not in noted(inlined)["inlined-bodies"]
    assert warned(LOWERED) == []


@pytest.mark.note("mistyped-bodies")
@pytest.mark.parametrize("element_type", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_types_that_a_tool_changed(element_type: int, says: Says) -> None:
    converted = copied(LOWERED)
    for value in (*converted.graph.input, *converted.graph.output, *converted.graph.value_info):
        value.type.tensor_type.elem_type = element_type
    assert warned(converted) == ["mistyped-bodies"]
    says(noted(converted)["mistyped-bodies"])


@pytest.mark.parametrize("dtype", ["float", "float16", "bfloat16"])
def test_types_that_bodies_take(dtype: str) -> None:
    model = ort_gradient([2, 3, 4, 4], opset=18, dtype=dtype, kernel_shape=[2, 2], strides=[2, 2])
    assert warned(lower(model).model) == []


@pytest.mark.note("missing-attributes")
def test_attributes_that_a_tool_removed(says: Says) -> None:
    """One node lacks two attributes."""
    damaged = copied(LOWERED)
    node = damaged.graph.node[0]
    kept = [attribute for attribute in node.attribute if attribute.name not in ("dilation", "ceil_mode")]
    del node.attribute[:]
    node.attribute.extend(kept)
    assert warned(damaged) == ["missing-attributes"]
    says(noted(damaged)["missing-attributes"])


def test_a_body_on_which_onnx_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its types are not known to be wrong."""

    def fail(*_: object) -> None:
        raise RuntimeError("assertion failed")

    monkeypatch.setattr("poolgrad_lowering.report.damage.infer_function_output_types", fail)
    assert warned(LOWERED) == []


def copied(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


@pytest.mark.note("target-without-operators")
def test_a_target_that_refuses_everything() -> None:
    near = "Did you mean Ascend910B1, Ascend910B2, Ascend910B2C, Ascend910B3, Ascend910B4 or Ascend910B4-1, Atlas A2"
    for name in ("Ascend910B", "atlas-training"):
        assert near in noted(GRADIENT, target=name)["target-without-operators"]
    for name in ("Ascend310P3", "atlas-200i-500-a2", "ascend350"):
        text = noted(GRADIENT, target=name)["target-without-operators"]
        *first, last = [target.name for target in TARGETS.values() if target.operators]
        assert text.endswith(f"Did you mean {', '.join(first)} or {last}?")
    for name in ("Ascend910B1", "atlas-a3", "ascend950"):
        assert noted(GRADIENT, target=name) == {}
