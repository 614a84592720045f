# SPDX-License-Identifier: Apache-2.0

"""`poolgrad export-torch` with PyTorch: it writes the step of the function that it is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import onnx
import pytest

from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.entry.cli.arguments import Argument
from poolgrad_lowering.entry.cli.export_torch import COMMANDS
from poolgrad_lowering.torch import StepMismatchError, TrainingStep
from poolgrad_lowering.torch.groups import OptimizerName

SOURCE = """
import torch
from torch import nn

def pools():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 2))
    return model, nn.functional.cross_entropy, (torch.randn(2, 1, 8, 8), torch.tensor([0, 1]))

def means():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return model, nn.functional.cross_entropy, (torch.randn(2, 1, 8, 8), torch.tensor([0, 1]))

def evaluated():
    model, loss, batch = pools()
    return model.eval(), loss, batch

def exchanged():
    model, loss, batch = pools()
    return model, batch, loss

def nothing():
    return None

def failing():
    return torch.ones(3) @ torch.ones(4)

number = 3
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SOURCE)
    return tmp_path / "train.py"


def test_a_step(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = source.with_name("out.onnx")
    assert main(["export-torch", f"{source}:pools", "-o", str(out), "--optimizer", "adamw"]) == 0
    assert "16 inputs, 14 outputs" in capsys.readouterr().out
    assert onnx.load(out).graph.output[0].name == "loss"


def test_names_as_json(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = source.with_name("out.onnx")
    assert main(["export-torch", f"{source}:pools", "-o", str(out), "--weights", "initializers", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["inputs"] == ["input", "target"]
    assert found["outputs"][:2] == ["loss", "grad.0.weight"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "is not FILE:CALLABLE"),
        (":missing", "has no function 'missing'"),
        (":number", "has no function 'number'"),
        (":evaluated", "train.py': the model is in eval mode, in which it is not trained: call model.train()"),
        (":exchanged", "loss is a tuple; it takes a function of output and target"),
        (":failing", "failing of '"),
        (":failing", "train.py' raises RuntimeError: inconsistent tensor size"),
        (":nothing", "does not return a model, a loss and example inputs"),
    ],
)
def test_no_step(source: Path, capsys: pytest.CaptureFixture[str], name: str, said: str) -> None:
    out = source.with_name("out.onnx")
    assert main(["export-torch", f"{source}{name}", "-o", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_a_file_that_fails(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source.write_text("import missing_package")
    assert main(["export-torch", f"{source}:pools", "-o", str(source.with_name("out.onnx"))]) == 2
    assert f"'{source}' raises ModuleNotFoundError: No module named 'missing_package'" in capsys.readouterr().err


def test_a_step_is_compared_unless_it_is_left_out(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def differs(*_: object, **__: object) -> None:
        raise StepMismatchError("loss differs")

    monkeypatch.setattr(TrainingStep, "check", differs)
    command = ["export-torch", f"{source}:pools", "-o", str(source.with_name("out.onnx"))]
    assert main(command) == 1
    assert capsys.readouterr().err == (
        "poolgrad: check: loss differs; no model written. --no-check leaves the comparison out\n"
    )
    assert not source.with_name("out.onnx").exists()
    assert main([*command, "--no-check"]) == 0
    assert source.with_name("out.onnx").exists()


def test_symbolic_sizes(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = source.with_name("out.onnx")
    command = ["export-torch", f"{source}:means", "-o", str(out), "--dynamic-batch", "--dynamic-shapes"]
    for wrong in ("{", "[2]", '{"input": {"height": "h"}}', '{"input": 2}'):
        assert main([*command, wrong]) == 2
        assert 'is no JSON of the form {"x": {"2": "height", "3": "16*width"}}' in capsys.readouterr().err
    assert main([*command, '{"input": {"2": "h"}}']) == 0
    [given] = [value for value in onnx.load(out).graph.input if value.name == "input"]
    assert [dim.dim_param or dim.dim_value for dim in given.type.tensor_type.shape.dim] == ["batch", 1, "h", 8]


def test_the_optimizers_of_the_command_are_those_of_torch() -> None:
    arguments = [each for each in COMMANDS["export-torch"].arguments if isinstance(each, Argument)]
    [optimizer] = [each for each in arguments if "--optimizer" in each.names]
    assert set(optimizer.options["choices"]) == set(get_args(OptimizerName))
