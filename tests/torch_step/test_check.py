# SPDX-License-Identifier: Apache-2.0

"""What a comparison with eager PyTorch takes for right, and which errors it finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from poolgrad_lowering.model.diagnostics.errors import SessionError
from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.torch import AdamW, StepMismatchError, TorchExportError, export_training_step
from poolgrad_lowering.torch.checking.judgement import judged, judged_output, part
from tests.torch_step.small_steps import followed

ROUNDING = 2.0**-24


class Applied(nn.Module):
    """A function of an example, times a scalar that is trained."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function, self.scale = function, nn.Parameter(torch.tensor(1.1))

    def forward(self, x: Tensor) -> Any:
        return self.function(x * self.scale)


def loss(y: Tensor, target: Tensor) -> Tensor:
    return (y * y * 0.5 + y * target).mean()


def export(function: Callable[[Tensor], Any], x: Tensor, optimizer: Any = "sgd") -> Any:
    return export_training_step(Applied(function), loss, (x, torch.tensor(0.3)), optimizer=optimizer)


RIGHT: dict[str, Callable[[Tensor], Tensor]] = {
    "cosine_similarity": lambda x: functional.cosine_similarity(x, torch.ones(5)),
    "normalize": functional.normalize,
    "renorm": lambda x: torch.renorm(x, 2, 0, 1),
    "instance_norm": lambda x: functional.instance_norm(x[None]),
    "rms_norm": lambda x: functional.rms_norm(x, [5]),
    "kl_div of negative targets": lambda x: functional.kl_div(x.detach(), x),
    "safe_softmax of a row of -inf": lambda x: torch._safe_softmax(x.masked_fill(x[:, :1] > 0, -np.inf), 1),
    "fused attention, which draws nothing": lambda x: functional.scaled_dot_product_attention(
        x[None], x[None], x[None]
    ),
    "sigmoid of small results": lambda x: functional.silu(x.abs() - 20) + functional.mish(x.abs() - 20),
    "randn_like": lambda x: x * torch.randn_like(x),
    "rand": lambda x: x * torch.rand(3, 5),
    "randn": lambda x: x + torch.randn(5),
    "rand_like": lambda x: x * torch.rand_like(x),
    "bernoulli": lambda x: x * torch.bernoulli(torch.full_like(x, 0.3)),
    "normal": lambda x: torch.normal(x, 0.5) + torch.normal(0.2, x.abs()) * torch.normal(x, x.abs()),
    "normal of numbers": lambda x: x * torch.normal(0.5, 2, (3, 5)),
    "normal_ and uniform_": lambda x: x * torch.empty(3, 5).normal_(1, 2) + torch.zeros(5).uniform_(-1, 3),
    "exponential_": lambda x: x * torch.empty(3, 5).exponential_(2) + torch.empty_like(x).exponential_(),
    "geometric_ and log_normal_": lambda x: x * torch.empty(3, 5).geometric_(0.3) + torch.empty(5).log_normal_(0, 1),
    "randperm": lambda x: x + x[torch.randperm(len(x))],
    "multinomial": lambda x: x.gather(1, torch.multinomial(x.softmax(1), 3)),
    "multinomial with replacement": lambda x: x.gather(1, torch.multinomial(x.softmax(1), 3, replacement=True)),
    "rrelu": lambda x: nn.functional.rrelu(x, training=True) + nn.functional.rrelu_(x * 1, 0.2, 0.5, True),
    "randint and randint_like": lambda x: x * torch.randint(3, (5,)) + x * torch.randint_like(x, -2, 5),
    "random_ and cauchy_": lambda x: x * torch.empty(5).random_(1, 4) * torch.zeros(3, 5).cauchy_(1, 0.5).atan(),
    "random_ of a type": lambda x: x * torch.empty(5, dtype=torch.int32).random_(4),
    "random numbers that nothing reads": lambda x: [torch.rand(2), x * torch.rand_like(x), torch.randn(5)][1],
    "dropout of all": lambda x: x + functional.dropout(x, 1.0),
    "gumbel_softmax": lambda x: functional.gumbel_softmax(x) + functional.gumbel_softmax(x, hard=True),
    "dropout between others": lambda x: functional.dropout(x + torch.randn_like(x), 0.4) * torch.rand_like(x),
}
"""Gradients that are a difference of large terms, NaN in eager PyTorch too, and random numbers."""


@pytest.mark.filterwarnings("ignore:reduction. .mean.")
@pytest.mark.parametrize("name", RIGHT)
def test_right_steps(name: str) -> None:
    export(RIGHT[name], torch.randn(3, 5)).check(steps=2)


def test_random_numbers_in_16_bits() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        step = export(lambda x: x.bfloat16() + torch.randn_like(x, dtype=torch.bfloat16), torch.randn(3, 5))
    step.check()


def test_random_numbers_in_another_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    step = export(lambda x: x * torch.rand(3, 5) + torch.rand(3, 5).square(), torch.randn(3, 5))
    step.check()
    number = names.random_number
    monkeypatch.setattr(names, "random_number", lambda name: 1 - number(name))
    with pytest.raises(StepMismatchError):
        step.check()


