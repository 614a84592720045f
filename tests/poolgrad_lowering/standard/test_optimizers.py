# SPDX-License-Identifier: Apache-2.0

"""Optimizers of artifacts: what is read of their models, the updates by definition; labels with their right sizes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from models.artifact_runs import FOLDERS
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.bodies import BodyNode, Tensor
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.standard.artifact_graphs import Update, correct_targets, read_update
from poolgrad_lowering.standard.inline import Inliner
from poolgrad_lowering.standard.optimizers import SGD, AdamW
from poolgrad_lowering.standard.step import declare_sizes

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lenet", Update(AdamW(0.9, 0.999, 1e-6, 0.0, 1, 1))),
        ("resnet", Update(SGD())),
        ("transformer", Update(AdamW(0.9, 0.999, 1e-6, 0.01, 1, 1), 0.5)),
    ],
)
def test_optimizer_models(name: str, expected: Update) -> None:
    found = read_update(onnx.load(FOLDERS / name / "optimizer_model.onnx"), Path("optimizer_model.onnx"))
    assert type(found.optimizer) is type(expected.optimizer)
    assert found.most == expected.most
    for field, value in vars(expected.optimizer).items():
        assert getattr(found.optimizer, field) == pytest.approx(value), field  # attributes are float32


def test_a_weight_decay_that_is_not_stated(tmp_path: Path) -> None:
    """It is 0.01, as onnxruntime's operator has it."""
    model = onnx.load(FOLDERS / "lenet" / "optimizer_model.onnx")
    for node in model.graph.node:
        kept = [attribute for attribute in node.attribute if attribute.name != "weight_decay"]
        del node.attribute[:]
        node.attribute.extend(kept)
    update = read_update(model, tmp_path)
    assert isinstance(update.optimizer, AdamW)
    assert update.optimizer.weight_decay == 0.01


def adamw(values: Mapping[str, Array], rate: float, step: int, mode: AdamW) -> dict[str, Array]:
    """An update in float64, from the two definitions: torch's AdamW, and that of transformers."""
    weight, gradient, mean, square = (
        values[name].astype(np.float64) for name in ("weight", "gradient", "mean", "square")
    )
    if mode.adam_mode == 0:
        weight = weight - rate * mode.weight_decay * weight
    mean = mode.alpha * mean + (1 - mode.alpha) * gradient
    square = mode.beta * square + (1 - mode.beta) * gradient**2
    corrections = 1 - mode.alpha**step, 1 - mode.beta**step
    if mode.adam_mode == 0:
        weight = weight - rate * (mean / corrections[0]) / (np.sqrt(square / corrections[1]) + mode.epsilon)
    else:
        size = rate * np.sqrt(corrections[1]) / corrections[0] if mode.correct_bias else rate
        weight = weight - size * mean / (np.sqrt(square) + mode.epsilon)
        weight = weight - rate * mode.weight_decay * weight
    return {"new_weight": weight, "new_mean": mean, "new_square": square}


@pytest.mark.parametrize("step", [1, 2, 1000])
@pytest.mark.parametrize(
    "mode",
    [AdamW(0.9, 0.999, 1e-6, 0.1, 0, 1), AdamW(0.8, 0.99, 1e-8, 0.1, 1, 1), AdamW(0.9, 0.999, 1e-6, 0.0, 1, 0)],
)
def test_adamw_is_its_definition(mode: AdamW, step: int) -> None:
    random = np.random.default_rng(step)
    values = {name: random.standard_normal(5).astype(np.float32) for name in ("weight", "gradient", "mean")}
    values["square"] = random.random(5).astype(np.float32)
    values |= {"rate": np.array(0.01, np.float32), "steps": np.array(step, np.float32)}
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 18]>
        g (float[5] weight, float[5] gradient, float[5] mean, float[5] square, float rate, float steps)
            => (float[5] new_weight, float[5] new_mean, float[5] new_square) {}"""
    )
    body: list[BodyNode] = []
    given = {name: Tensor(body, name, onnx.TensorProto.FLOAT) for name in values}
    results = mode.update({**given, **mode.factors(given)})
    model.graph.node.extend(Inliner(model.graph, 18, set(values)).nodes("update", results))
    found = onnxruntime.InferenceSession(model.SerializeToString()).run(None, values)
    for result, (name, expected) in zip(found, adamw(values, 0.01, step, mode).items(), strict=True):
        # 1 − βᵗ of the first steps is a small difference of float32 numbers: 6e-8 of 1e-3, of which the root is taken.
        np.testing.assert_allclose(result, expected, rtol=4e-5, atol=1e-7, err_msg=name)


@pytest.mark.parametrize(
    ("scores", "declared", "expected"),
    [
        ("N,1,8,6", "N,5,8", ["N", 8, 6]),  # as generate_artifacts declares them
        ("N,1,5,6", "N,5,5", ["N", 5, 6]),
        ("2,1,8,8,4", "2,5,8,8", [2, 8, 8, 4]),
        ("N,1,H,W", "N,5,H", ["N", "H", "W"]),
        ("N,1,H,W", "N,a,b", ["N", "H", "W"]),
        ("N,1,8,6", "N,8,6", ["N", 8, 6]),
        ("N,1,8,6", "N", ["N"]),  # of another rank: left to the runtime
    ],
)
def test_labels_of_a_segmentation(scores: str, declared: str, expected: list[int | str]) -> None:
    ones = ",".join("1" * (scores.count(",") - 1))
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> g (float[{scores}] x, int64[{declared}] labels, float[5,1,{ones}] w)
        => (float loss) {{ s = Conv <kernel_shape = [{ones}]> (x, w) loss = SoftmaxCrossEntropyLoss (s, labels) }}"""
    )
    before = model.SerializeToString()
    assert correct_targets(ModelIndex(model)) == (model.SerializeToString() != before)
    sizes = [dim.dim_param or dim.dim_value for dim in model.graph.input[1].type.tensor_type.shape.dim]
    assert sizes == expected
    assert not correct_targets(ModelIndex(model))


