# SPDX-License-Identifier: Apache-2.0

"""Models for evaluation: they compute what eager PyTorch computes in eval mode, with the values of a training."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from poolgrad_lowering import lower
from poolgrad_lowering.runtime import TrainingLoop, create_session
from poolgrad_lowering.torch import TorchExportError, export_forward, export_training_step

X, LABELS = torch.randn(4, 3, 10, 10, generator=torch.Generator().manual_seed(0)), torch.arange(4) % 2


class Net(nn.Module):
    """Layers that compute something else in eval mode, adaptive pools whose sizes divide and do not, attention."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.shrink, self.drop = nn.AdaptiveMaxPool2d(3), nn.Dropout()
        self.head = nn.Linear(72, 2)

    def forward(self, x: Any, *, scale: Any = 1) -> Any:
        x = self.stem(x)
        x = self.attention(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(x.shape)
        scores = self.head(self.drop(self.shrink(x).flatten(1)))
        return {"scores": scores * scale, "means": (x.mean((1, 2, 3)), nn.functional.adaptive_max_pool2d(x, 1))}


def run(model: Any, feeds: dict[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def wanted(net: nn.Module, x: Tensor = X) -> list[Any]:
    with torch.no_grad():
        found = net.eval()(x)
    net.train()
    return [found["scores"].numpy(), *(part.numpy() for part in found["means"])]


@pytest.mark.parametrize("opset", [18, 20])
def test_trained_values_run_at_once(opset: int) -> None:
    torch.manual_seed(0)
    net = Net()
    step = export_training_step(
        net, lambda y, t: nn.functional.cross_entropy(y["scores"], t), (X, LABELS), optimizer="sgd"
    )
    loop = TrainingLoop(create_session(lower(step.model).model, backend="host"), step)
    for _ in range(3):
        loop.step(x=X, target=LABELS, learning_rate=0.1)
    forward = export_forward(net, (X,), opset=opset)
    assert net.training
    assert net.drop.training
    assert forward.outputs == ("output.scores", "output.means.0", "output.means.1")
    assert set(forward.values) == {name for name in step.values if not name.startswith("state.")}
    trained = loop.values()
    found = run(
        forward.model, {**{name: trained[name] for name in forward.values if name in forward.inputs}, "x": X.numpy()}
    )
    step.load_into(net, trained)
    for value, expected in zip(found, wanted(net), strict=True):  # sums in another order
        assert np.allclose(value, expected, rtol=1e-4, atol=1e-5)
    session = onnxruntime.InferenceSession(forward.model.SerializeToString(), providers=["CPUExecutionProvider"])
    again = TrainingLoop(session, trained).step(x=X)
    assert all(np.array_equal(again[name], value) for name, value in zip(forward.outputs, found, strict=True))


def test_a_dynamic_batch() -> None:
    net = Net()
    forward = export_forward(net, {"x": X, "scale": 2}, dynamic_batch=True)
    for count in (1, 3, 7):
        x = torch.cat([X, X])[:count]
        values = {name: value for name, value in forward.values.items() if name in forward.inputs}
        expected = wanted(net, x)
        expected[0] = expected[0] * 2
        for value, right in zip(run(forward.model, {**values, "x": x.numpy()}), expected, strict=True):
            assert np.allclose(value, right, rtol=1e-4, atol=1e-5)  # sums in another order


def test_one_output() -> None:
    net = nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(75, 2)).eval()
    forward = export_forward(net, (X,))
    assert forward.outputs == ("output",)
    assert not net.training
    (found,) = run(forward.model, {**forward.values, **forward.examples})
    assert np.allclose(found, net(X).detach(), rtol=1e-4, atol=1e-5)  # sums in another order


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mixed_precision(dtype: Any) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(300, 2))
    with torch.autocast("cpu", dtype):
        forward = export_forward(net, (X,))
    assert forward.model.graph.output[0].type.tensor_type.elem_type == {torch.float16: 10, torch.bfloat16: 16}[dtype]


def test_what_is_no_model() -> None:
    with pytest.raises(TypeError, match="model is a function"):
        export_forward(nn.functional.relu, (X,))  # type: ignore[arg-type]
    with pytest.raises(TorchExportError, match="fractional_max_pool2d"):
        export_forward(nn.FractionalMaxPool2d(2, output_size=4), (X,))


class Rotated(nn.Module):
    """Pairs of numbers, each turned by an angle that is a complex number in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("turns", torch.polar(torch.ones(2), torch.arange(2.0)))

    def forward(self, x: Tensor) -> Tensor:
        return torch.view_as_real(torch.view_as_complex(self.layer(x).unflatten(1, (2, 2))) * self.turns).flatten(1)


def test_complex_buffers_are_constants() -> None:
    model, x = Rotated(), X[0, :, 0, :4]
    forward = export_forward(model, (x,))
    assert forward.inputs == ("weight.layer.weight", "weight.layer.bias", "x")
    (found,) = run(forward.model, {**forward.values, "x": x.numpy()})
    np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
