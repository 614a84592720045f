# SPDX-License-Identifier: Apache-2.0

"""How long does a training step take in onnxruntime on a CPU beside the same step in eager PyTorch, and its export?

The step has the optimizer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.eager_networks import NETWORKS, Network
from benchmarks.measuring import STEADY, interleaved
from benchmarks.page_runtime import EAGER
from benchmarks.training_sessions import Session, cpu_session, provider_session
from poolgrad_lowering import lower
from poolgrad_lowering.runtime import TrainingLoop
from poolgrad_lowering.torch import TrainingStep, export_training_step
from poolgrad_lowering.torch.groups import in_torch

ROUNDS = 15
RATE = 1e-3
THREADS = (1, 2)
"""Of PyTorch and of each session."""


def measure(_work: Path) -> dict[str, Any]:
    """Per network: seconds of its export, and per number of threads and variant of a step with the ratio to eager."""
    export_training_step(nn.Linear(2, 2), nn.functional.mse_loss, (torch.ones(2, 2), torch.ones(2, 2)))  # imports
    return {"steps": [_step(name, network) for name, network in NETWORKS.items()]}


def _step(name: str, network: Network) -> dict[str, Any]:
    model, loss, batch = network.make()
    started = time.perf_counter()
    step = export_training_step(model, loss, batch, optimizer=network.optimizer)
    seconds = time.perf_counter() - started
    rows = [{"threads": threads, **row} for threads in THREADS for row in _rows(step, model, loss, batch, threads)]
    return {
        "name": name,
        "shape": list(batch[0].shape),
        "optimizer": network.optimizer,
        "nodes": len(step.model.graph.node),
        "export": seconds,
        "rows": rows,
    }


def _rows(
    step: TrainingStep, model: nn.Module, loss: Callable[..., Tensor] | None, batch: tuple[Tensor, ...], threads: int
) -> list[dict[str, Any]]:
    torch.set_num_threads(threads)
    lowered = lower(step.model).model.SerializeToString()
    timings = interleaved(
        {
            EAGER: _eager(step, model, loss, batch),
            "function bodies": _loop(cpu_session(lowered, threads=threads), step),
            "provider": _loop(provider_session(lowered, threads=threads), step),
        },
        ROUNDS,
        unmeasured=STEADY,
    )
    eager = timings[EAGER]
    return [{"name": key, **timing.to_dict(), "ratio": timing.ratio_to(eager)} for key, timing in timings.items()]


def _eager(
    exported: TrainingStep, model: nn.Module, loss: Callable[..., Tensor] | None, batch: tuple[Tensor, ...]
) -> Callable[[], object]:
    optimizer = in_torch(exported.groups, dict(model.named_parameters()), {"learning_rate": RATE})

    def step() -> float:
        optimizer.zero_grad()
        found = model(*batch) if loss is None else loss(model(*batch[:-1]), batch[-1])
        found.backward()
        optimizer.step()
        return float(found)

    return step


def _loop(session: Session, step: TrainingStep) -> Callable[[], object]:
    return partial(TrainingLoop(session, step.values).step, **step.examples, learning_rate=RATE)
