# SPDX-License-Identifier: Apache-2.0

"""Steps in standard ONNX beside onnxruntime-training: whole trainings, proofs by its kernels, and checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from models.artifact_curves import train
from models.artifact_runs import FOLDERS, RUNS, STEPS, batches
from poolgrad_lowering import VerificationError, lower, lower_artifacts, verify, write_checkpoint
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.verification.result import Verification

pytestmark = pytest.mark.training

DIFFERENCE = 1e-5
"""Of losses of 200 steps: sums in another order, which the training amplifies; 2e-6 is measured."""


@pytest.mark.parametrize("name", RUNS)
def test_two_hundred_steps(name: str, tmp_path: Path) -> None:
    losses, loop = train(name, tmp_path / "step")
    state, expected = trained(name, FOLDERS / name / "checkpoint", 0, STEPS)
    assert np.abs(np.array(losses) - expected).max() < DIFFERENCE
    stored = np.load(FOLDERS / name / "run.npz")["losses"]
    assert np.abs(stored - expected).max() < DIFFERENCE, "what is stored is what onnxruntime-training computes"
    moved = loop.values()
    for parameter, value in state.parameters:
        # Adam moves a bias whose gradient cancels (that of attention's keys) by the rounding of it.
        close = 2e-2 if parameter == "key.bias" else 1e-4
        np.testing.assert_allclose(moved[f"weight.{parameter}"], value.data, rtol=close, atol=close)


def trained(name: str, checkpoint: Path, first: int, last: int) -> tuple[Any, np.ndarray]:
    """Train the artifacts from a checkpoint on these steps; return the checkpoint state and the losses."""
    from onnxruntime.training.api import CheckpointState, Module, Optimizer

    folder = FOLDERS / name
    state = CheckpointState.load_checkpoint(checkpoint)
    module = Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
    optimizer = Optimizer(folder / "optimizer_model.onnx", module)
    optimizer.set_learning_rate(RUNS[name].rate)
    losses = []
    for images, labels in list(batches(name, last))[first:]:
        module.train()
        losses.append(float(module(images, labels)))
        optimizer.step()
        module.lazy_reset_grad()
    return state, np.array(losses)


@pytest.mark.parametrize("name", ["lenet", "transformer"])
def test_onnxruntime_training_goes_on_from_a_checkpoint(name: str, tmp_path: Path) -> None:
    _, loop = train(name, tmp_path / "step", 20)
    write_checkpoint(tmp_path / "twenty", loop.values(), like=FOLDERS / name / "checkpoint")
    _, losses = trained(name, tmp_path / "twenty", 20, 40)
    expected = np.load(FOLDERS / name / "run.npz")["losses"][20:40]
    assert np.abs(losses - expected).max() < DIFFERENCE


@pytest.mark.parametrize("name", RUNS)
def test_every_operator_is_proven(name: str, tmp_path: Path) -> None:
    proofs: list[Verification] = []
    lower_artifacts(FOLDERS / name, tmp_path / "step", standard=True, verify=True, on_proven=proofs.append)
    [proof] = proofs
    assert proof.proven
    assert {found.status for found in proof.operators} == {"proven"}
    original = onnx.load(FOLDERS / name / "training_model.onnx")
    operators = [node.op_type for node in original.graph.node if node.domain == "com.microsoft"]
    of_onnx = ("LayerNormalization", "AveragePoolGrad", "SoftmaxCrossEntropyLoss")
    operators += [node.op_type for node in original.graph.node if node.op_type in of_onnx]
    assert sum(found.nodes for found in proof.operators) == len(operators)
    assert len(proof.sites) == sum(node.op_type == "MaxPoolGrad" for node in original.graph.node)
    assert proof.whole_model.status == "same"


def test_the_command_proves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original = FOLDERS / "lenet" / "training_model.onnx"
    lowered = tmp_path / "lowered.onnx"
    assert main(["lower", str(original), "-o", str(lowered), "--standard", "--verify"]) == 0
    assert main(["verify", str(original), str(lowered)]) == 0
    assert "com.microsoft.ConvGrad" in capsys.readouterr().out


def wrong(model: onnx.ModelProto, op_type: str, number: int, change: str) -> onnx.ModelProto:
    """The model with one node of the definitions changed."""
    damaged = onnx.ModelProto.FromString(model.SerializeToString())
    nodes = [node for node in damaged.graph.node if node.op_type == op_type and "/" in node.name]
    node = nodes[number]
    if change == "swap":
        node.input[:] = [node.input[1], node.input[0], *node.input[2:]]
    else:
        node.op_type = change
    return damaged


@pytest.mark.parametrize(
    ("op_type", "number", "change"),
    [("Sub", 0, "swap"), ("Mul", -1, "Add"), ("Add", -1, "Sub"), ("Where", 0, "swap"), ("Greater", 0, "Less")],
)
def test_a_wrong_definition_is_found(op_type: str, number: int, change: str) -> None:
    original = onnx.load(FOLDERS / "resnet" / "training_model.onnx")
    lowered = lower(original, standard=True).model
    assert verify(original, lowered, whole_model=False).proven
    found = verify(original, wrong(lowered, op_type, number, change), whole_model=False)
    assert not found.proven


def subtracts(model: onnx.ModelProto) -> None:
    """Accumulators subtract gradients from their buffers, which they read only where they are not reset."""
    for node in model.graph.node:
        if node.op_type == "Add" and ".accumulation.out/Add" in node.name:
            node.op_type = "Sub"


def constants(model: onnx.ModelProto, values: np.ndarray[Any, Any]) -> list[onnx.TensorProto]:
    """The initializers with these values."""
    return [
        tensor
        for tensor in model.graph.initializer
        if tensor.data_type == onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
        and np.array_equal(onnx.numpy_helper.to_array(tensor), values)
    ]


def other_epsilon(model: onnx.ModelProto) -> None:
    """One per cent more, which counts where variances are small."""
    [epsilon] = constants(model, np.array(1e-5, np.float32))
    epsilon.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(epsilon) * np.float32(1.01), epsilon.name))


def last_class_is_none(model: onnx.ModelProto) -> None:
    """No label is the last class."""
    [classes] = constants(model, np.arange(5)[None])
    numbers = onnx.numpy_helper.to_array(classes).copy()
    numbers.flat[-1] = -1
    classes.CopyFrom(onnx.numpy_helper.from_array(numbers, classes.name))


@pytest.mark.parametrize("change", [subtracts, other_epsilon, last_class_is_none])
def test_what_only_other_operands_show_is_found(change: Callable[[onnx.ModelProto], None]) -> None:
    original = onnx.load(FOLDERS / "resnet" / "training_model.onnx")
    lowered = lower(original, standard=True).model
    before = lowered.SerializeToString()
    change(lowered)
    assert lowered.SerializeToString() != before
    assert "differs" in {found.status for found in verify(original, lowered, whole_model=False).operators}


TRAINING = '<ir_version: 9, opset_import: ["": 18, "com.microsoft": 1]>'
QUIET = {
    "a gate of a state of zeros": "g (float[2,3] x, float[2,3] dY) => (float[2,3] dX)"
    " <float[2,3] state = {0,0,0,0,0,0}> { s = Sigmoid(x) d = Mul(dY, state) dX = com.microsoft.SigmoidGrad(d, s) }",
    "a sigmoid of squares of an embedding": "g (float[9,64] w, int64[2,3] i, float[2,3,1] dY) => (float[2,3,1] dX)"
    " <int64[1] last = {-1}> { e = Gather(w, i) q = ReduceSumSquare(e, last) s = Sigmoid(q)"
    " dX = com.microsoft.SigmoidGrad(dY, s) }",
}


@pytest.mark.parametrize("name", QUIET)
def test_an_operator_whose_results_are_zeros_is_proven(name: str) -> None:
    original = onnx.parser.parse_model(f"{TRAINING} {QUIET[name]}")
    lowered = lower(original, standard=True).model
    assert [found.status for found in verify(original, lowered).operators] == ["proven"]
    [node] = [node for node in lowered.graph.node if node.op_type == "Sub"]
    node.op_type = "Add"
    assert [found.status for found in verify(original, lowered).operators] == ["differs"]


def test_zeros_that_are_exchanged_or_not_read_are_found() -> None:
    """Both operands of the gradient are 0 in the model. Neither is the other, and both are read."""
    original = onnx.parser.parse_model(
        f"{TRAINING} g (float[2,3] x, float[2,3] y) => (float[2,3] dX) <float[2,3] none = {{0,0,0,0,0,0}}>"
        " { d = Mul(x, none) s = Mul(y, none) dX = com.microsoft.SigmoidGrad(d, s) }"
    )
    lowered = lower(original, standard=True).model
    assert [found.status for found in verify(original, lowered).operators] == ["proven"]
    for before, behind in ((("d", "s"), ("s", "d")), (("s",), ("d",))):
        damaged = onnx.ModelProto.FromString(lowered.SerializeToString())
        names = dict(zip(before, behind, strict=True))
        for node in damaged.graph.node[2:]:
            node.input[:] = [names.get(name, name) for name in node.input]
        assert [found.status for found in verify(original, damaged).operators] == ["differs"]


def test_parts_of_which_one_is_zeros_are_proven() -> None:
    """As the gradients of the outputs of experts, of which no row takes one."""
    original = onnx.parser.parse_model(
        f"{TRAINING} g (float[2,2] x) => (float[2,1] a, float[2,1] b)"
        " <float[1,2] taken = {0,1}, int64[2] one = {1,1}>"
        " { d = Mul(x, taken) a, b = com.microsoft.SplitTraining <axis = 1> (d, one) }"
    )
    lowered = lower(original, standard=True).model
    assert [found.status for found in verify(original, lowered).operators] == ["proven"]
    [node] = [node for node in lowered.graph.node if node.op_type == "Split"]
    node.output[:] = node.output[::-1]
    assert [found.status for found in verify(original, lowered).operators] == ["differs"]


OTHER_KERNELS = {
    "ConvGrad": "g (float[2,2,5,6] x, float[2,3,5,6] dY, float[3,2,3,2] w) => (float[2,2,5,6] dX, float[3,2,3,2] dW)"
    ' { y = Conv <auto_pad = "SAME_UPPER"> (x, w) d = Add(y, dY)'
    ' dX, dW = com.microsoft.ConvGrad <auto_pad = "SAME_UPPER", strides = [1,1], kernel_shape = [3,2]> (d, x, w) }',
    "BroadcastGradientArgs": "g (float[N,3,4] x, float[1,4] y) => (int64[p] a, int64[q] b)"
    " { s = Shape(y) t = Shape(x) a, b = com.microsoft.BroadcastGradientArgs(s, t) }",
}
"""The kernel of the first ignores `auto_pad`, that of the second returns the last axis first."""


@pytest.mark.parametrize("operator", OTHER_KERNELS)
def test_a_right_definition_is_proven_where_the_kernel_computes_otherwise(operator: str) -> None:
    original = onnx.parser.parse_model(f"{TRAINING} {OTHER_KERNELS[operator]}")
    lowered = lower(original, standard=True).model
    [found] = verify(original, lowered, whole_model=False).operators
    assert (found.operator, found.status) == (f"com.microsoft.{operator}", "proven")
    for node in lowered.graph.node:
        if node.op_type == "ConvTranspose":
            [pads] = [attribute for attribute in node.attribute if attribute.name == "pads"]
            pads.ints[:] = [1, 1, 1, 0]
        elif node.op_type == "Constant":
            node.attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(np.array([2])))
    assert [each.status for each in verify(original, lowered, whole_model=False).operators] == ["differs"]


def test_nothing_is_written_that_is_not_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from poolgrad_lowering.standard import table

    relu = table.DEFINITIONS["com.microsoft", "ReluGrad"]
    broken = dict(table.DEFINITIONS)
    broken[relu.op] = type(relu)(relu.operator, lambda call: -call.tensor("dY"), relu.formula)
    monkeypatch.setattr("poolgrad_lowering.standard.rewrite.DEFINITIONS", broken)
    shutil.copytree(FOLDERS / "lenet", tmp_path / "in")
    with pytest.raises(VerificationError, match=r"operator com\.microsoft\.ReluGrad differs"):
        lower_artifacts(tmp_path / "in", tmp_path / "out", standard=True, verify=True)
    assert not (tmp_path / "out").exists()


AVERAGE = (
    '<ir_version: 9, opset_import: ["": 18]> g (float[N,2,4,4] x, float[N,2,2,2] dY)'
    " => (float[N,2,4,4] dX, float[N,2,2,2] y) {"
    " y = AveragePool <kernel_shape = [2,2], strides = [2,2]> (x)"
    " dX = AveragePoolGrad <kernel_shape = [2,2], strides = [2,2]> (dY) }"
)


def without_its_site(original: onnx.ModelProto) -> onnx.ModelProto:
    """The model in standard ONNX, with a plan that lowers no gradient."""
    plan = lower(original).report.plan("")
    left = tuple(replace(choice, operator=None, forward=None) for choice in plan.sites)
    return lower(original, plan=replace(plan, sites=left), standard=True).model


def test_an_average_pool_of_a_symbolic_batch() -> None:
    """onnxruntime-training's kernel reads the declared sizes of its result, and ends the process if one is a symbol."""
    original = onnx.parser.parse_model(AVERAGE)
    found = verify(original, lower(original, standard=True).model)
    assert found.proven
    assert (len(found.sites), found.operators) == (1, ())
    assert found.whole_model.status == "same"