@pytest.mark.parametrize(
    ("logarithms", "declared", "expected"),
    [
        ("2,5,8,6", "2,5,8", [2, 8, 6]),
        ("n,5,8,6", "n,5,8", ["n", 8, 6]),
        ("n,5,h,w", "n,5,h", ["n", "h", "w"]),
        ("n,5,h,w", "n,h,w", ["n", "h", "w"]),
        ("n,5,8", "n,5,8", ["n", 5, 8]),  # of another rank than the scores
    ],
)
def test_labels_of_scores_of_computed_sizes(logarithms: str, declared: str, expected: list[int | str]) -> None:
    """As in evaluation models, where only the logarithms of the scores' softmax have sizes."""
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> g (float[n,5,4,3] x, int64[{declared}] labels, float[4] by)
        => (float loss) <float[{logarithms}] logs> {{
        s = Resize (x, , by) loss, logs = SoftmaxCrossEntropyLoss (s, labels) }}"""
    )
    assert correct_targets(ModelIndex(model)) == (declared.split(",") != [str(size) for size in expected])
    sizes = [dim.dim_param or dim.dim_value for dim in model.graph.input[1].type.tensor_type.shape.dim]
    assert sizes == expected


@pytest.mark.parametrize(("rows", "expected"), [("6,4", 12), ("N,4", "2*N")])
def test_labels_of_scores_in_rows(rows: str, expected: int | str) -> None:
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> g (float[{rows}] x, int64[scores_dim_0] labels) => (float loss)
        <int64[2] shape = {{-1,2}}> {{ s = Reshape (x, shape) loss = SoftmaxCrossEntropyLoss (s, labels) }}"""
    )
    assert correct_targets(ModelIndex(model))
    [size] = model.graph.input[1].type.tensor_type.shape.dim
    assert (size.dim_param or size.dim_value) == expected


@pytest.mark.parametrize(
    ("operator", "declared", "expected"),
    [
        ("Neg (x)", "Negscores_dim_0,3", ["n", 3]),
        ("com.microsoft.ConcatTraining <axis = 0> (x, x)", "Concatscores_dim_0,3", ["2*n", 3]),
        ("Transpose (x)", "3,Transposescores_dim_1", [3, "n"]),
        ("Identity (fixed)", "Identityscores_dim_0,3", [4, 3]),
        ("Neg (x)", "Negscores_dim_2,3", ["Negscores_dim_2", 3]),  # of an axis that it does not have
        ("Neg (x)", "Negothers_dim_0,3", ["Negothers_dim_0", 3]),
        ("Resize (x, , by)", "Resizescores_dim_0,3", ["Resizescores_dim_0", 3]),
    ],
)
def test_targets_whose_sizes_are_named_after_outputs(operator: str, declared: str, expected: list[int | str]) -> None:
    """As torch's exporter names the sizes of outputs that its caller does not name."""
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        g (float[n,3] x, float[{declared}] target, float[4,3] fixed, float[2] by) => (float[?,?] loss)
        {{ scores = {operator} loss = Sub (scores, target) }}"""
    )
    assert correct_targets(ModelIndex(model)) == (declared.split(",") != [str(size) for size in expected])
    assert [dim.dim_param or dim.dim_value for dim in model.graph.input[1].type.tensor_type.shape.dim] == expected


def test_values_have_the_sizes_that_are_known() -> None:
    """Inference makes up names, names of outputs are replaced, and what is measured may have no declaration."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[n,h] x, float[Negscores_dim_0,3] target) => (float[?,?] loss, int64[2] s)
        <float[Negscores_dim_0,unk__0] a, float[unk__1,7] other, int64[1] z = {0}, int64[1] o = {1}, float[9,3] table>
        { e = Shape <end = 1> (x) p = Slice (table, z, e, z) c = Slice (x, z, o, o) a = Add (c, p) b = Neg (a)
          s = Shape (b) other = NonZero (x) scores = Neg (a) loss = Sub (scores, target)
          q = Reshape (x, s) }"""
    )
    model.graph.initializer.add(name="table", data_type=1, dims=[9, 3], raw_data=bytes(9 * 3 * 4))
    assert correct_targets(ModelIndex(model))
    index = ModelIndex(model)
    declare_sizes(index, Facts(index))
    declared = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.value_info)
    }
    assert declared["a"] == declared["b"] == declared["q"] == declared["target"] == ["n", 3]
    assert declared["other"] == [2, 7]  # numbers stay
