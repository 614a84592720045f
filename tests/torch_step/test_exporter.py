# SPDX-License-Identifier: Apache-2.0

"""The models that are written of one trace and one translation, beside those of `torch.onnx.export`."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import nn

from poolgrad_lowering.torch import export_training_step, exporter
from poolgrad_lowering.torch.internals.exporter import TRANSLATIONS, onnx_program
from tests.torch_step.networks import NETWORKS


class InPlace(nn.Module):
    """A model that writes to tensors and to views of them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 5)

    def forward(self, x: Any) -> Any:
        found = nn.functional.relu_(self.norm(self.conv(x)))
        means = found.mean((2, 3)).clone()
        means[:, 1:3].mul_(2).add_(means[:, :1])
        return self.head(means)


def numbered(model: onnx.ModelProto) -> list[Any]:
    """The nodes of a model without names: values are numbers, which the two ways give in another order."""
    graph = model.graph
    found = {value.name: value.name for value in (*graph.input, *graph.output)}
    found |= {constant.name: str(onnx.numpy_helper.to_array(constant)) for constant in graph.initializer}
    nodes = []
    for node in graph.node:
        for name in node.output:
            found.setdefault(name, str(len(found)))
        attributes = sorted(attribute.SerializeToString() for attribute in node.attribute)
        nodes.append((node.op_type, attributes, [found.get(name, name) for name in (*node.input, *node.output)]))
    return nodes


MODELS: dict[str, tuple[Any, Any]] = {
    "lenet": (NETWORKS["lenet"].make, nullcontext),
    "dropout": (NETWORKS["dropped"].make, nullcontext),
    "attention": (NETWORKS["attention"].make, nullcontext),
    "float16": (NETWORKS["lenet"].make, lambda: torch.autocast("cpu", torch.float16)),
    "bfloat16": (NETWORKS["attention"].make, lambda: torch.autocast("cpu", torch.bfloat16)),
    "embedding": (NETWORKS["text_cnn"].make, nullcontext),
    "in place": (
        lambda: (InPlace(), nn.CrossEntropyLoss(), (torch.randn(2, 3, 6, 6), torch.randint(5, (2,)))),
        nullcontext,
    ),
    "constants": (
        lambda: (
            nn.Sequential(
                nn.Conv2d(3, 4, 1),
                nn.Upsample(scale_factor=1.5, mode="bilinear"),
                nn.ReflectionPad2d(1),
                nn.AdaptiveAvgPool2d(4),
                nn.Flatten(),
                nn.Linear(64, 5),
            ),
            nn.CrossEntropyLoss(),
            (torch.randn(2, 3, 6, 6), torch.randint(5, (2,))),
        ),
        nullcontext,
    ),
}


def by_torch(function: Any, inputs: Any, outputs: Any, opset: int, *_: Any) -> Any:
    """What torch's own exporter writes of a function of tensors."""

    class Module(nn.Module):
        def forward(self, *given: Any) -> Any:
            return function(*given)

    return torch.onnx.export(
        Module().eval(),
        tuple(inputs.values()),
        dynamo=True,
        opset_version=opset,
        input_names=list(inputs),
        output_names=list(outputs),
        custom_translation_table=TRANSLATIONS,
        optimize=False,
        verbose=False,
    )


@pytest.mark.parametrize("name", MODELS)
def test_the_nodes_are_those_of_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, precision = MODELS[name]
    torch.manual_seed(0)
    arguments = make()
    models = []
    for way in (onnx_program, by_torch):
        monkeypatch.setattr(exporter, "onnx_program", way)
        with precision():
            models.append(export_training_step(*arguments, optimizer="adam").model)
    assert numbered(models[0]) == numbered(models[1])


def test_scalars_have_the_axes_of_pointwise_weights() -> None:
    arguments = nn.Conv2d(8, 16, 1), nn.functional.mse_loss, (torch.ones(2, 8, 3, 3), torch.ones(2, 16, 3, 3))
    graph = export_training_step(*arguments, optimizer="adamw").model.graph
    shapes = {value.name: len(value.type.tensor_type.shape.dim) for value in (*graph.input, *graph.value_info)}
    shapes |= {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    read = [node for node in graph.node if {"weight.weight", "grad.weight", "new_state.mean.weight"} & {*node.input}]
    assert {node.op_type for node in read} == {"Conv", "Mul"}
    assert {shapes.get(name, 4) for node in read if node.op_type != "Conv" for name in node.input} == {4}


def test_what_no_output_reads_is_left_out() -> None:
    """Such as asserts of tensors, and what the function writes to its inputs."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor]:
        torch._assert_async((x > 0).all(), "positive")
        return (x.add_(1) * 2,)

    model = exporter.translated(function, {"x": torch.ones(2)}, ["y"], opset=18)
    assert [node.op_type for node in model.graph.node] == ["Add", "Mul"]


@pytest.mark.parametrize("opset", [18, 21])
def test_unusual_results(opset: int) -> None:
    """An input, a constant, and one result twice."""
    held = torch.arange(3.0)
    program = onnx_program(lambda x: (x, held, y := x * 2, y), {"x": torch.ones(2)}, list("abcd"), opset, {}, {})
    session = ort.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found = [array.tolist() for array in session.run(None, {"x": np.ones(2, np.float32)})]
    assert found == [[1, 1], [0, 1, 2], [2, 2], [2, 2]]
    assert program.model.opset_imports[""] == opset


@pytest.mark.parametrize(
    "loss",
    [
        nn.functional.mse_loss,
        lambda output, target: (output.clamp(-0.1, 0.3) * target).sum() * 0.1,
        lambda output, target: (output.abs() ** 1.3).mean() + target.mean(),
        lambda output, target: (output * torch.full((2,), 0.1)).mean() + target.float().mean() * 0.1,
    ],
)
def test_numbers_in_float64(loss: Any) -> None:
    """They are not rounded to float32, as torch's exporter does, and those of float32 stay so."""
    inputs = torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64)
    export_training_step(nn.Linear(4, 2).double(), loss, inputs).check()


def test_nothing_is_logged_of_the_exporters_own_code(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor]:
        places = torch.arange(3)
        return (x.index_put((places, places), torch.sort(torch.tensor([3.0, 1, 2]))[0]),)

    exporter.translated(function, {"x": torch.zeros(3, 3)}, ["y"], opset=18)
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
