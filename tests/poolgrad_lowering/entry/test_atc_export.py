# SPDX-License-Identifier: Apache-2.0

"""An export for ATC computes what its original does, and has the form that CANN's parser takes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto

import poolgrad_lowering
from poolgrad_lowering import UnknownTargetError, export_atc, lower, verify
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.ge.atc.prepare import make_inputs
from poolgrad_lowering.model.diagnostics.errors import UsageError
from poolgrad_lowering.model.ir.graphs import graphs
from tests.pool_graphs import parse, random_feeds, torch_gradient

BUILT = Path(__file__).parents[3] / "models" / "built"
TARGETS = ("atlas-a2", "atlas-a3", "ascend950")
SCHEMA = json.loads((Path(poolgrad_lowering.__file__).parent / "schemas" / "atc.json").read_text(encoding="utf-8"))


def lines(model: ModelProto) -> list[str]:
    """The nodes as `outputs = operator(inputs)`."""
    return [f"{', '.join(n.output)} = {n.op_type}({', '.join(n.input)})" for n in model.graph.node]


def run(model: ModelProto, feeds: dict[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def same_bits(first: list[Any], second: list[Any]) -> bool:
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))


def test_a_pool_and_its_gradient_of_rank_4_become_rank_5() -> None:
    original = torch_gradient([2, 3, 6, 8], kernel_shape=[2, 2], strides=[2, 2])
    exported = export_atc(original).model
    assert lines(exported) == [
        "X/5d = Unsqueeze(X, ints_2)",
        "Y/5d, Y/argmax/5d = MaxPool3DWithArgmaxV2(X/5d)",
        "dY/5d = Unsqueeze(dY, ints_2)",
        "dX/5d = MaxPool3DGradWithArgmax(X/5d, dY/5d, Y/argmax/5d)",
        "dX = Squeeze(dX/5d, ints_2)",
    ]
    onnx.checker.check_model(exported)
    feeds = random_feeds(original)
    assert same_bits(run(original, feeds), run(exported, feeds))


def test_the_windows_of_onnx_get_entries_for_the_new_axes_and_those_of_ascend_stay() -> None:
    original = torch_gradient([2, 3, 7, 9], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0])
    [pool] = [n for n in export_atc(original).model.graph.node if n.op_type == "MaxPool3DWithArgmaxV2"]
    [before] = [n for n in lower(original).model.graph.node if n.op_type == "MaxPool3DWithArgmaxV2"]
    held, was = ({a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} for node in (pool, before))
    assert {
        name: list(value) for name, value in held.items() if name.startswith("onnx_") and name != "onnx_ceil_mode"
    } == {
        "onnx_kernel_shape": [1, 3, 2],
        "onnx_strides": [1, 2, 1],
        "onnx_pads": [0, 1, 0, 0, 1, 0],
        "onnx_dilations": [1, 1, 1],
    }
    assert {n: v for n, v in held.items() if n[:5] != "onnx_"} == {n: v for n, v in was.items() if n[:5] != "onnx_"}


def test_on_ascend_950_a_pool_of_two_axes_keeps_rank_4() -> None:
    exported = export_atc(torch_gradient([2, 3, 6, 8], kernel_shape=[2, 2], strides=[2, 2]), target="ascend950").model
    assert [node.op_type for node in exported.graph.node] == ["MaxPoolWithArgmaxV3", "MaxPoolGradWithArgmaxV3"]


@pytest.mark.parametrize("target", TARGETS)
def test_exports_of_the_original_of_a_lowered_model_and_of_an_export_are_one(target: str) -> None:
    original = onnx.load(BUILT / "torch" / "lenet.onnx")
    exported = export_atc(original, target=target)
    before = original.SerializeToString()
    assert export_atc(lower(original, target=target).model, target=target).model == exported.model
    assert export_atc(exported.model, target=target).model == exported.model
    assert original.SerializeToString() == before


def test_a_gradient_in_a_branch() -> None:
    original = parse(
        """g (bool flag, float[1,2,4,4] X, float[1,2,2,2] dY) => (float[1,2,4,4] dX) {
            dX = If (flag) <then_branch = yes () => (float[1,2,4,4] a) {
                P, I = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X)
                a = MaxPoolGrad<kernel_shape = [2, 2], strides = [2, 2]>(dY, I)
            }, else_branch = no () => (float[1,2,4,4] b) { b = Identity(X) }>
        }"""
    )
    exported = export_atc(original)
    inside = [node.op_type for graph in graphs(exported.model.graph) for node in graph.node][1:]
    assert inside == [
        *("Unsqueeze", "MaxPool3DWithArgmaxV2", "Unsqueeze", "MaxPool3DGradWithArgmax", "Squeeze"),
        "Identity",
    ]
    assert exported.report.converts
    feeds = {**random_feeds(original), "flag": np.array(True)}
    lowered = lower(original).model
    assert same_bits(run(lowered, feeds), run(exported.model, feeds))


def test_an_operator_that_a_graph_of_cann_cannot_have_is_expanded() -> None:
    original = onnx.load(BUILT / "torch_legacy" / "adaptive.onnx")
    exported = export_atc(original)
    assert exported.report.edits.expanded == ("AdaptiveMaxPool3DGrad",)
    assert {node.op_type for node in exported.model.graph.node if node.domain == DOMAIN} == {"AdaptiveMaxPool3d"}
    assert [function.name for function in exported.model.functions] == ["AdaptiveMaxPool3d"]
    inputs = {value.name: value for value in original.graph.input}
    random = np.random.default_rng(0)
    feeds = {
        name: random.standard_normal([d.dim_value for d in value.type.tensor_type.shape.dim]).astype(np.float32)
        for name, value in inputs.items()
    }
    assert same_bits(run(lower(original).model, feeds), run(exported.model, feeds))


def test_every_node_gets_a_name_of_its_own() -> None:
    original = parse(
        """g (float[2] X) => (float[2] E) <float[2] W = {1.0, 2.0}> {
            [twin] A = Relu(X)
            [twin] B = Neg(A)
            [X] C = Abs(B)
            [W] D = Add(C, W)
            E = Relu(D)
        }"""
    )
    exported = export_atc(original)
    assert [node.name for node in exported.model.graph.node] == ["twin", "twin_2", "X_2", "W_2", "E"]
    assert exported.report.edits.renamed == 4


def test_a_node_does_not_get_the_name_of_an_initializers_node() -> None:
    original = parse("g (float[1] X) => (float[1] Y) <float[1] W = {1.0}> { [W_Initializer_0] Y = Add(X, W) }")
    assert export_atc(original).model.graph.node[0].name == "W_Initializer_0_"


def test_indices_that_nobody_reads_are_taken_off() -> None:
    original = parse(
        """g (float[1,1,H,4] X) => (float[1,1,P,2] A, float[1,1,P,2] B, int64[1,1,P,2] K) {
            A, I = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X)
            B, K = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X)
        }"""
    )
    exported = export_atc(original)
    assert [list(node.output) for node in exported.model.graph.node] == [["A"], ["B", "K"]]
    assert exported.report.edits.indices_dropped == 1
    assert [obstacle.code for obstacle in exported.report.obstacles] == ["kept-indices"]


def test_weights_that_are_to_be_trained_are_inputs() -> None:
    original = onnx.load(BUILT / "torch" / "resnet_stem.onnx")
    exported = export_atc(original, weights_as_inputs=["body_*_weight", "body_0_bias"])
    values = {t.name: onnx.numpy_helper.to_array(t) for t in original.graph.initializer}
    moved = ("body_0_weight", "body_0_bias")
    assert exported.report.edits.inputs == moved
    assert [value.name for value in exported.model.graph.input][-2:] == list(moved)
    # onnxruntime packs constant weights for other kernels, so the original gets the same inputs.
    make_inputs(original, moved)
    feeds = random_feeds(original) | {name: values[name] for name in moved}
    assert same_bits(run(original, feeds), run(exported.model, feeds))


def test_a_default_of_an_input_is_a_constant_for_atc_unless_it_is_a_weight() -> None:
    original = parse(
        "g (float[2] X, float[2] W = {1.0, 2.0}) => (float[2] Y) { Y = Mul(X, W) }",
    )
    assert export_atc(original).report.constant_inputs == ("W",)
    exported = export_atc(original, weights_as_inputs=["W"])
    assert exported.report.constant_inputs == ()
    assert [value.name for value in exported.model.graph.input] == ["X", "W"]
    assert not exported.model.graph.initializer


def test_a_pattern_without_an_initializer_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"^'w\*' matches no floating-point initializer of the main graph$"):
        export_atc(parse("g (float[2] X) => (float[2] Y) { Y = Relu(X) }"), weights_as_inputs=["w*"])


def test_an_unknown_target_is_an_error() -> None:
    with pytest.raises(UnknownTargetError):
        export_atc(parse("g (float[2] X) => (float[2] Y) { Y = Relu(X) }"), target="atlas-b2")


def pinned(lowered: ModelProto) -> ModelProto:
    """A lowered model whose dialect nodes have a view before each input and after each output, as in an export.

    onnxruntime has no half-precision kernels on the CPU for most operators. Between two of them it removes the
    conversion to half precision and back, and its rounding; a view between them, which has such a kernel, keeps it.
    """
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in lowered.graph.node]
    del lowered.graph.node[:]
    lowered.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(4, np.int64), "as it is"))
    for node in nodes:
        if node.domain != DOMAIN:
            lowered.graph.node.append(node)
            continue
        before = [view(value, f"{value} of {node.name}") for value in node.input]
        after = [view(f"{value} of {node.name}", value) for value in node.output]
        node.input[:] = [entry.output[0] for entry in before]
        node.output[:] = [entry.input[0] for entry in after]
        lowered.graph.node.extend([*before, node, *after])
    return lowered


def view(source: str, result: str) -> onnx.NodeProto:
    return onnx.helper.make_node("Reshape", [source, "as it is"], [result], name=f"{result} as it is")


TORCH = sorted((BUILT / "torch").glob("*.onnx"))
STOPPED = {
    "float64": {key: ["float64"] for key in TARGETS},
    "lenet_opset21": {key: ["opset"] for key in TARGETS},
    "lenet_opset23": {key: ["opset"] for key in TARGETS},
}
"""The obstacles of those built models that ATC cannot convert."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", TORCH, ids=lambda path: path.stem)
def test_built_models(path: Path, target: str) -> None:
    original = onnx.load(path)
    exported = export_atc(original, target=target)
    codes = sorted({obstacle.code for obstacle in exported.report.obstacles})
    assert codes == STOPPED.get(path.stem, {}).get(target, [])
    jsonschema.validate(json.loads(exported.report.to_json()), SCHEMA)
    onnx.checker.check_model(exported.model)
    held = np.load(path.with_suffix(".npz"))
    feeds = {value.name: held[f"in:{value.name}"] for value in original.graph.input}
    names = [node.name for graph in graphs(exported.model.graph) for node in graph.node]
    assert not [name for name, count in Counter(names).items() if count > 1]
    if path.stem.endswith("float16") and exported.report.edits.raised:
        original = pinned(lower(original, target=target).model)
    assert same_bits(run(original, feeds), run(exported.model, feeds))


