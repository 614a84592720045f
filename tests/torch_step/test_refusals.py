# SPDX-License-Identifier: Apache-2.0

"""What would train as something else is refused, in one line that says what and what to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from poolgrad_lowering import lower
from poolgrad_lowering.runtime import TrainingLoop, create_session
from poolgrad_lowering.torch import SGD, TorchExportError, export_forward, export_training_step, export_update
from tests.torch_step.small_steps import LABELS, LOSS, X, export, initialised, small

BATCH = (X, LABELS)


def model(*layers: nn.Module) -> nn.Module:
    return initialised(small(*layers))


class Recomputed(nn.Module):
    """A part with activation checkpointing, which the backward pass computes again."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), *layers, nn.Conv2d(4, 4, 3), nn.MaxPool2d(2)
        )
        self.head = nn.Linear(36, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(self.body, x, use_reentrant=False).flatten(1))


@pytest.mark.parametrize("layer", [nn.Identity, lambda: nn.BatchNorm2d(4)])
@pytest.mark.parametrize("optimizer", [None, "sgd", "adam"])
def test_what_is_recomputed_uses_the_weights_that_are_given(optimizer: Any, layer: Any) -> None:
    torch.manual_seed(0)
    net = Recomputed(layer())
    step = export(net, optimizer=optimizer)
    assert not any("body" in tensor.name for tensor in step.model.graph.initializer)
    step.check(steps=3)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(-1.5)
    replace(step, values=step.values_of(net)).check(steps=2)  # of other weights than those of the export


def test_random_numbers_of_what_is_recomputed_are_refused() -> None:
    """They would be other ones than those of the forward pass."""
    with pytest.raises(TorchExportError, match=r"random numbers again, by aten\.native_dropout.*without checkpointing"):
        export(Recomputed(nn.Dropout()))


class PastItsModule(nn.Module):
    """Reads a parameter by another way than its module, so that a trace sees a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(192, 2)
        self._held = [self.layer.bias]

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(1)) + self._held[0]


def test_a_parameter_that_would_be_a_constant() -> None:
    with pytest.raises(TorchExportError, match=r"the value of 'layer\.bias' as a constant"):
        export(PastItsModule())


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_of_gradients(register: str) -> None:
    net = model()
    getattr(net[0].weight, register)(print)
    with pytest.raises(ValueError, match=r"'0\.weight' has a hook on its gradient.*gradient_transform"):
        export(net)


def test_rounding_does_not_go_into_the_next_step() -> None:
    """Adam moves the bias before BatchNorm by the learning rate, up or down, and the running mean with it."""
    export(model(nn.BatchNorm2d(4)), optimizer="adam").check(steps=4)


def test_a_schedule_that_changes_more_than_the_rate() -> None:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    step = export(net, optimizer=optimizer)
    assert step.rates(optimizer) == {"learning_rate": 0.001}
    torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=9)
    with pytest.raises(ValueError, match=r"group 0 of the optimizer has not the settings of the step.*cycle_momentum"):
        step.rates(optimizer)
    with pytest.raises(ValueError, match="has not the settings"):
        step.rates(torch.optim.SGD(net.parameters()))
    with pytest.raises(TypeError, match="optimizer is a StepLR"):
        step.rates(torch.optim.lr_scheduler.StepLR(optimizer, 1))


def test_arguments_of_loops() -> None:
    net = model()
    step = export(net, optimizer="sgd")
    session = create_session(lower(step.model).model, backend="host")
    loop = TrainingLoop(session, step)
    for values in (net.state_dict(), {"weight.0.biass": np.zeros(4, np.float32)}, {}):
        with pytest.raises(ValueError, match=r"no value has the name of an input, such as weight\.0\.weight"):
            loop.load(values)
    with pytest.raises(TypeError, match="session is a TrainingStep"):
        TrainingLoop(step, session)
    with pytest.raises(TypeError, match="values is a ModelProto"):
        TrainingLoop(session, step.model)
    with pytest.raises(TypeError, match=r"values is a TrainingLoop; .*loop\.values\(\)"):
        step.load_into(net, loop)


def test_comparisons_that_cannot_be_made() -> None:
    step = export(model(nn.BatchNorm2d(4)), weights="initializers")
    step.check()
    for steps in (0, 2):
        with pytest.raises(ValueError, match=f"steps is {steps}; it takes 1 or more, and 1 for a step with weights as"):
            step.check(steps=steps)


@pytest.mark.parametrize("opset", [17, 99])
def test_opsets_that_torch_does_not_write(opset: int) -> None:
    with pytest.raises(TorchExportError, match=f"opset is {opset}; torch exports 18 or newer, and onnx has"):
        export(model(), opset=opset)


def test_an_update_of_a_step_with_an_optimizer() -> None:
    with pytest.raises(ValueError, match="the step has an optimizer already"):
        export_update(export(model(), optimizer="sgd"), "sgd")


class Pooled(nn.Module):
    """Ends as ResNets do."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.stem(x).flatten(1))


