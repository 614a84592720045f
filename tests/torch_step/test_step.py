# SPDX-License-Identifier: Apache-2.0

"""Training steps out of PyTorch: they compute what eager PyTorch computes, and every pool gradient of them lowers."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from poolgrad_lowering import export_atc, lower
from poolgrad_lowering.model.diagnostics.errors import SessionError
from poolgrad_lowering.runtime import TrainingLoop, create_session
from poolgrad_lowering.torch import (
    SGD,
    AdamW,
    StepMismatchError,
    TorchExportError,
    TrainingStep,
    export_training_step,
    export_update,
)
from poolgrad_lowering.torch.arrays import to_array
from tests.torch_step.edits import followed

X = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(4) % 2
LOSS = nn.functional.cross_entropy


def small(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), *layers, nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(2))


def initialised(model: nn.Module, x: Tensor = X) -> nn.Module:
    """The model after its lazy layers got their sizes."""
    with torch.no_grad():
        model.eval()(x)
    return model.train()


def export(model: nn.Module, x: Tensor = X, **options: Any) -> TrainingStep:
    return export_training_step(initialised(model, x), LOSS, (x, LABELS), **options)


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


def test_the_model_stays_as_it_is() -> None:
    model = initialised(small(nn.BatchNorm2d(4), nn.Dropout()))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    export_training_step(model, LOSS, (X, LABELS)).check(steps=2)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_dynamic_batch() -> None:
    step = export(small(nn.BatchNorm2d(4)), dynamic_batch=True)
    other = torch.randn(7, 3, 8, 8), torch.arange(7) % 2
    examples = {name: to_array(value) for name, value in zip(step.examples, other, strict=True)}
    replace(step, examples=examples).check()
    assert len(lower(step.model).report.lowered) == 1
    with pytest.raises(ValueError, match="2 or more"):
        export_training_step(initialised(small()), LOSS, (X[:1], LABELS[:1]), dynamic_batch=True)


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


def test_a_mismatch_in_16_bits() -> None:
    """Rounding that a network amplifies is no error of the export, and the message says how to tell."""
    with torch.autocast("cpu", torch.float16):
        step = export(small(nn.ReLU()))
    followed(step, "grad.0.weight", "Neg")
    with pytest.raises(StepMismatchError, match=r"is allowed, .*; the model computes in 16 bits.* exported in float32"):
        step.check()


def test_channels_last() -> None:
    model = initialised(small(nn.BatchNorm2d(4))).to(memory_format=torch.channels_last)
    step = export_training_step(model, LOSS, (X.to(memory_format=torch.channels_last), LABELS))
    step.check()
    assert len(lower(step.model).report.lowered) == 1


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
    loop = TrainingLoop(updating, {**apart.values, **update.values})
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


def test_an_operator_without_translation() -> None:
    with pytest.raises(TorchExportError, match="fractional_max_pool2d"):
        export(small(nn.FractionalMaxPool2d(2, output_size=4)))


def test_an_opset_that_torch_does_not_export() -> None:
    with pytest.raises(TorchExportError, match="opset is 17; torch exports 18 or newer"):
        export(small(), opset=17)


def test_a_model_that_cannot_be_traced() -> None:
    class Branches(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(TorchExportError, match=r"the numbers in a tensor, by torch\.Tensor\.__bool__ in forward"):
        export(small(Branches()))


def test_a_result_that_is_no_number_is_found() -> None:
    step = export(small())
    followed(step, "grad.0.bias", "Sub", "Div")
    with pytest.raises(StepMismatchError, match=r"grad\.0\.bias differs from eager PyTorch in float64 by nan"):
        step.check()


def test_a_wrong_step_is_found() -> None:
    step = export(small())
    [node] = [node for node in step.model.graph.node if node.op_type == "LogSoftmax"]
    node.op_type = "Softmax"
    with pytest.raises(StepMismatchError, match="differs from eager PyTorch"):
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


def test_a_model_that_onnxruntime_alone_refuses() -> None:
    step = export(small())
    step.model.graph.node.append(onnx.helper.make_node("Neg", ["input"], ["y"], step.model.graph.node[0].name))
    with pytest.raises(SessionError, match=f"same node name .{step.model.graph.node[0].name}"):
        step.check()


def test_random_numbers_of_torch_go_on() -> None:
    torch.manual_seed(3)
    model = initialised(small(nn.Dropout()))
    torch.manual_seed(4)
    before = torch.random.get_rng_state()
    export_training_step(model, LOSS, (X, LABELS)).check(steps=2)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_weights_whose_gradient_is_rounding() -> None:
    """The gradient of a bias before a BatchNorm is 0, which AdamW divides by its own size. The others count."""
    step = export(small(nn.BatchNorm2d(4), nn.ReLU()), optimizer="adamw")
    found = step.check()
    assert found.errors["new_weight.0.bias"] <= found.allowed["new_weight.0.bias"]
    [update] = [node for node in step.model.graph.node if "new_weight.0.weight" in node.output]
    update.op_type = "Add"
    with pytest.raises(StepMismatchError, match=r"new_weight\.0\.weight differs"):
        step.check()


class Recomputed(nn.Module):
    """A part with activation checkpointing."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.convolution, self.dropout = nn.Conv2d(4, 4, 1), nn.Dropout(probability)

    def forward(self, x: Tensor) -> Tensor:
        def part(value: Tensor) -> Tensor:
            return self.dropout(self.convolution(value).relu()) if self.dropout.p else self.convolution(value).relu()

        found: Tensor = checkpoint(part, x, use_reentrant=False)
        return found


