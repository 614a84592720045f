# SPDX-License-Identifier: Apache-2.0

"""Example inputs in tuples, lists and dictionaries; targets, and losses that a model computes itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from poolgrad_lowering import lower
from poolgrad_lowering.runtime import TrainingLoop, create_session
from poolgrad_lowering.torch import TorchExportError, export_training_step

X, LABELS = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(4) % 2


class Pair(NamedTuple):
    first: Any
    second: Any


class Net(nn.Module):
    """Takes a tensor, and a tree with tensors, numbers and None; returns a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.head = nn.MaxPool2d(2), nn.Linear(48, 2)

    def forward(self, x: Any, more: Any = None, *rest: Any, scale: Any = 1.0) -> Any:
        parts = [x] if more is None else [x, *more["parts"]]
        outputs = [self.head(self.pool(part).flatten(1)) * scale for part in (*parts, *rest) if part is not None]
        return {"outputs": outputs}


def loss(output: Any, target: Any) -> Tensor:
    labels, weight = target if isinstance(target, tuple) else (target, 1.0)
    return sum(nn.functional.cross_entropy(part, labels) for part in output["outputs"]) * weight


EXAMPLES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "a tuple": ((X, LABELS), ("x", "target")),
    "a list": ([X, LABELS], ("x", "target")),
    "a dictionary in it": ((X, {"parts": [X + 1, None, X * 2]}, LABELS),
                           ("x", "more.parts.0", "more.parts.2", "target")),
    "two targets": ((X, (LABELS, torch.tensor(0.5))), ("x", "target.0", "target.1")),
    "a named tuple": ((Pair(X, X - 1)[0], {"parts": Pair(X, X - 1)}, LABELS),
                      ("x", "more.parts.first", "more.parts.second", "target")),
    "any number of arguments": ((X, {"parts": []}, X - 1, LABELS), ("x", "input_2", "target")),
    "by name": ({"x": X, "target": LABELS, "scale": torch.tensor(2.0)}, ("scale", "x", "target")),
    "a constant by name": ({"x": X, "target": (LABELS, 0.5), "scale": 2.0}, ("x", "target.0")),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_names(name: str) -> None:
    torch.manual_seed(0)
    examples, names = EXAMPLES[name]
    step = export_training_step(Net(), loss, examples, optimizer="sgd")
    assert sorted(step.examples) == sorted(names)
    step.check(steps=2)


def test_a_loop_takes_trees() -> None:
    step = export_training_step(Net(), loss, EXAMPLES["a dictionary in it"][0], optimizer="sgd")
    session = create_session(lower(step.model).model, backend="host")
    trees, names = TrainingLoop(session, step), TrainingLoop(session, step)
    given: Any = {"x": X, "target": LABELS, "learning_rate": 0.1}
    for _ in range(2):
        found = trees.step(**given, more={"parts": {0: X + 1, 2: X * 2}})
        assert found == names.step(**given, **{"more.parts.0": X + 1, "more.parts.2": X * 2})
    with pytest.raises(ValueError, match=r"no input more\.parts\.1"):
        trees.step(**given, more={"parts": [X + 1, X, X * 2]})


class WithOwnLoss(nn.Module):
    """Computes its loss, and returns it in one of several ways."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.net = Net()
        self.kind = kind

    def forward(self, pixels: Any, labels: Any) -> Any:
        found = loss(self.net(pixels), labels)
        return {
            "result": found,
            "dictionary": {"logits": pixels, "loss": found},
            "attribute": SimpleNamespace(loss=found),
            "none": {"logits": found},
        }[self.kind]


@pytest.mark.parametrize("kind", ["result", "dictionary", "attribute"])
def test_a_loss_of_the_model(kind: str) -> None:
    step = export_training_step(WithOwnLoss(kind), None, {"pixels": X, "labels": LABELS}, optimizer="adam")
    assert step.inputs[-2:] == ("pixels", "labels")
    step.check(steps=2)


def test_a_model_without_a_loss() -> None:
    with pytest.raises(TorchExportError, match="the loss is a dict"):
        export_training_step(WithOwnLoss("none"), None, (X, LABELS))


class Two(nn.Module):
    """Has names of its own that a step has as well."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.loss = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, target: Any, weight: Any = None, learning_rate: Any = 0) -> Any:
        return self.loss(self.a(target)) + (learning_rate if weight is None else weight["a.bias"])


@pytest.mark.parametrize(
    ("examples", "name"),
    [
        ((torch.ones(2, 2), torch.ones(2, 2)), "target"),
        (({"x": torch.ones(2, 2)}, {"a.bias": torch.ones(2)}, torch.ones(2, 2)), "weight.a.bias"),
        ((3, None, torch.ones(()), torch.ones(2, 2)), "learning_rate"),
    ],
)
def test_names_that_are_taken(examples: Any, name: str) -> None:
    with pytest.raises(ValueError, match=f"two inputs of the step would be '{name}'"):
        export_training_step(Two(), nn.functional.mse_loss, examples)


def test_a_module_that_is_named_loss() -> None:
    net = Net()
    net.loss = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="the model has a module 'loss'"):
        export_training_step(net, nn.CrossEntropyLoss(), (X, LABELS))


@pytest.mark.parametrize(
    ("examples", "error", "said"),
    [
        (X, TypeError, "example_inputs is a Tensor; it takes a tuple"),
        ({"x": X}, ValueError, "lack 'target'"),
        ((X,), ValueError, "example_inputs lack the target"),
        ((3, 4), ValueError, "hold no tensor"),
    ],
)
def test_other_examples(examples: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        export_training_step(Net(), loss, examples)


def test_a_batch_beside_a_scalar() -> None:
    step = export_training_step(Net(), loss, (X, (LABELS, torch.tensor(0.5))), optimizer="sgd", dynamic_batch=True)
    loop = TrainingLoop(create_session(lower(step.model).model, backend="host"), step)
    for count in (2, 4):
        assert np.isfinite(loop.step(x=X[:count], target=(LABELS[:count], 0.5), learning_rate=0.1)["loss"])
    with pytest.raises(ValueError, match="the same first size"):
        export_training_step(Net(), loss, (X, LABELS[:3]), dynamic_batch=True)
