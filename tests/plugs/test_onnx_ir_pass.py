# SPDX-License-Identifier: Apache-2.0

"""The pass for onnx_ir: the same as `lower`, in place, and honest about what it changed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import onnx.compose
import pytest
from onnx import TensorProto, helper, numpy_helper

from poolgrad_lowering import UnknownTargetError, lower
from tests.external_models import external, onto_zeros, saved
from tests.pool_graphs import torch_gradient

ir = pytest.importorskip("onnx_ir")

from onnx_ir.passes import common  # noqa: E402

from poolgrad_lowering.entry.plugs.onnx_ir_pass import PoolGradLoweringPass  # noqa: E402 - needs onnx_ir

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "models" / "built"
LENET = BUILT / "torch" / "lenet.onnx"
MAX_POOL_GRAD = BUILT / "ort" / "lenet.onnx"  # needs no value of an initializer


def through_onnx_ir(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model as onnx_ir writes it."""
    return ir.to_proto(ir.from_proto(model))


def without_gradient() -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("name", ["torch/lenet", "torch/nested", "ort/lenet", "torch/resnet_stem_float16"])
@pytest.mark.parametrize("target", ["ascend950", "atlas-a2"])
def test_what_lower_makes(name: str, target: str) -> None:
    source = onnx.load(BUILT / f"{name}.onnx")
    model = ir.from_proto(source)
    step = PoolGradLoweringPass(target)
    result = step(model)
    expected = lower(through_onnx_ir(source), target=target)
    assert result.modified
    assert result.model is model
    assert ir.to_proto(model).SerializeToString() == through_onnx_ir(expected.model).SerializeToString()
    assert step.report is not None
    assert step.report.anchors == expected.report.anchors
    onnx.checker.check_model(ir.to_proto(model))


def test_a_second_pass_changes_nothing() -> None:
    model = ir.load(LENET)
    assert PoolGradLoweringPass()(model).modified
    graph, functions = model.graph, dict(model.functions)
    assert not PoolGradLoweringPass()(model).modified
    assert model.graph is graph
    assert model.functions == functions


def test_a_gradient_beside_one_that_is_lowered_already() -> None:
    """onnx_ir writes the function bodies with other bytes; they are the same bodies."""
    gradient = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
    lowered = through_onnx_ir(lower(gradient).model)
    assert lowered.functions != lower(gradient).model.functions
    both = onnx.compose.merge_models(lowered, onnx.compose.add_prefix(gradient, "second_"), [])
    result = lower(both)
    assert [(anchor.status, anchor.code) for anchor in result.report.anchors] == [("lowered", None)]
    assert len(result.model.functions) == len(lowered.functions)


def test_a_model_without_gradient_is_left_alone() -> None:
    model = ir.from_proto(without_gradient())
    model.graph.meta["mine"] = graph = model.graph
    result = PoolGradLoweringPass()(model)
    assert not result.modified
    assert result.model.graph is graph


def test_in_a_sequence() -> None:
    steps = ir.passes.Sequential(
        common.RemoveUnusedNodesPass(),
        PoolGradLoweringPass("Ascend910B3", forward=False),
        common.TopologicalSortPass(),
    )
    result = steps(ir.load(LENET))
    assert result.modified
    lowered = [node.op_type for node in result.model.graph if node.domain == "npu"]
    assert lowered == ["MaxPool3DGradWithArgmax"] * 2
    assert {domain for domain, *_ in result.model.functions} == {"npu"}


def test_external_tensors_stay_where_they_are(tmp_path: Path) -> None:
    source = onnx.load(MAX_POOL_GRAD)
    weights = np.arange(1000, dtype=np.float32)
    source.graph.initializer.append(numpy_helper.from_array(weights, "weights"))
    onnx.save(source, tmp_path / "model.onnx", save_as_external_data=True, location="weights.bin")
    model = ir.load(tmp_path / "model.onnx")
    assert PoolGradLoweringPass()(model).modified
    tensor = model.graph.initializers["weights"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    np.testing.assert_array_equal(tensor.numpy(), weights)


@pytest.mark.parametrize("folders", [1, 2])
def test_external_zeros_are_read_in_one_folder(tmp_path: Path, folders: int) -> None:
    zeros = tmp_path / "zeros"
    saved(zeros, onto_zeros(external("", [6, 16])), bytes(6 * 16 * 4))
    model = ir.load(zeros / "m.onnx")
    if folders == 2:
        (tmp_path / "w.bin").write_bytes(bytes(4))
        elsewhere = ir.ExternalTensor(
            "w.bin", 0, 4, ir.DataType.FLOAT, shape=ir.Shape([1]), name="w", base_dir=tmp_path
        )
        model.graph.initializers["w"] = ir.Value(name="w", const_value=elsewhere)
    lowering = PoolGradLoweringPass()
    assert lowering(model).modified is (folders == 1)
    assert lowering.report is not None
    assert [anchor.code for anchor in lowering.report.anchors] == [None if folders == 1 else "external-data"]


def test_the_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "other-tools.md").read_text(), re.MULTILINE | re.DOTALL
    )
    [example] = [block for block in blocks if "onnx_ir" in block]
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    assert {function.domain for function in onnx.load(tmp_path / "lowered.onnx").functions} == {"npu"}


def test_an_unknown_target() -> None:
    with pytest.raises(UnknownTargetError):
        PoolGradLoweringPass("Ascend1")