def test_the_definition_of_an_average_pool_of_a_symbolic_batch() -> None:
    original = onnx.parser.parse_model(AVERAGE)
    found = verify(original, without_its_site(original))
    assert found.proven
    assert [each.operator for each in found.operators] == ["AveragePoolGrad"]
    assert found.whole_model.status == "same"


def test_an_average_pool_of_another_symbol() -> None:
    """One that no input has: the model is not run."""
    original = onnx.parser.parse_model(AVERAGE)
    original.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "M"
    found = verify(original, lower(original, standard=True).model)
    assert found.whole_model.status == "skipped"
    assert "the sizes of 'dX', the result of AveragePoolGrad, are not declared" in str(found.whole_model.reason)


@pytest.mark.parametrize(("declared", "status"), [("N,C,H,W", "same"), ("M,2,2,2", "same"), ("M,2,X,5", "skipped")])
def test_a_max_pool_of_symbolic_sizes(declared: str, status: str) -> None:
    """That kernel reads all declared sizes but the batch."""
    original = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float[N,C,H,W] x) => (float[{declared}] dX) {{'
        " y, i = MaxPool <kernel_shape = [1,1]> (x) dX = MaxPoolGrad <kernel_shape = [1,1]> (y, i) }"
    )
    assert verify(original, lower(original).model).whole_model.status == status
