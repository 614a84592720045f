# SPDX-License-Identifier: Apache-2.0

"""How long does a training step take in onnxruntime on a CPU beside the same step in eager PyTorch?

The step has the optimizer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from benchmarks.eager_networks import NETWORKS, make
from benchmarks.measuring import interleaved
from benchmarks.training_sessions import Session, cpu_session, provider_session
from poolgrad_lowering import lower
from poolgrad_lowering.runtime import TrainingLoop
from poolgrad_lowering.torch import TrainingStep, export_training_step

ROUNDS = 15
RATE = 1e-3
THREADS = 2
"""Of PyTorch and of each session."""


def measure(_work: Path) -> dict[str, Any]:
    """Per network and variant: seconds of a step, and the ratio to eager PyTorch."""
    torch.set_num_threads(THREADS)
    return {"steps": [{"name": name, "shape": NETWORKS[name][1], "rows": _rows(name)} for name in NETWORKS]}


def _rows(name: str) -> list[dict[str, Any]]:
    model, loss, batch = make(name)
    optimizer = NETWORKS[name][3]
    step = export_training_step(model, loss, batch, optimizer=optimizer)
    lowered = lower(step.model).model
    timings = interleaved(
        {
            "eager PyTorch": _eager(model, loss, batch, OPTIMIZERS[optimizer]),
            "ONNX step": _loop(cpu_session, step),
            "lowered, function bodies": _loop(cpu_session, step, lowered),
            "lowered, provider": _loop(provider_session, step, lowered),
        },
        ROUNDS,
    )
    eager = timings["eager PyTorch"]
    return [{"name": key, **timing.to_dict(), "ratio": timing.ratio_to(eager)} for key, timing in timings.items()]


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": partial(torch.optim.SGD, lr=RATE, momentum=0.9),
    "adam": partial(torch.optim.Adam, lr=RATE),
    "adamw": partial(torch.optim.AdamW, lr=RATE),
}


def _eager(
    model: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    batch: tuple[Tensor, Tensor],
    make_optimizer: Callable[..., torch.optim.Optimizer],
) -> Callable[[], object]:
    optimizer = make_optimizer(model.parameters())

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
