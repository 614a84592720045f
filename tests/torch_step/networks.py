# SPDX-License-Identifier: Apache-2.0

"""Networks whose training steps are exported: their inputs, targets and losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from poolgrad_lowering.torch import TrainingStep, export_training_step
from tests.torch_step.architectures import (
    Attention,
    Drawn,
    LanguageModel,
    Normalized,
    Pyramid,
    Sentences,
    TextCNN,
    Tokens,
    UNet,
    Unpooled,
    densenet,
    dropped,
    inception,
    lenet,
    mobilenet_v2,
    recognizer,
    resnet_18,
    vgg_11,
    vgg_bn,
    video,
)
from tests.torch_step.losses import labelled_loss, next_token_loss, transcript_loss


def image(*sizes: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(sizes)


def labels(count: int, *sizes: int) -> Callable[[], Tensor]:
    return lambda: torch.randint(5, (count, *sizes))


@dataclass(frozen=True)
class Network:
    """A network, its input and target, and the numbers of its max pools and of its average pools with windows.

    `unpooled` are the places of maxima that are read over sizes that are not known; `shapes` those sizes of its step.
    """

    build: Callable[[], nn.Module]
    x: Callable[[], Tensor]
    target: Callable[[], Tensor]
    pools: int
    averages: int = 0
    unpooled: int = 0
    shapes: Mapping[str, Any] | None = None
    loss: Callable[[Tensor, Tensor], Tensor] = field(default_factory=nn.CrossEntropyLoss)

    def make(self) -> tuple[nn.Module, Callable[[Tensor, Tensor], Tensor], tuple[Tensor, Tensor]]:
        """Return model, loss and example inputs, the same in every call."""
        torch.manual_seed(7)
        model, x, target = self.build(), self.x(), self.target()
        with torch.no_grad():
            model.eval()(x)  # lazy layers get their sizes
        return model.train(), self.loss, (x, target)

    def export(self, **options: Any) -> TrainingStep:
        """Return the step of the network."""
        return export_training_step(*self.make(), dynamic_shapes=self.shapes, **options)


_BATCH = {"x": {0: "batch"}, "target": {0: "batch"}}

NETWORKS = {
    "resnet_18": Network(resnet_18, image(4, 3, 64, 64), labels(4), 1),
    "vgg_11": Network(vgg_11, image(4, 3, 32, 32), labels(4), 5),
    "mobilenet_v2": Network(mobilenet_v2, image(4, 3, 48, 48), labels(4), 1),
    "unet": Network(lambda: UNet(2, (8, 16, 32), 5), image(2, 1, 24, 24), labels(2, 24, 24), 2),
    "unet_3d": Network(lambda: UNet(3, (4, 8, 16), 5), image(2, 1, 8, 8, 12), labels(2, 8, 8, 12), 2),
    "lenet": Network(lenet, image(4, 1, 16, 16), labels(4), 2),
    "vgg_bn": Network(vgg_bn, image(4, 3, 16, 16), labels(4), 3),
    "inception": Network(inception, image(4, 3, 32, 32), labels(4), 4, averages=3),
    "densenet": Network(densenet, image(4, 3, 32, 32), labels(4), 1, averages=1),
    "video": Network(video, image(2, 1, 6, 12, 12), labels(2), 2, averages=1),
    "attention": Network(Attention, image(4, 3, 16, 16), labels(4), 2),
    "dropped": Network(dropped, image(4, 3, 8, 8), labels(4), 1),
    "text_cnn": Network(TextCNN, lambda: torch.randint(30, (4, 12)), labels(4), 3),
    "normalized": Network(Normalized, image(4, 3, 16), labels(4), 1),
    "drawn": Network(Drawn, image(4, 3, 8, 8), labels(4), 1),
    "unpooled": Network(Unpooled, image(2, 3, 8, 8), labels(2, 8, 8), 2),
    "pyramid": Network(Pyramid, image(2, 3, 10, 10), labels(2), 4),
    "tokens": Network(Tokens, image(4, 3, 16, 16), labels(4), 0, shapes=_BATCH),
    "unet_of_labels": Network(
        lambda: UNet(2, (8, 16), 5), image(2, 1, 16, 16), labels(2, 16, 16), 1, loss=labelled_loss
    ),
    "recognizer": Network(recognizer, image(4, 3, 16), labels(4, 4), 1, loss=transcript_loss),
    "unet_of_any_batch": Network(lambda: UNet(2, (4, 8), 5), image(2, 1, 8, 8), labels(2, 8, 8), 1, shapes=_BATCH),
    "unet_of_any_size": Network(
        lambda: UNet(2, (4, 8), 5),
        image(2, 1, 8, 12),
        labels(2, 8, 12),
        1,
        shapes={"x": {0: "batch", 2: "2*height", 3: "2*width"}, "target": {0: "batch", 1: "2*height", 2: "2*width"}},
    ),
    "unpooled_of_any_size": Network(
        Unpooled,
        image(2, 3, 8, 12),
        labels(2, 8, 12),
        1,
        unpooled=1,
        shapes={"x": {0: "batch", 2: "2*height", 3: "2*width"}, "target": {0: "batch", 1: "2*height", 2: "2*width"}},
    ),
    "text_of_any_length": Network(
        Sentences,
        lambda: torch.randint(30, (4, 12)),
        labels(4),
        1,
        shapes={"words": {0: "batch", 1: "2*length"}, "target": {0: "batch"}},
    ),
    "language_model_of_any_size": Network(
        LanguageModel,
        lambda: torch.randint(5, (4, 12)),
        labels(4, 12),
        0,
        shapes={name: {0: "batch", 1: Dim("length", min=2, max=16)} for name in ("words", "target")},
        loss=next_token_loss,
    ),
}
