# SPDX-License-Identifier: Apache-2.0

"""Training steps in 16 bits: in autocast, and of a whole model of such a type."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

from poolgrad_lowering import export_atc, lower
from poolgrad_lowering.torch import StepMismatchError, TorchExportError, export_training_step
from tests.torch_step.small_steps import LABELS, LOSS, X, export, followed, initialised, small

HALVES = {torch.float16: onnx.TensorProto.FLOAT16, torch.bfloat16: onnx.TensorProto.BFLOAT16}
FOUR_ROUNDINGS = {torch.float16: 2.0**-9, torch.bfloat16: 2.0**-6}
"""Products are summed up in another order, and each of the few 16-bit results may be rounded to its other neighbour."""

STEPS_OF_ONE_HALF = torch.randint(-2, 3, X.shape, generator=torch.Generator().manual_seed(0)) / 2


def with_exact_sums(model: nn.Module) -> nn.Module:
    """The model with weights of 0, ±1/4 and ±1/2: on `STEPS_OF_ONE_HALF`, a pool's operands are exact in 16 bits.

    No rounding then chooses another maximum, whatever the machine's order of summation.
    """
    initialised(model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randint(-2, 3, weight.shape) / 4)
    return model


def loss_of_small_scores(y: Tensor, target: Tensor) -> Tensor:
    """The loss of scores so small that their rounding changes probabilities by less than its own part."""
    return LOSS(y.float() / 64, target)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", HALVES)
def test_mixed_precision(dtype: Any, channels_last: bool) -> None:
    """The check does what the export did: its forward pass is in the autocast that was active then."""
    model, x = with_exact_sums(small(nn.ReLU(), nn.Dropout())), STEPS_OF_ONE_HALF
    if channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    with torch.autocast("cpu", dtype):
        step = export_training_step(model, loss_of_small_scores, (x, LABELS))
    assert len(lower(step.model).report.lowered) == 1
    assert {value.type.tensor_type.elem_type for value in step.model.graph.output} == {onnx.TensorProto.FLOAT}
    step.check(tolerance=FOUR_ROUNDINGS[dtype])
    with torch.autocast("cpu", torch.bfloat16 if dtype == torch.float16 else torch.float16):
        step.check(tolerance=FOUR_ROUNDINGS[dtype])


@pytest.mark.parametrize("dtype", HALVES)
def test_steps_in_mixed_precision(dtype: Any) -> None:
    """Autocast keeps the 16-bit weights that it made, and a second step does not use those of the first one.

    With those its loss would be off by 0.2 or more. A weight whose first gradient is rounding moves by the learning
    rate or stays, which is 0.04 of the largest.
    """
    with torch.autocast("cpu", dtype):
        step = export_training_step(
            with_exact_sums(small(nn.ReLU())), LOSS, (STEPS_OF_ONE_HALF, LABELS), optimizer="adamw"
        )
        step.check(steps=2, tolerance=0.1)


@pytest.mark.parametrize("weights", ["inputs", "initializers"])
@pytest.mark.parametrize("dtype", HALVES)
def test_a_whole_model_in_16_bits(dtype: Any, weights: Any) -> None:
    """With 16-bit weights, gradients, running statistics and examples."""
    pooled = (nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.BatchNorm2d(4), nn.Dropout())
    model = with_exact_sums(nn.Sequential(*pooled, nn.Flatten(), nn.LazyLinear(2))).to(dtype)
    step = export_training_step(model, loss_of_small_scores, (STEPS_OF_ONE_HALF.to(dtype), LABELS), weights=weights)
    assert len(lower(step.model).report.lowered) == 1
    assert not export_atc(step.model).report.obstacles
    outputs = {value.name: value.type.tensor_type.elem_type for value in step.model.graph.output}
    trained = [name for name in outputs if name.startswith("grad.")]
    assert len(trained) == 6
    assert {outputs[name] for name in trained} == {HALVES[dtype]}
    step.check(tolerance=8 * FOUR_ROUNDINGS[dtype])  # BatchNorm divides differences of sums


def test_a_layer_in_float32_within_mixed_precision() -> None:
    """Its backward pass is in float32 too, also where the export is inside the autocast."""

    class InFloat32(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", enabled=False):
                return super().forward(x)

    with torch.autocast("cpu", torch.float16):
        step = export_training_step(InFloat32(5, 2), LOSS, (torch.randn(4, 5), LABELS))
    assert onnx.TensorProto.FLOAT16 not in {value.type.tensor_type.elem_type for value in step.model.graph.value_info}
    step.check(tolerance=1e-6)


def test_a_pool_of_16_bits_meets_rounded_values() -> None:
    """1000 + 0.1 and 0.2 + 1000 are the same float16, so the first one is the maximum, and gets the gradient."""
    model = nn.Sequential(nn.Conv2d(2, 1, 1, bias=False), nn.ReLU(), nn.MaxPool2d((1, 2)))
    nn.init.ones_(model[0].weight)
    x = torch.tensor([[[[1000, 0.2]], [[0.1, 1000]]]])
    with torch.autocast("cpu", torch.float16):
        step = export_training_step(model, lambda y, target: (y.float() * target).sum(), (x, torch.ones(())))
    assert not any(step.check().errors.values())  # the bits of eager PyTorch


@pytest.mark.parametrize("dtype", HALVES)
def test_a_swapped_sign_in_16_bits_is_found(dtype: Any) -> None:
    """The BatchNorm amplifies rounding: the step is compared in float32 too."""
    with torch.autocast("cpu", dtype):
        step = export(small(nn.BatchNorm2d(4), nn.ReLU()))
    for name in ("0.weight", "1.weight", "1.bias"):
        wrong = copy.deepcopy(step)
        followed(wrong, f"grad.{name}", "Neg")
        with pytest.raises(
            StepMismatchError, match=rf"grad\.{name} differs .*float32 in place of 16 bits; .* is allowed"
        ):
            wrong.check()


def test_what_is_wrong_in_16_bits_alone_is_found() -> None:
    """An overflow that float32 does not have. Rounding may do this in a deep network, as the message says."""
    step = export_training_step(
        initialised(small(nn.ReLU())).half(), lambda y, t: 1000 * LOSS(y.float(), t), (X.half(), LABELS)
    )
    step.check()
    followed(step, "grad.0.weight", "Mul", "Div", factor=np.float16(6e4))
    with pytest.raises(
        StepMismatchError, match=r"element; .* is allowed, .*; the model computes in 16 bits.*tolerance"
    ):
        step.check()


def angles(x: Tensor) -> Tensor:
    """Positions to 300 are no numbers of bfloat16."""
    return torch.outer(torch.arange(300, dtype=x.dtype), torch.arange(1, 5, dtype=x.dtype) / 4).cos()


def hidden(x: Tensor) -> Tensor:
    """A row of which all is hidden: float16 rounds what is added to its least number, float32 does not."""
    return torch.full_like(x, torch.finfo(x.dtype).min)


CONSTANTS: dict[str, Any] = {
    "angles": (torch.bfloat16, lambda x: x * angles(x).sum(0)),
    "an epsilon": (torch.float16, lambda x: (x.relu() + 1e-8).log().clamp(-30, 30)),
    "a mask": (torch.float16, lambda x: (x + hidden(x)).softmax(-1) * x),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_in_16_bits_are_right(name: str) -> None:
    """Where eager PyTorch computes in float32 they would be others. A wrong sign is found nevertheless."""
    dtype, function = CONSTANTS[name]

    class Model(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return function(super().forward(x))  # type: ignore[no-any-return]

    torch.manual_seed(0)
    examples = (torch.randn(4, 5).to(dtype), torch.randn(4, 4))
    step = export_training_step(Model(5, 4).to(dtype), lambda y, target: (y.float() * target).mean(), examples)
    step.check()
    followed(step, "grad.weight", "Neg")
    with pytest.raises(StepMismatchError, match=r"grad\.weight differs"):
        step.check()


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_an_invalid_model_does_not_pass(dtype: Any) -> None:
    """Nor if the comparison itself, which is in float32, would not see the fault. The message names the node."""
    with torch.autocast("cpu", dtype, enabled=dtype in HALVES):
        step = export(small(nn.ReLU()))
    short = HALVES.get(dtype, onnx.TensorProto.FLOAT)
    step.model.graph.node.append(onnx.helper.make_node("Cast", ["input"], ["first"], "node_first", to=short))
    step.model.graph.node.append(
        onnx.helper.make_node("Cast", ["input"], ["second"], "node_second", to=onnx.TensorProto.DOUBLE)
    )
    step.model.graph.node.append(onnx.helper.make_node("Add", ["first", "second"], ["both"], "node_both"))
    with pytest.raises(TorchExportError, match=r"not valid ONNX.*node_both"):
        step.check()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_power_of_a_weight_in_mixed_precision(dtype: Any) -> None:
    """The mean of powers of a generalised mean pool: values of 16 bits, and an exponent of float32."""

    class GeneralisedMean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.exponent = nn.Parameter(torch.ones(1) * 3)

        def forward(self, x: Tensor) -> Tensor:
            powers = x.clamp(min=1e-6).pow(self.exponent)
            return nn.functional.avg_pool2d(powers, x.shape[2:]).pow(1 / self.exponent)

    model = nn.Sequential(nn.Conv2d(3, 2, 3), GeneralisedMean(), nn.Flatten())
    with torch.autocast("cpu", dtype):
        step = export_training_step(model, LOSS, (X, LABELS))
    step.check()
