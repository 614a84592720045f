# SPDX-License-Identifier: Apache-2.0

"""Training steps out of PyTorch: they compute what eager PyTorch computes, and every pool gradient of them lowers."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from poolgrad_lowering import lower
from poolgrad_lowering.runtime import TrainingLoop, create_session
from poolgrad_lowering.torch import (
    SGD,
    AdamW,
    export_training_step,
    export_update,
)
from poolgrad_lowering.torch.arrays import to_array
from tests.torch_step.small_steps import LABELS, LOSS, X, export, initialised, small


def test_names() -> None:
    step = export(small(nn.BatchNorm2d(4)))
    assert step.inputs == (
        "weight.0.weight", "weight.0.bias", "weight.1.weight", "weight.1.bias", "weight.4.weight", "weight.4.bias",
        "buffer.1.running_mean", "buffer.1.running_var", "buffer.1.num_batches_tracked", "input", "target",
    )  # fmt: skip
    assert step.outputs == (
        "loss", "grad.0.weight", "grad.0.bias", "grad.1.weight", "grad.1.bias", "grad.4.weight", "grad.4.bias",
        "new_buffer.1.running_mean", "new_buffer.1.running_var", "new_buffer.1.num_batches_tracked",
    )  # fmt: skip
    assert step.values.keys() == set(step.inputs) - {"input", "target"}
    assert step.carried["new_buffer.1.running_mean"] == "buffer.1.running_mean"


def test_names_with_an_optimizer() -> None:
    step = export(small(), optimizer="adamw")
    assert step.inputs[4:9] == (
        "state.steps", "state.mean.0.weight", "state.square.0.weight", "state.mean.0.bias", "state.square.0.bias",
    )  # fmt: skip
    assert step.inputs[-3:] == ("learning_rate", "input", "target")
    assert set(step.carried) == {f"new_{name}" for name in step.inputs if name.startswith(("weight", "state"))}
    assert set(step.outputs) == {"loss", *step.carried}


@pytest.mark.parametrize(
    "optimizer",
    [
        "sgd",
        "adamw",
        SGD(momentum=0),
        SGD(momentum=0.5, weight_decay=0.1, nesterov=True),
        AdamW(0.8, 0.99, 1e-6, 0.3),
    ],
    ids=repr,
)
def test_optimizers(optimizer: Any) -> None:
    """Three steps, whose later ones depend on the state of the earlier."""
    export(small(nn.ReLU()), optimizer=optimizer).check(steps=3, tolerance=1e-4)


class Tied(nn.Module):
    """Two layers with one weight, a buffer that is assigned to, one that stays, and a weight that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.frozen = nn.Parameter(torch.full((8,), 0.5), requires_grad=False)
        self.unused = nn.Parameter(torch.zeros(3))
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("table", torch.arange(8.0))

    def forward(self, x: Tensor) -> Tensor:
        self.calls: Tensor = self.calls + 1
        x = nn.functional.max_pool2d(x.mean(1), 1)
        return (self.second(torch.tanh(self.first(x))) * self.frozen + self.table).sum(1)


def test_tied_frozen_and_unused_weights_and_buffers() -> None:
    torch.manual_seed(2)
    step = export_training_step(Tied(), LOSS, (X, LABELS))
    assert {"weight.first.weight", "weight.frozen", "weight.unused"} <= set(step.inputs)
    assert "weight.second.weight" not in step.inputs
    assert not {"grad.frozen", "grad.unused", "new_buffer.table"} & set(step.outputs)
    found = step.check(steps=2)
    assert {"grad.first.weight", "new_buffer.calls"} <= found.errors.keys()


def test_a_dynamic_batch() -> None:
    step = export(small(nn.BatchNorm2d(4)), dynamic_batch=True)
    other = torch.randn(7, 3, 8, 8), torch.arange(7) % 2
    examples = {name: to_array(value) for name, value in zip(step.examples, other, strict=True)}
    replace(step, examples=examples).check()
    lowered = lower(step.model)
    assert len(lowered.report.lowered) == 1
    loop = TrainingLoop(create_session(lowered.model, backend="host"), step)
    with pytest.raises(ValueError, match=r"takes \w+ and target of one size 'batch'; 3 and 1 are given"):
        loop.step(**dict(zip(step.examples, (X[:3], LABELS[:1]), strict=True)))
    with pytest.raises(ValueError, match="2 or more"):
        export_training_step(initialised(small()), LOSS, (X[:1], LABELS[:1]), dynamic_batch=True)


POOLS: dict[str, Callable[[], nn.Module]] = {
    "adaptive": lambda: nn.AdaptiveMaxPool2d(4),
    "overlapping": lambda: nn.MaxPool2d(3, 2, 1),
    "dilated": lambda: nn.MaxPool2d(2, dilation=2),
    "ceil": lambda: nn.MaxPool2d(3, 2, ceil_mode=True),
}


@pytest.mark.parametrize("pool", POOLS)
def test_pools(pool: str) -> None:
    step = export(small(nn.ReLU(), POOLS[pool]()))
    step.check()
    assert len(lower(step.model).report.lowered) == 2


def test_weights_as_initializers() -> None:
    step = export(small(), weights="initializers")
    assert step.inputs == ("input", "target")
    assert {tensor.name for tensor in step.model.graph.initializer} >= step.values.keys()
    step.check()


