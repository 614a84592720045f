# SPDX-License-Identifier: Apache-2.0

"""Builds folders of artifacts with onnxruntime-training's generate_artifacts, and trains each of them there.

For every row of `NETWORKS`, or for the rows named on the command line, writes the folder that generate_artifacts makes
from PyTorch's forward graph, and `run.npz`: the losses of a training in onnxruntime-training, the weights that it ends
with, and a checkpoint of its middle. See README.md for the environment.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from onnxruntime.training import artifacts, onnxblock
from onnxruntime.training.api import CheckpointState, Module, Optimizer
from torch import Tensor, nn

from models.artifact_runs import FOLDERS, NEWEST_IR_VERSION, RESUMED, RUNS, STEPS, batches

SEED = 20261124


class Residual(nn.Module):
    """Two convolutions with batch normalization, around which the input is added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum, behind a ReLU."""
        return torch.relu(x + self.block(x))


class UNet(nn.Module):
    """One level down and up again, with a skip connection; a class for each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU())
        self.pool = nn.MaxPool2d(2)
        self.bottom = nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.ReLU())
        self.up = nn.Conv2d(14, 6, 3, padding=1)
        self.last = nn.Conv2d(6, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of all pixels, as rows: onnxruntime-training declares other labels for images."""
        kept = self.down(x)
        low = self.bottom(self.pool(kept))
        # Nearest-neighbour upsampling by views, since onnxruntime-training has no kernel for a gradient of Resize.
        n, c, h, w = low.shape
        wide = low.reshape(n, c, h, 1, w, 1).expand(n, c, h, 2, w, 2).reshape(n, c, 2 * h, 2 * w)
        return self.last(torch.relu(self.up(torch.cat([kept, wide], 1)))).permute(0, 2, 3, 1).reshape(-1, 3)


class Transformer(nn.Module):
    """Patches of an image by a convolution and a pool, a block of attention and GELU, and the mean of the tokens."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.last = nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of the classes."""
        tokens = self.stem(x).flatten(2).transpose(1, 2)
        tokens = tokens + self._attend(self.first(tokens))
        tokens = tokens + self.narrow(nn.functional.gelu(self.wide(self.second(tokens))))
        return self.last(tokens.mean(1))

    def _attend(self, tokens: Tensor) -> Tensor:
        def split(part: Tensor) -> Tensor:
            return part.reshape(-1, 16, self.heads, self.width // self.heads).transpose(1, 2)

        query, key, value = split(self.query(tokens)), split(self.key(tokens)), split(self.value(tokens))
        odds = torch.softmax(query @ key.transpose(2, 3) / (self.width // self.heads) ** 0.5, -1)
        return self.out((odds @ value).transpose(1, 2).reshape(-1, 16, self.width))


class Crnn(nn.Module):
    """A convolution and a pool, whose columns an LSTM and a GRU read from left to right."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.lstm, self.gru = nn.LSTM(32, width), nn.GRU(width, width)
        self.last = nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of the classes."""
        columns = self.stem(x).flatten(1, 2).permute(2, 0, 1)
        states, _ = self.gru(self.lstm(columns)[0])
        return self.last(states[-1])


def _clipped_adamw() -> onnxblock.Block:
    """AdamW behind a clipping of the gradients by their norm."""
    return onnxblock.optim.AdamW(weight_decay=0.01, clip_grad=onnxblock.optim.ClipGradNorm(0.5))


@dataclass(frozen=True)
class Network:
    """A network, its optimizer, the opset of its forward graph, and its parameters that are not trained."""

    make: Callable[[], nn.Module]
    optimizer: artifacts.OptimType | Callable[[], onnxblock.Block]
    opset: int = 18
    frozen: tuple[str, ...] = ()


def _lenet() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(128, 5)),
    )


def _resnet() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(3, 2, 1)),
        *(Residual(6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5)),
    )


NETWORKS = {
    "crnn": Network(Crnn, artifacts.OptimType.AdamW),
    "lenet": Network(_lenet, artifacts.OptimType.AdamW, frozen=("0.bias",)),
    "resnet": Network(_resnet, artifacts.OptimType.SGD),
    "transformer": Network(
        Transformer, _clipped_adamw, opset=15
    ),  # newer exporters write LayerNormalization as one node
    "unet": Network(UNet, artifacts.OptimType.AdamW),
}


def forward_graph(network: Network) -> tuple[onnx.ModelProto, list[str]]:
    """Return the forward graph by PyTorch's TorchScript exporter, and the names of its parameters."""
    torch.manual_seed(SEED)
    module = network.make().train()
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.eval()
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "forward.onnx")
        torch.onnx.export(
            module,
            (torch.zeros(2, 1, 16, 16),),
            file,
            dynamo=False,
            opset_version=network.opset,
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
            input_names=["images"],
            output_names=["scores"],
            dynamic_axes={"images": {0: "batch"}, "scores": {0: "labels"}},
        )
        model = onnx.load(file)
    stored = [tensor.name for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT]
    return model, [name for name in stored if not name.endswith(("running_mean", "running_var"))]


def build(name: str) -> None:
    """Build one folder, train from it, and write the run."""
    network, folder = NETWORKS[name], FOLDERS / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model, parameters = forward_graph(network)
    optimizer = network.optimizer if isinstance(network.optimizer, artifacts.OptimType) else network.optimizer()
    artifacts.generate_artifacts(
        model,
        requires_grad=[parameter for parameter in parameters if parameter not in network.frozen],
        frozen_params=list(network.frozen),
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=optimizer,
        artifact_directory=folder,
    )
    for file in folder.glob("*.onnx"):
        written = onnx.load(file)
        written.ir_version = min(written.ir_version, NEWEST_IR_VERSION)
        onnx.save(written, file)
    np.savez_compressed(folder / "run.npz", **train(folder, name))


def train(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Train in onnxruntime-training; return the losses and the last weights. Writes a checkpoint of the middle."""
    run = RUNS[name]
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
    optimizer = Optimizer(folder / "optimizer_model.onnx", module)
    optimizer.set_learning_rate(run.rate)
    losses = []
    for number, (images, labels) in enumerate(batches(name)):
        if number == STEPS // 2:
            CheckpointState.save_checkpoint(state, folder / RESUMED, include_optimizer_state=True)
        module.train()
        losses.append(np.float32(module(images, labels)))
        optimizer.step()
        module.lazy_reset_grad()
    module.eval()
    evaluated = np.float32(module(images, labels))
    weights = {f"weight.{parameter}": np.array(value.data) for parameter, value in state.parameters}
    return {"losses": np.array(losses), "evaluated": np.array(evaluated), **weights}


def main() -> None:
    """Build the rows named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NETWORKS], help="rows of NETWORKS; all if none is named")
    for name in parser.parse_args().names or NETWORKS:
        build(name)
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