def test_random_numbers_that_cannot_be_fed() -> None:
    step = export(torch.sigmoid, torch.randn(3, 5))
    step.model.graph.node.add(op_type="Multinomial", name="drawn", input=["x"], output=["drawn"])
    with pytest.raises(TorchExportError, match="a step with Multinomial cannot be compared"):
        step.check()


NETWORK = (nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4))


def network(optimizer: Any = None) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(*NETWORK)
    batch = torch.randn(4, 2, 4, 4), torch.tensor([0, 1, 3, 2])
    return export_training_step(model, nn.functional.cross_entropy, batch, optimizer=optimizer)


GRADIENTS = ("0.weight", "1.weight", "1.bias", "5.weight", "5.bias")
"""All but that of the bias before BatchNorm, which is 0."""


@pytest.mark.parametrize("factor", [1.01, 0.999])
def test_factors_of_a_gradient_are_found(factor: float) -> None:
    step = network()
    step.check()
    for name in GRADIENTS:
        wrong = network()
        followed(wrong, f"grad.{name}", "Mul", factor=factor)
        with pytest.raises(StepMismatchError, match=rf"grad\.{name} differs"):
            wrong.check()


class AtThreshold(nn.Module):
    """A layer whose buffer decides by its number, which is the last one for which it decides so."""

    threshold: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("threshold", torch.tensor(2.5))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x) * (2.0 if self.threshold >= 2.5 else 1.0)
        return found


def test_numbers_that_decide_are_not_moved() -> None:
    step = export_training_step(AtThreshold(), loss, (torch.randn(3, 4), torch.randn(3, 4)))
    step.check()
    followed(step, "grad.layer.bias", "Mul", factor=1.5)
    with pytest.raises(StepMismatchError, match=r"grad\.layer\.bias"):
        step.check()


def _with_other(step: Any, operator: str, name: str, by: Any) -> None:
    """Let the nodes of a step read what an operator makes of a value."""
    graph = step.model.graph
    for node in graph.node:
        node.input[:] = ["other" if value == name else value for value in node.input]
    at = next((at for at, node in enumerate(graph.node, 1) if name in node.output), 0)
    graph.node.insert(at, onnx.helper.make_node(operator, [name, "by"], ["other"], "node_other"))
    graph.initializer.append(onnx.numpy_helper.from_array(np.float32(by), "by"))


def test_a_gate_that_a_few_roundings_open() -> None:
    """Eager PyTorch is as little off as the step, but the operand of the ReLU then stays above 0."""
    x = torch.tensor([1.0123, 0.5123])
    just_below = x * 1.1 * torch.tensor([1 - 8 * ROUNDING, 0.5])
    step = export(lambda x: (x - just_below).relu() * 10, x)
    step.check()
    [product] = [node.output[0] for node in step.model.graph.node if set(node.input) == {"x", "weight.scale"}]
    _with_other(step, "Mul", product, 1 - 12 * ROUNDING)
    step.check()


