# SPDX-License-Identifier: Apache-2.0

"""Trains a CNN on scikit-learn's handwritten digits three times, and compares the losses and the accuracy.

By eager PyTorch, by the ONNX training step of PyTorch's export in onnxruntime, and by the lowered step with the
execution provider. All three begin with the same weights and see the same batches. Run it with `make train-demo`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from sklearn.datasets import load_digits
from torch import nn

from models.loss_curves import Curve, draw
from poolgrad_lowering import lower
from poolgrad_lowering.runtime import TrainingLoop, create_session
from poolgrad_lowering.torch import SGD, TrainingStep, export_training_step

BATCH, HELD_OUT = 32, 357
FIRST_EPOCH = (1797 - HELD_OUT) // BATCH
"""Steps of an epoch: scikit-learn has 1797 digits."""

RATE, MOMENTUM = 0.05, 0.9
EPOCHS = 12
ACCURACY = 0.97

TOLERANCE = 1e-4
"""Of the losses of the first epoch, eager against ONNX: convolutions add in another order, and training amplifies the
difference. The two ONNX runs must agree in every bit, in all epochs."""


@dataclass(frozen=True)
class Data:
    """Images of shape (N, 1, 8, 8) with values from 0 to 1, and their digits."""

    images: np.ndarray
    digits: np.ndarray

    def batches(self, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield all full batches of an epoch in an order that depends on the seed."""
        order = np.random.default_rng(seed).permutation(len(self.digits))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            yield self.images[chosen], self.digits[chosen]


@dataclass(frozen=True)
class Run:
    """A training: the loss of every step, the weights and buffers at its end, and the seconds of all steps."""

    losses: list[float]
    weights: dict[str, np.ndarray]
    seconds: float


Step = Callable[[np.ndarray, np.ndarray], float]


def data() -> tuple[Data, Data]:
    """Return the images to train on and those that are held out."""
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    images = (found.images[order, None] / 16).astype(np.float32)
    digits = found.target[order].astype(np.int64)
    return Data(images[HELD_OUT:], digits[HELD_OUT:]), Data(images[:HELD_OUT], digits[:HELD_OUT])


def network() -> nn.Module:
    """Return a CNN with two max pools, with the same weights in every call."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def train(step: Step, epochs: int, training: Data) -> tuple[list[float], float]:
    """Return the losses of all steps, and the seconds that they took."""
    started = time.perf_counter()
    losses = [step(*batch) for epoch in range(epochs) for batch in training.batches(epoch)]
    return losses, time.perf_counter() - started


def eager(epochs: int, training: Data) -> Run:
    """Train with PyTorch alone."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), RATE, MOMENTUM)

    def step(images: np.ndarray, digits: np.ndarray) -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.from_numpy(images)), torch.from_numpy(digits))
        loss.backward()
        optimizer.step()
        return loss.item()

    losses, seconds = train(step, epochs, training)
    return Run(losses, {name: value.numpy() for name, value in model.state_dict().items()}, seconds)


def in_onnxruntime(
    session: onnxruntime.InferenceSession, values: dict[str, np.ndarray], epochs: int, training: Data
) -> Run:
    """Train with a session of the training step."""
    loop = TrainingLoop(session, values)
    losses, seconds = train(
        lambda images, digits: float(loop.step(input=images, target=digits, learning_rate=RATE)["loss"]),
        epochs,
        training,
    )
    named = {name.partition(".")[2]: value for name, value in loop.values().items() if not name.startswith("state.")}
    return Run(losses, named, seconds)


def export(training: Data) -> TrainingStep:
    """Return the training step, compared with eager PyTorch over three steps."""
    images, digits = next(training.batches(0))
    examples = torch.from_numpy(images), torch.from_numpy(digits)
    step = export_training_step(network(), nn.functional.cross_entropy, examples, optimizer=SGD(MOMENTUM))
    step.check(steps=3)
    return step


def accuracy(weights: dict[str, np.ndarray], held_out: Data) -> float:
    """Return the part of the held-out digits that the network gets right with these weights."""
    model = network()
    model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    with torch.no_grad():
        found = model.eval()(torch.from_numpy(held_out.images)).argmax(1)
    return float((found.numpy() == held_out.digits).mean())


def runs(epochs: int) -> dict[str, Run]:
    """Return the three trainings by name."""
    training, _ = data()
    step = export(training)
    lowered = lower(step.model).model
    options = onnxruntime.SessionOptions()
    original = onnxruntime.InferenceSession(step.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return {
        "eager PyTorch": eager(epochs, training),
        "ONNX step": in_onnxruntime(original, dict(step.values), epochs, training),
        "lowered, provider": in_onnxruntime(
            create_session(lowered, require_nodes=True), dict(step.values), epochs, training
        ),
    }


def faults(found: dict[str, Run], held_out: Data, *, enough: float) -> list[str]:
    """Return what is wrong with the three trainings: losses that differ, or a network that learned too little."""
    torch_run, original, lowered = found.values()
    wrong = []
    if original.losses != lowered.losses:
        wrong.append("the losses of the lowered step are not those of the ONNX step bit for bit")
    if any(not np.array_equal(value, lowered.weights[name]) for name, value in original.weights.items()):
        wrong.append("the weights of the lowered step are not those of the ONNX step bit for bit")
    worst = max(abs(a - b) for a, b in zip(torch_run.losses[:FIRST_EPOCH], original.losses[:FIRST_EPOCH], strict=True))
    if not worst <= TOLERANCE:
        wrong.append(f"a loss of the first epoch differs by {worst:.1e} from eager PyTorch's; {TOLERANCE:g} is allowed")
    for name, run in found.items():
        if (right := accuracy(run.weights, held_out)) <= enough:
            wrong.append(
                f"{name}: {right:.1%} of the held-out digits are right, of which more than {enough:.0%} are expected"
            )
    return wrong


def main() -> int:
    """Train three times, print a table, and draw the curves. Return 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="two epochs; accuracy above 90 %% is enough")
    parser.add_argument("--plot", type=Path, help="write an SVG with the three curves")
    options = parser.parse_args()
    _, held_out = data()
    found = runs(2 if options.short else EPOCHS)
    for name, run in found.items():
        right = accuracy(run.weights, held_out)
        print(f"{name:18} last loss {run.losses[-1]:.4f}, {right:.1%} of held-out digits, {run.seconds:.1f} s")
    if options.plot:
        options.plot.write_text(draw([Curve(name, run.losses) for name, run in found.items()]), encoding="utf-8")
    wrong = faults(found, held_out, enough=0.9 if options.short else ACCURACY)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