def test_checkpointing() -> None:
    """Its recomputation would draw other masks than the forward pass."""
    export(small(Recomputed(0))).check()
    with pytest.raises(TorchExportError, match=r"random numbers again, by aten\.native_dropout.*without checkpointing"):
        export(small(Recomputed(0.5)))


def test_inputs_with_the_name_of_a_constant() -> None:
    class Dropped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))

        def forward(self, one: Tensor) -> Tensor:
            return (one * self.w * nn.functional.dropout(torch.ones(3))).sum()

    export_training_step(Dropped(), lambda y, target: y * target, (torch.tensor(1.0), torch.tensor(1.0))).check()


class Complex(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.rfft2(x).abs()


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


def test_a_model_without_anything_to_train() -> None:
    frozen = initialised(small())
    for parameter in frozen.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(TorchExportError, match="no parameter of the model has requires_grad"):
        export_training_step(frozen, LOSS, (X, LABELS))
    with pytest.raises(TorchExportError, match="does not depend on a parameter that has requires_grad"):
        export_training_step(initialised(small()), lambda y, target: LOSS(y.detach(), target), (X, LABELS))


def test_complex_numbers() -> None:
    with pytest.raises(TorchExportError, match=r"complex numbers.* by aten\._fft_r2c"):
        export(small(Complex()))


LOSSES: dict[str, tuple[Any, str]] = {
    "one for each example": (
        nn.CrossEntropyLoss(reduction="none"),
        r"the loss has the shape \(4,\); a step needs a sca",
    ),
    "two": (lambda y, target: (LOSS(y, target), y), "the loss is a tuple; a step needs a tensor"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_that_is_no_scalar(name: str) -> None:
    loss, said = LOSSES[name]
    with pytest.raises(TorchExportError, match=said):
        export_training_step(initialised(small()), loss, (X, LABELS))


def test_types_of_arguments() -> None:
    model: Any = initialised(small())
    batch: Any = (X, LABELS)
    loss: Any = LOSS
    with pytest.raises(TypeError, match=r"model is the class Flatten; it takes an object of it: Flatten\("):
        export_training_step(nn.Flatten, loss, batch)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"model is a function; it takes a torch\.nn\.Module"):
        export_training_step(loss, model, batch)
    with pytest.raises(TypeError, match=r"loss is a tuple; .* The arguments are model, loss, example_inputs"):
        export_training_step(model, batch, loss)
    with pytest.raises(TypeError, match="loss is the class CrossEntropyLoss"):
        export_training_step(model, nn.CrossEntropyLoss, batch)
    with pytest.raises(TypeError, match="example_inputs is a Tensor; it takes a tuple"):
        export_training_step(model, loss, X)
    for optimizer in (torch.optim.Adamax(model.parameters(), 0.1), torch.optim.SGD, SGD):
        with pytest.raises(
            TypeError, match=r"optimizer is .*(SGD|Adamax); it takes None, 'sgd', .* of poolgrad_lowering\.torch"
        ):
            export_training_step(model, loss, batch, optimizer=optimizer)


def test_arguments() -> None:
    model = initialised(small())
    with pytest.raises(ValueError, match=r"model\.train\(\)"):
        export_training_step(initialised(small()).eval(), LOSS, (X, LABELS))
    with pytest.raises(ValueError, match="optimizer is 'lamb'"):
        export_training_step(model, LOSS, (X, LABELS), optimizer="lamb")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weights must be inputs"):
        export_training_step(model, LOSS, (X, LABELS), optimizer="sgd", weights="initializers")
    with pytest.raises(ValueError, match="weights is 'both'"):
        export_training_step(model, LOSS, (X, LABELS), weights="both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="example_inputs"):
        export_training_step(model, LOSS, (X,))


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


def test_garbage_collections_are_afterwards_as_before() -> None:
    """Objects that somebody else froze stay frozen: `gc` can only release all of them."""
    batch = torch.ones(2, 3), torch.ones(2, 1)
    gc.unfreeze()
    export_training_step(nn.Linear(3, 1), nn.functional.mse_loss, batch)
    assert gc.get_freeze_count() == 0
    gc.freeze()
    export_training_step(nn.Linear(3, 1), nn.functional.mse_loss, batch)
    assert gc.get_freeze_count() > 0