class Weighted(nn.Module):
    """The sum of an example with weights, whose gradient is the example."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.3, 0.7]))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.weight).sum()


@pytest.mark.parametrize(("difference", "is_right"), [(-3e-7, True), (-3e-4, False)])
def test_adam_where_a_gradient_is_almost_0(difference: float, is_right: bool) -> None:
    """Its first step moves a weight by the learning rate, whichever sign rounding gives the gradient."""
    step = export_training_step(Weighted(), None, (torch.tensor([1.25, 1e-7]),), optimizer="adam")
    step.check()
    _with_other(step, "Add", "x", [0, difference])
    if is_right:
        step.check()
    else:
        with pytest.raises(StepMismatchError):
            step.check()


def test_a_swapped_sign_of_adam_is_found() -> None:
    step = network("adam")
    step.check()
    _with_other(step, "Mul", "learning_rate", -1)
    with pytest.raises(StepMismatchError, match=r"new_weight\..* differs"):
        step.check()


def test_wrong_updates_are_found() -> None:
    """A weight decay of 0.01 that is missing changes a weight by 1e-4 of it in one step."""
    step = network(AdamW())
    step.check()
    object.__setattr__(step, "groups", tuple(type(g)(AdamW(weight_decay=0), g.parameters, g.rate) for g in step.groups))
    with pytest.raises(StepMismatchError, match=r"new_weight\.\d\.(weight|bias) differs"):
        step.check()


@pytest.mark.parametrize("output", ["loss", "new_buffer.1.running_mean", "new_buffer.1.running_var"])
def test_wrong_results_beside_gradients_are_found(output: str) -> None:
    step = network()
    followed(step, output, "Mul", factor=1.001)
    with pytest.raises(StepMismatchError, match=f"{output} differs"):
        step.check()


def _by_mask(x: Tensor) -> Tensor:
    mask = torch.ones(6)
    mask[[0, 2]] = 0
    return x * mask


def _into_new(x: Tensor) -> Tensor:
    new = torch.empty(x.shape)
    new[:] = 0
    new[:, 0] = x[:, 0]
    return new


@pytest.mark.parametrize("function", [_by_mask, _into_new])
def test_what_is_written_to_new_tensors(function: Callable[[Tensor], Tensor]) -> None:
    export(function, torch.randn(4, 6)).check(steps=2)


ONE = np.float32([1, 0.5])
CASES = {
    "the bits of eager PyTorch": (ONE, [ONE], ONE + 0.5, True),
    "NaN at the same place": (np.float32([np.nan, 1]), [np.float32([np.nan, 1])], np.array([3, 1.0]), True),
    "NaN at another place": (np.float32([1, np.nan]), [np.float32([np.nan, 1])], np.array([np.nan, 1]), False),
    "no NaN where there is one": (np.float32([5, 1]), [np.float32([np.nan, 1])], np.array([np.nan, 1]), False),
    "infinities of another sign": (np.float32([np.inf]), [np.float32([-np.inf])], np.array([-np.inf]), False),
    "the same infinity": (np.float32([np.inf, 1]), [np.float32([np.inf, 1])], np.array([1e300, 1]), True),
    "as wrong as eager PyTorch": (ONE * 1.07, [ONE * 0.99], ONE.astype(float), True),
    "as wrong as a moved eager PyTorch": (ONE * 1.07, [ONE, ONE * 1.01], ONE.astype(float), True),
    "more wrong": (ONE * 1.09, [ONE * 0.99], ONE.astype(float), False),
    "the square of noise": (np.float32([6e-9]), [np.float32([1e-10])], np.array([1e-20]), True),
    "no square of noise": (np.float32([7e-9]), [np.float32([1e-10])], np.array([1e-20]), False),
    "rounding": (ONE + 2 * np.float32(ROUNDING), [ONE], ONE.astype(float), True),
    "a difference beside zeros": (np.float32([1e-9]), [np.float32([0])], np.array([0.0]), False),
    "less than a normal number beside zeros": (np.float32([1e-39]), [np.float32([0])], np.array([0.0]), True),
}


@pytest.mark.parametrize("name", CASES)
def test_judgements(name: str) -> None:
    result, eagers, exact, right = CASES[name]
    error, allowed = judged_output(result, eagers, exact, np.zeros(()), 16 * ROUNDING)
    assert (error <= allowed) == right


def test_judgements_by_runs_that_are_moved_farther() -> None:
    """They speak for the elements that they change, no others, and squares of noise begin at squares of noise."""
    flipped = np.float32([1, -0.5])
    for result, right in ((flipped, True), (-ONE, False), (flipped * 3, False)):
        error, allowed = judged_output(result, [ONE], ONE.astype(float), np.zeros(()), ROUNDING, [flipped])
        assert (error <= allowed) == right
    before, exact, eager, found = (np.array([value]) for value in (1e-4, 0.999e-4, 2e-4, 50e-4))
    error, allowed = judged_output(found, [eager], exact, before, ROUNDING)
    assert error <= allowed


def test_a_result_that_is_no_number_is_found() -> None:
    step = network()
    followed(step, "grad.5.bias", "Sub", "Div")
    with pytest.raises(StepMismatchError, match=r"grad\.5\.bias differs from eager PyTorch in float64 by nan"):
        step.check()


def test_a_model_that_onnxruntime_alone_refuses() -> None:
    step = network()
    step.model.graph.node.append(onnx.helper.make_node("Neg", ["input"], ["y"], step.model.graph.node[0].name))
    with pytest.raises(SessionError, match=f"same node name .{step.model.graph.node[0].name}"):
        step.check()


def test_a_step_that_onnxruntime_cannot_run() -> None:
    step = network()
    step.model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(99), "far"))
    step.model.graph.node.append(onnx.helper.make_node("Gather", ["input", "far"], ["y"], "outside"))
    step.model.graph.output.append(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["c", "h", "w"]))
    with pytest.raises(SessionError, match=r"onnxruntime cannot run the training step: .*outside"):
        step.check()


def test_what_eager_pytorch_cannot_run() -> None:
    """A trace has no numbers, so the export of a label that is no class succeeds."""
    step = export(lambda x: functional.cross_entropy(x, torch.tensor([1, 7, 2])), torch.rand(3, 4))
    with pytest.raises(TorchExportError, match="cannot be compared, since eager PyTorch cannot run it: Target 7 is"):
        step.check()


@pytest.mark.parametrize(("off", "is_right"), [(4 * ROUNDING, True), (40 * ROUNDING, False)])
def test_a_gradient_in_which_terms_cancel_may_be_off_by_a_part_of_the_largest(off: float, is_right: bool) -> None:
    """That of a bias before a BatchNorm is 0 in eager PyTorch, here or there exactly."""
    exact = {"grad.bias": np.zeros(3), "grad.weight": np.full(2, 5.0)}
    eager = {name: value.astype(np.float32) for name, value in exact.items()}
    results = {**eager, "grad.bias": np.array([0, off, 0], np.float32)}
    found = judged(results, [eager], iter(()), exact, starts={}, tolerance=ROUNDING)
    assert (part(*found["grad.bias"]) <= 1) is is_right
