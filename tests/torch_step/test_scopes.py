# SPDX-License-Identifier: Apache-2.0

"""The nodes of a step name the modules of the model, in the spelling of torch.onnx.export."""

from __future__ import annotations

import ast
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from poolgrad_lowering.model.ir.metadata import NAME_SCOPES
from poolgrad_lowering.torch import export_training_step
from poolgrad_lowering.torch.scopes import CLASSES

X, LABELS = torch.randn(2, 3, 8, 8), torch.tensor([0, 1])


class Net(nn.Module):
    """Modules in modules, one that is called twice, and one that is computed again in the backward pass."""

    def __init__(self, *, again: bool = False) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.shrink = nn.AdaptiveMaxPool2d(2)
        self.head = nn.Linear(16, 2)
        self.again = again

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.features, x, use_reentrant=False) if self.again else self.features(x)
        return self.head(nn.functional.max_pool2d(self.shrink(x), 1).flatten(1))


def of_nodes(model: onnx.ModelProto, key: str) -> dict[str, list[str]]:
    return {
        node.name: ast.literal_eval(entry.value)
        for node in model.graph.node
        for entry in node.metadata_props
        if entry.key == key
    }


def innermost(model: onnx.ModelProto, op_type: str) -> list[str]:
    found = of_nodes(model, NAME_SCOPES)
    return [found[node.name][-2] for node in model.graph.node if node.op_type == op_type and node.name in found]


@pytest.mark.parametrize("optimizer", [None, "sgd"])
@pytest.mark.parametrize("again", [False, True])
def test_pools_and_their_gradients(optimizer: Any, again: bool) -> None:
    step = export_training_step(Net(again=again), nn.functional.cross_entropy, (X, LABELS), optimizer=optimizer)
    for op_type in ("MaxPool", "ScatterElements"):
        assert {"features.2", "shrink", ""} == set(innermost(step.model, op_type)), op_type


def test_the_spelling_is_that_of_torch() -> None:
    """A forward pass by torch.onnx.export: node for node the same modules, but for its names of operators."""
    model = Net()
    theirs = torch.onnx.export(model.eval(), (X,), dynamo=True, opset_version=18, verbose=False).model_proto
    ours = export_training_step(model.train(), nn.functional.cross_entropy, (X, LABELS)).model
    for key in (NAME_SCOPES, CLASSES):
        [wanted] = [entries for name, entries in of_nodes(theirs, key).items() if "conv" in name]
        assert wanted[:-1] in [entries[:-1] for name, entries in of_nodes(ours, key).items() if "conv" in name]
        assert "features.2" in str(of_nodes(ours, NAME_SCOPES)), key


def test_no_other_metadata() -> None:
    model = export_training_step(Net(), nn.functional.cross_entropy, (X, LABELS)).model
    assert {entry.key for node in model.graph.node for entry in node.metadata_props} == {NAME_SCOPES, CLASSES}
    assert not any(value.metadata_props for value in (*model.graph.value_info, *model.graph.input, *model.graph.output))


def test_hooks_are_removed() -> None:
    model = Net()
    with pytest.raises(RuntimeError):
        export_training_step(model, lambda *_: 1 / 0, (X, LABELS))
    assert not nn.modules.module._global_forward_hooks


def test_no_addresses_of_functions() -> None:
    """The exporter writes a function that computes with symbolic sizes as Python shows it."""
    model = nn.Sequential(nn.Conv2d(2, 2, 1), nn.Upsample(scale_factor=1.5))
    examples = (torch.randn(2, 2, 6, 4), torch.zeros(()))
    sizes = {"input": {2: "height", 3: "width"}}
    step = export_training_step(model, lambda y, t: (y * y).mean() + t, examples, dynamic_shapes=sizes)
    written = [entry.value for node in step.model.graph.node for entry in node.metadata_props]
    assert any("'sym_float']" in value for value in written)
    assert not any(" at 0x" in value for value in written)