def test_channels_last() -> None:
    net = Pooled().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = X.to(memory_format=torch.channels_last)
    export_training_step(net, LOSS, (x, LABELS), optimizer="sgd").check(steps=2)
    assert export_forward(net, (x,)).outputs == ("output",)


@dataclass
class Output:
    logits: Tensor
    hidden: tuple[Tensor, ...]


class Recurrent(nn.Module):
    """An LSTM, whose operator of oneDNN has no translation, and a dataclass as the result."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 6, batch_first=True), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Output:
        found, _ = self.lstm(x)
        return Output(self.head(found[:, -1]), (found,))


def test_an_lstm_and_a_dataclass() -> None:
    forward = export_forward(Recurrent(), (torch.randn(2, 5, 3),))
    assert forward.outputs == ("output.logits", "output.hidden.0")


def frozen() -> nn.Module:
    return model().requires_grad_(False)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: export_forward(nn.Linear, (X,)), TypeError, "model is the class Linear"),  # type: ignore[arg-type]
        (lambda: export_forward(model(), X), TypeError, "it takes a tuple: the arguments of the model's forward; or"),
        (lambda: export_training_step(nn.Flatten, LOSS, BATCH), TypeError, r"it takes an object of it: Flatten\("),
        (lambda: export_training_step(LOSS, model(), BATCH), TypeError, "model is a function; it takes a torch.nn.Mod"),
        (lambda: export_training_step(model(), BATCH, LOSS), TypeError, "loss is a tuple; .* The arguments are model"),
        (lambda: export_training_step(model(), nn.CrossEntropyLoss, BATCH), TypeError, "loss is the class CrossEntro"),
        (lambda: export_training_step(model(), LOSS, (X.numpy(), LABELS.numpy())), ValueError, "torch.from_numpy"),
        (lambda: export_training_step(torch.jit.trace(model(), X), LOSS, BATCH), TypeError, "TorchScript"),
        (lambda: export(nn.Sequential(torch.jit.trace(nn.Identity(), X), model())), TypeError, "'0' is .*TorchScript"),
        (lambda: export_training_step(model().eval(), LOSS, BATCH), ValueError, r"model\.train\(\)"),
        (lambda: export_training_step(frozen(), LOSS, BATCH), TorchExportError, "no parameter of the model has"),
        (lambda: export_training_step(model(), None, (X,)), TorchExportError, "the model has to return it"),
        (lambda: export_training_step(model(), nn.CrossEntropyLoss(reduction="none"), BATCH), TorchExportError,
         r"the loss has the shape \(4,\); a step needs a sca"),
        (lambda: export_training_step(model(), lambda y, target: (LOSS(y, target), y), BATCH), TorchExportError,
         "the loss is a tuple; a step needs a tensor"),
        (lambda: export_training_step(model(), lambda y, target: LOSS(y.detach(), target), BATCH), TorchExportError,
         "does not depend on a parameter that has requires_grad"),
        (lambda: export(model(), optimizer="lamb"), ValueError, "optimizer is 'lamb'"),
        (lambda: export(model(), optimizer=torch.optim.SGD), TypeError, "optimizer is .*SGD; it takes None, 'sgd', "),
        (lambda: export(model(), optimizer=SGD), TypeError, r"optimizer is .*SGD; .* of poolgrad_lowering\.torch"),
        (lambda: export(net := model(), optimizer=torch.optim.Rprop(net.parameters())), TypeError, "is .*Rprop; it"),
        (lambda: export(model(), optimizer="sgd", weights="initializers"), ValueError, "weights must be inputs"),
        (lambda: export(model(), weights="both"), ValueError, "weights is 'both'"),
        (lambda: export(model(), gradient_transform=3), TypeError, "gradient_transform is a int"),
        (lambda: export(model(), gradient_transform=list), TypeError, "gradient_transform returns no mapping"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_one_line_says_what_is_wrong(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_torch_does_not_print_a_graph_that_it_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    def of_labels(y: Tensor, labels: Tensor) -> Tensor:
        return torch.stack(torch.unique(labels).float().unbind(0)).mean() * y.sum()

    with pytest.raises(TorchExportError, match="depends on the numbers in a tensor"):
        export_training_step(nn.Linear(4, 5), of_labels, (torch.randn(2, 4), torch.tensor([0, 1])))
    assert "def forward" not in capsys.readouterr().err