def test_the_other_spelling_of_the_weight_gradient() -> None:
    step = export(small(), weight_gradient="convolution")
    step.check()
    assert sum(node.op_type == "Conv" for node in step.model.graph.node) == 2


@pytest.mark.parametrize("optimizer", [None, "adamw"])
def test_kernels_over_the_limits_of_ascend(optimizer: Any) -> None:
    """A warning for each layer that gives more than 255 rows; none for the other way to write the gradient."""
    model = nn.Sequential(
        nn.Conv2d(1, 2, (5, 1)), nn.Conv2d(2, 2, (2, 1)), nn.MaxPool2d((2, 1)), nn.Flatten(), nn.Linear(254, 2)
    )
    x = torch.randn(2, 1, 260, 1)  # the layers give 256 and 255 rows
    with pytest.warns(UserWarning, match=r"of '0\.weight' is a convolution with a kernel of 256x1.* 255") as found:
        export_training_step(model, LOSS, (x, LABELS[:2]), optimizer=optimizer, weight_gradient="convolution")
    assert len([warning for warning in found if "kernel" in str(warning.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export_training_step(model, LOSS, (x, LABELS[:2]), optimizer=optimizer)


def test_an_update_of_its_own() -> None:
    """Gradients and update in two models compute the bits of the step that has both."""
    together, apart = export(small(), optimizer="adamw"), export(small())
    update = export_update(apart, "adamw")
    whole = TrainingLoop(create_session(lower(together.model).model, backend="host"), together.values)
    gradients = create_session(lower(apart.model).model, backend="host")
    updating = onnxruntime.InferenceSession(update.model.SerializeToString(), providers=["CPUExecutionProvider"])
    loop = TrainingLoop(updating, update)
    for _ in range(3):
        loss = whole.step(**together.examples, learning_rate=0.1)["loss"]
        values = loop.values()
        found = dict(
            zip(
                apart.outputs,
                gradients.run(None, {**apart.examples, **{n: values[n] for n in apart.values}}),
                strict=True,
            )
        )
        assert found.pop("loss") == loss
        assert loop.step(**found, learning_rate=0.1) == {}
    for name, value in whole.values().items():
        assert np.array_equal(loop.values()[name], value), name


def test_a_loop_needs_the_values_that_it_carries() -> None:
    step = export(small(), optimizer="sgd")
    values = {name: value for name, value in step.values.items() if name != "weight.0.bias"}
    with pytest.raises(ValueError, match=r"weight\.0\.bias"):
        TrainingLoop(create_session(lower(step.model).model, backend="host"), values)


def test_inputs_with_the_name_of_a_constant() -> None:
    class Dropped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))

        def forward(self, one: Tensor) -> Tensor:
            return (one * self.w * nn.functional.dropout(torch.ones(3))).sum()

    export_training_step(Dropped(), lambda y, target: y * target, (torch.tensor(1.0), torch.tensor(1.0))).check()


class FromSizes(nn.Module):
    """A tensor made from the size of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.ones(x.shape[0], 1, 1, 1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(64, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.cell(x.mean(1).flatten(1)).reshape(-1, 1, 4, 4)


DYNAMIC: dict[str, Callable[[], nn.Module]] = {
    "a tensor of the batch's size": FromSizes,
    "dropped channels": nn.Dropout2d,
    "alpha dropout": nn.AlphaDropout,
    "a recurrent cell": Recurrent,
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_layers_that_make_tensors_of_a_dynamic_batch(name: str) -> None:
    step = export(small(DYNAMIC[name]()), dynamic_batch=True)
    step.check()
    examples = {name: np.concatenate([value, value[:3]]) for name, value in step.examples.items()}
    replace(step, examples=examples).check()


class Policy(nn.Module):
    """The loss of a policy whose actions are categorical and of a normal distribution, of products of two states."""

    def __init__(self) -> None:
        super().__init__()
        self.both, self.deviation = nn.Bilinear(4, 5, 3), nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor, y: Tensor, actions: Tensor) -> Tensor:
        scores = self.both(x, y)
        found = torch.distributions.Categorical(logits=scores).log_prob(actions)
        normal = torch.distributions.Normal(scores, self.deviation.exp())
        return -found.mean() - normal.log_prob(x[:, :3]).mean() + normal.entropy().mean()


def test_distributions_and_bilinear_layers() -> None:
    torch.manual_seed(0)
    checked = torch.distributions.Distribution._validate_args
    step = export_training_step(Policy(), None, (torch.randn(6, 4), torch.randn(6, 5), torch.randint(3, (6,))))
    assert torch.distributions.Distribution._validate_args == checked
    step.check()


def test_anomaly_detection_is_no_part_of_a_step() -> None:
    """It asks for the numbers in each gradient."""
    with torch.autograd.set_detect_anomaly(True):
        export(small(nn.BatchNorm2d(4)))
        assert torch.is_anomaly_enabled()


def test_garbage_collections_are_afterwards_as_before() -> None:
    """Objects that somebody else froze stay frozen: `gc` can only release all of them."""
    batch = torch.ones(2, 3), torch.ones(2, 1)
    gc.unfreeze()
    export_training_step(nn.Linear(3, 1), nn.functional.mse_loss, batch)
    assert gc.get_freeze_count() == 0
    gc.freeze()
    export_training_step(nn.Linear(3, 1), nn.functional.mse_loss, batch)
    assert gc.get_freeze_count() > 0
