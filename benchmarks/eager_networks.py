# SPDX-License-Identifier: Apache-2.0

"""Networks of many kinds that people train, whose steps are measured beside eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.image_networks import (
    DeepLab,
    Momentum,
    NestedUNet,
    Recurrent,
    SegNet,
    Siamese,
    Swin,
    Variational,
    VisionTransformer,
    convnext,
    densenet,
    digits,
    discriminator,
    efficientnet,
    mobilenet_v3,
    r2plus1d,
    style,
    vgg,
)
from benchmarks.other_networks import Gpt, Graph, Mixture, PointNet, Recommender, Tagger, audio, temporal
from poolgrad_lowering.torch import TrainingStep, export_training_step
from tests.torch_step.architectures import TextCNN, UNet, resnet_18
from tests.torch_step.networks import image, labels


def _integers(below: int, *sizes: int) -> Callable[[], Tensor]:
    return lambda: torch.randint(below, sizes)


def _whether(count: int) -> Callable[[], Tensor]:
    return lambda: torch.randint(2, (count,)).float()


@dataclass(frozen=True)
class Network:
    """A network, its optimizer, its inputs and its target, and its loss; None: it computes the loss itself."""

    build: Callable[[], nn.Module]
    optimizer: str
    batch: tuple[Callable[[], Tensor], ...]
    loss: Callable[[Tensor, Tensor], Tensor] | None = field(default=functional.cross_entropy)

    def make(self) -> tuple[nn.Module, Callable[[Tensor, Tensor], Tensor] | None, tuple[Tensor, ...]]:
        """Return the network in train mode, its loss, and a batch, the same in every call."""
        torch.manual_seed(0)
        return self.build(), self.loss, tuple(make() for make in self.batch)

    def export(self, **options: Any) -> TrainingStep:
        """Return the step of the network."""
        return export_training_step(*self.make(), **options)


_binary = functional.binary_cross_entropy_with_logits

NETWORKS = {
    "digits CNN": Network(digits, "sgd", (image(32, 1, 8, 8), labels(32))),
    "VGG": Network(vgg, "sgd", (image(4, 3, 96, 96), labels(4))),
    "ResNet-18": Network(partial(resnet_18, 64, 10), "sgd", (image(4, 3, 112, 112), labels(4))),
    "DenseNet": Network(densenet, "sgd", (image(8, 3, 64, 64), labels(8))),
    "ConvNeXt": Network(convnext, "adamw", (image(16, 3, 64, 64), labels(16))),
    "EfficientNet": Network(efficientnet, "sgd", (image(16, 3, 96, 96), labels(16))),
    "MobileNetV3": Network(mobilenet_v3, "rmsprop", (image(16, 3, 64, 64), labels(16))),
    "ViT": Network(VisionTransformer, "adamw", (image(16, 3, 32, 32), labels(16))),
    "Swin": Network(Swin, "adamw", (image(4, 3, 64, 64), labels(4))),
    "U-Net": Network(partial(UNet, 2, (16, 32, 64, 128), 5), "sgd", (image(2, 1, 96, 96), labels(2, 96, 96))),
    "U-Net++": Network(partial(NestedUNet, (16, 24, 32, 48), 5), "adam", (image(4, 1, 96, 96), labels(4, 96, 96))),
    "SegNet": Network(SegNet, "sgd", (image(4, 3, 64, 64), labels(4, 64, 64))),
    "DeepLab": Network(DeepLab, "sgd", (image(4, 3, 64, 64), labels(4, 64, 64))),
    "style network": Network(style, "sgd", (image(8, 3, 64, 64), image(8, 3, 64, 64)), functional.mse_loss),
    "VAE": Network(Variational, "adam", (image(16, 1, 32, 32),), None),
    "discriminator of a GAN": Network(discriminator, "adam", (image(16, 3, 32, 32), _whether(16)), _binary),
    "siamese, triplets": Network(Siamese, "adam", (image(8, 1, 32, 32),) * 3, None),
    "MoCo": Network(Momentum, "sgd", (image(16, 3, 32, 32),) * 2, None),
    "R(2+1)D": Network(r2plus1d, "sgd", (image(2, 3, 8, 48, 48), labels(2))),
    "CRNN": Network(Recurrent, "adam", (image(16, 1, 16, 64), labels(16))),
    "audio CNN": Network(audio, "adamw", (image(8, 1, 8000), labels(8))),
    "TCN": Network(temporal, "adam", (image(16, 4, 128), labels(16))),
    "text CNN": Network(partial(TextCNN, 500, 64, 32), "adam", (_integers(500, 32, 40), labels(32))),
    "LSTM tagger": Network(
        Tagger,
        "adam",
        (_integers(200, 16, 24), _integers(9, 16, 24)),
        partial(functional.cross_entropy, ignore_index=0),
    ),
    "GPT": Network(Gpt, "adamw", (_integers(128, 8, 64),), None),
    "mixture of experts": Network(Mixture, "adamw", (image(16, 32, 48), labels(16))),
    "PointNet": Network(PointNet, "adam", (image(16, 3, 128), labels(16))),
    "graph network": Network(Graph, "adam", (image(400, 16), _integers(400, 2, 2000), labels(400))),
    "recommender": Network(Recommender, "adagrad", (image(128, 13), _integers(200, 128, 3, 4), _whether(128)), _binary),
}
