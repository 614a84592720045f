# SPDX-License-Identifier: Apache-2.0

"""Training steps out of PyTorch: they compute what eager PyTorch computes, and every pool gradient of them lowers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

onnxruntime = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from torch import Tensor, nn  # noqa: E402

from poolgrad_lowering import export_atc, lower, verify  # noqa: E402
from poolgrad_lowering.runtime import TrainingLoop, create_session  # noqa: E402
from poolgrad_lowering.torch import (  # noqa: E402
    SGD,
    AdamW,
    StepMismatchError,
    TorchExportError,
    TrainingStep,
    export_training_step,
    export_update,
)
from poolgrad_lowering.torch.arrays import to_array  # noqa: E402
from tests.torch_step.networks import NETWORKS  # noqa: E402

BFLOAT16 = onnx.TensorProto.BFLOAT16
X, LABELS = torch.randn(4, 3, 8, 8), torch.arange(4) % 2
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


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    network = NETWORKS[name]
    step = export_training_step(*network.make())
    step.check(steps=2)  # the second one with new running statistics
    lowered = lower(step.model)
    assert len(lowered.report.lowered) == network.pools
    verified = verify(step.model, lowered.model)
    assert [site.status for site in verified.sites] == ["proven"] * network.pools
    assert not export_atc(step.model).report.obstacles


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


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mixed_precision(dtype: Any, channels_last: bool) -> None:
    model, x = initialised(small(nn.ReLU())), X
    if channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    with torch.autocast("cpu", dtype):
        step = export_training_step(model, LOSS, (x, LABELS))
        assert len(lower(step.model).report.lowered) == 1
        if dtype == torch.bfloat16:
            step = replace(step, model=without_bfloat16(step.model))
        step.check(tolerance=5e-2)


def without_bfloat16(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with each bfloat16 result computed in float32 and rounded to bfloat16, as PyTorch's kernels do.

    onnxruntime's CPU provider has no kernels for bfloat16, except those of Cast.
    """
    short = {value.name for value in model.graph.value_info if value.type.tensor_type.elem_type == BFLOAT16}
    assert short
    found = onnx.ModelProto.FromString(model.SerializeToString())
    nodes = list(found.graph.node)
    del found.graph.value_info[:], found.graph.node[:]
    for tensor in (
        *found.graph.initializer,
        *(held.t for node in nodes for held in node.attribute if held.HasField("t")),
    ):
        if tensor.data_type == BFLOAT16:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
    for node in nodes:
        for held in node.attribute:
            if (held.name, held.i) == ("to", BFLOAT16):
                held.i = onnx.TensorProto.FLOAT
        found.graph.node.append(node)
        for position, name in enumerate(node.output):
            if name in short:
                wide, rounded = f"{name}.wide", f"{name}.rounded"
                found.graph.node[-1].output[position] = wide
                found.graph.node.append(helper.make_node("Cast", [wide], [rounded], to=BFLOAT16))
                found.graph.node.append(helper.make_node("Cast", [rounded], [name], to=onnx.TensorProto.FLOAT))
    return found


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

    with pytest.raises(TorchExportError, match="cannot trace"):
        export(small(Branches()))


def test_a_wrong_step_is_found() -> None:
    step = export(small())
    [node] = [node for node in step.model.graph.node if node.op_type == "LogSoftmax"]
    node.op_type = "Softmax"
    with pytest.raises(StepMismatchError, match="differs from eager PyTorch"):
        step.check()


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