def test_of_the_models_at_opset_16_to_18_one_has_an_obstacle() -> None:
    opsets = {path.stem: onnx.load(path).opset_import[0].version for path in TORCH}
    within = [name for name, opset in opsets.items() if 16 <= opset <= 18]
    assert len(within) == 31  # as the page on ATC says
    assert {name for name in within if name in STOPPED} == {"float64"}


VERIFIED = [
    path for folder in ("torch", "torch_legacy", "spellings") for path in sorted((BUILT / folder).glob("*.onnx"))
]


@pytest.mark.parametrize("target", ["atlas-a2", pytest.param("ascend950", marks=pytest.mark.long)])
@pytest.mark.parametrize("path", VERIFIED, ids=lambda path: path.stem)
def test_verify_proves_the_export_against_the_original(path: Path, target: str) -> None:
    original = onnx.load(path)
    found = verify(original, export_atc(original, target=target).model)
    assert found.proven, found
    assert found.whole_model.status in ("same", "skipped")


def test_roundings_that_onnxruntime_leaves_out_are_no_difference() -> None:
    original = onnx.load(BUILT / "torch" / "resnet_stem_float16.onnx")
    levels = verify(original, export_atc(original).model).whole_model.levels
    assert [(level.level, level.status) for level in levels] == [
        ("default", "skipped"),
        ("ORT_DISABLE_ALL", "skipped"),
        ("ORT_DISABLE_ALL with every rounding", "same"),
    ]
    assert "leaves out roundings of half precision" in str(levels[0].reason)


def test_a_difference_in_half_precision_is_one_with_every_rounding_too() -> None:
    original = onnx.load(BUILT / "torch" / "resnet_stem_float16.onnx")
    exported = export_atc(original).model
    weights = next(tensor for tensor in exported.graph.initializer if tensor.name == "body_0_weight")
    raw = bytearray(weights.raw_data)
    raw[0] ^= 1
    weights.raw_data = bytes(raw)
    found = verify(original, exported)
    assert (found.proven, found.whole_model.status) == (False, "differs")
    assert len(found.whole_model.levels) == 2


def test_results_are_short_in_an_interpreter_and_a_table_in_a_notebook() -> None:
    exported = export_atc(onnx.load(BUILT / "torch" / "lenet_opset21.onnx"))
    assert repr(exported) == "<AtcExport: <AtcReport for atlas-a2: 1 obstacle, 4 nodes brought to rank 5>>"
    assert "opset" in exported._repr_html_()


def test_a_path_is_no_model() -> None:
    with pytest.raises(TypeError, match=r"^the model is of type str, not onnx\.ModelProto"):
        export_atc("model.onnx")
    with pytest.raises(TypeError, match="verify_files"):
        verify("original.onnx", "export.onnx")
