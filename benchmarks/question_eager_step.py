# SPDX-License-Identifier: Apache-2.0

"""How long does a training step take in onnxruntime on a CPU beside the same step in eager PyTorch?

The step has the optimizer, SGD with momentum. It is exported with each way to write the gradient of a convolution's
weight.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from benchmarks.measuring import interleaved
from benchmarks.training_sessions import Session, cpu_session, provider_session
from poolgrad_lowering import lower
from poolgrad_lowering.runtime import TrainingLoop
from poolgrad_lowering.torch import TrainingStep, export_training_step
from tests.torch_step.networks import UNet, resnet_18

ROUNDS = 15
RATE, MOMENTUM = 1e-3, 0.9
THREADS = 2
"""Of PyTorch and of each session."""


def _features(before: int, *blocks: tuple[int, int]) -> list[nn.Module]:
    """Return blocks of so many convolutions with so many channels, each block with a pool behind it."""
    layers: list[nn.Module] = []
    for count, channels in blocks:
        for _ in range(count):
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU()]
            before = channels
        layers.append(nn.MaxPool2d(2))
    return layers


def _digits() -> nn.Module:
    return nn.Sequential(
        *_features(1, (1, 16), (1, 32)), nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def _vgg() -> nn.Module:
    blocks = ((2, 32), (2, 64), (2, 128), (2, 128))
    return nn.Sequential(*_features(3, *blocks), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], tuple[int, ...]]] = {
    "digits CNN": (_digits, (32, 1, 8, 8), (32,)),
    "VGG-like": (_vgg, (4, 3, 96, 96), (4,)),
    "ResNet-18": (partial(resnet_18, 64, 10), (4, 3, 112, 112), (4,)),
    "U-Net": (partial(UNet, 2, (16, 32, 64, 128), 5), (2, 1, 96, 96), (2, 96, 96)),
}
"""The function that builds each network, and the shapes of its input and of its target, whose elements are classes."""


def measure(_work: Path) -> dict[str, Any]:
    """Per network and variant: seconds of a step, and the ratio to eager PyTorch."""
    torch.set_num_threads(THREADS)
    return {"steps": [{"name": name, "shape": NETWORKS[name][1], "rows": _rows(name)} for name in NETWORKS]}


def _rows(name: str) -> list[dict[str, Any]]:
    build, shape, target = NETWORKS[name]
    torch.manual_seed(0)
    model, batch = build(), (torch.randn(shape), torch.randint(5, target))
    loss = nn.functional.cross_entropy
    steps = {
        written: export_training_step(model, loss, batch, optimizer="sgd", weight_gradient=written)
        for written in ("matmul", "convolution")
    }
    lowered = lower(steps["matmul"].model).model
    timings = interleaved(
        {
            "eager PyTorch": _eager(model, loss, batch),
            "ONNX step, dW as a Conv": _loop(cpu_session, steps["convolution"]),
            "ONNX step": _loop(cpu_session, steps["matmul"]),
            "lowered, function bodies": _loop(cpu_session, steps["matmul"], lowered),
            "lowered, provider": _loop(provider_session, steps["matmul"], lowered),
        },
        ROUNDS,
    )
    eager = timings["eager PyTorch"]
    return [{"name": key, **timing.to_dict(), "ratio": timing.ratio_to(eager)} for key, timing in timings.items()]


def _eager(
    model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], batch: tuple[Tensor, Tensor]
) -> Callable[[], object]:
    optimizer = torch.optim.SGD(model.parameters(), RATE, MOMENTUM)

    def step() -> float:
        optimizer.zero_grad()
        found = loss(model(batch[0]), batch[1])
        found.backward()
        optimizer.step()
        return found.item()

    return step


def _loop(
    open_session: Callable[[bytes], Session], step: TrainingStep, model: onnx.ModelProto | None = None
) -> Callable[[], object]:
    session = open_session((model or step.model).SerializeToString())
    loop = TrainingLoop(session, step.values)
    return partial(loop.step, **step.examples, learning_rate=RATE)
