# SPDX-License-Identifier: Apache-2.0

"""The small networks that torch_joint.py exports, one row per property of pooling in a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from models.torch_decompositions import OVERWRITING, THREE_AXES, Decompositions


@dataclass(frozen=True)
class Net:
    """A network and the parameters of its export.

    `form` is the form in which the exporter writes the gradients of the pools (see README.md). `classes` is the size of
    the output's second axis under cross entropy. `refused` counts the nodes that resemble pool gradients and must not
    be lowered, by description.
    """

    remarks: str
    build: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    loss: Callable[[Tensor, Tensor], Tensor] = nn.functional.mse_loss
    classes: int = 5
    pools: int = 1
    form: str = "F4"
    opset: int = 18
    dtype: torch.dtype = torch.float32
    optimize: bool = True
    dynamic_batch: bool = False
    decompositions: Decompositions = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)


class Concatenated(nn.Module):
    """Concatenates the input and the outputs of several modules on it along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        """Return x and the outputs of all branches, concatenated along axis 1."""
        return torch.cat([x, *(branch(x) for branch in self.branches)], 1)


class MinPool(nn.Module):
    """Min pooling as the negative of max pooling."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the minimum over 3x3 windows, stride 2."""
        return -nn.functional.max_pool2d(-x, 3, 2, 1)


class Unbatched(nn.Module):
    """A pool of one image without batch axis."""

    def forward(self, x: Tensor) -> Tensor:
        """Pool x[0], of shape (C, H, W)."""
        return nn.functional.max_pool2d(x[0], 2)


class UnetLevel(nn.Module):
    """One level of a U-Net: pool, convolve, upsample, and join the skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.inner = nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return x and its upsampled lower level, concatenated along axis 1."""
        lower = self.inner(self.pool(x))
        return torch.cat([x, lower.repeat_interleave(2, 2).repeat_interleave(2, 3)], 1)


class Maximum(nn.Module):
    """The maximum over some axes, computed by a given function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Return the function's maximum of x."""
        return self.function(x)


def lenet() -> nn.Module:
    """Two convolutions, each followed by a 2x2 pool of stride 2, and two linear layers."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, 5),
    )  # fmt: skip


def stem(*pools: nn.Module, convolution: type[nn.Module] = nn.Conv2d) -> Callable[[], nn.Module]:
    """Return a builder of a convolution from 2 to 4 channels followed by pools.

    The builder shares the pools between its results, so they must have no weights.
    """
    return lambda: nn.Sequential(convolution(2, 4, 3, padding=1), nn.ReLU(), *pools)


_LENET = Net(
    "two tiling pools behind each other",
    lenet,
    (3, 1, 12, 12),
    loss=nn.functional.cross_entropy,
    pools=2,
)
_IMAGE = (2, 2, 11, 14)

NETS: dict[str, Net] = {
    "lenet": _LENET,
    "lenet_opset16": replace(_LENET, remarks="oldest opset with ScatterElements(add)", opset=16),
    "lenet_opset17": replace(_LENET, remarks="opset 17", opset=17),
    "lenet_opset21": replace(_LENET, remarks="opset 21", opset=21),
    "lenet_opset23": replace(_LENET, remarks="opset 23: MaxPool-22", opset=23),
    "lenet_unoptimised": replace(_LENET, remarks="shapes from Concat of constants, zeros from Expand", optimize=False),
    "lenet_dynamic_batch": replace(_LENET, remarks="symbolic batch, read from the labels", dynamic_batch=True),
    "lenet_dynamic_unoptimised": replace(
        _LENET, remarks="symbolic batch, shapes spelt out", dynamic_batch=True, optimize=False
    ),
    "lenet_float16": replace(_LENET, remarks="scatter in float32 between casts", dtype=torch.float16),
    "lenet_three_axes": replace(_LENET, remarks="scatter over (N, C, H*W), axis -1", decompositions=THREE_AXES),
    "resnet_stem": Net("overlapping windows, padding", stem(nn.MaxPool2d(3, 2, 1)), _IMAGE),
    "resnet_stem_float16": Net(
        "overlapping windows in float16", stem(nn.MaxPool2d(3, 2, 1)), _IMAGE, dtype=torch.float16
    ),
    "ceil": Net(
        "ceil_mode: last windows cut short, nested pools",
        stem(nn.MaxPool2d(3, 2, ceil_mode=True), nn.MaxPool2d(2, ceil_mode=True)),
        _IMAGE,
        pools=2,
    ),
    "dilated": Net("dilation 2", stem(nn.MaxPool2d(3, 2, 1, dilation=2)), _IMAGE),
    "rectangular": Net("other sizes per axis", stem(nn.MaxPool2d((3, 2), (2, 1), (1, 0))), _IMAGE),
    "gaps": Net("stride beyond the kernel", stem(nn.MaxPool2d(2, 3)), _IMAGE),
    "nested": Net(
        "pools directly behind each other: scatters feed scatters without Reshape",
        stem(nn.MaxPool2d(2), nn.MaxPool2d(2), nn.MaxPool2d(3, 1, 1)),
        (2, 2, 16, 12),
        pools=3,
    ),
    "spatial_pyramid": Net(
        "three pools of one tensor share the 1x1 companion pool",
        stem(Concatenated(nn.MaxPool2d(3, 1, 1), nn.MaxPool2d(5, 1, 2), nn.MaxPool2d(9, 1, 4))),
        _IMAGE,
        pools=3,
    ),
    "adaptive_divisible": Net(
        "AdaptiveMaxPool2d with sizes that divide: an ordinary pool",
        stem(nn.AdaptiveMaxPool2d((4, 3))),
        (2, 2, 12, 9),
    ),
    "min_pool": Net("the pool of the negated tensor", stem(MinPool()), _IMAGE),
    "unbatched": Net("(C, H, W): Unsqueeze and Squeeze around everything", stem(Unbatched()), (1, 2, 10, 12)),
    "unet_level": Net(
        "the pooled tensor has another reader", lambda: nn.Sequential(stem()(), UnetLevel()), (2, 2, 8, 12)
    ),
    "audio": Net(
        "1-D pools, exported as 2-D ones of height 1",
        stem(nn.MaxPool1d(4), nn.MaxPool1d(3, 2, 1), convolution=nn.Conv1d),
        (2, 2, 50),
        pools=2,
    ),
    "video": Net(
        "3-D pools, one overlapping",
        stem(nn.MaxPool3d((1, 2, 2)), nn.MaxPool3d(3, 2, 1), convolution=nn.Conv3d),
        (2, 2, 5, 8, 10),
        pools=2,
    ),
    "video_ceil": Net("3-D, ceil_mode", stem(nn.MaxPool3d(2, ceil_mode=True), convolution=nn.Conv3d), (2, 2, 5, 7, 6)),
    "float64": Net(
        "double precision, which no Ascend operator takes",
        lambda: nn.Sequential(nn.Linear(14, 14), nn.MaxPool2d(2)),
        _IMAGE,
        dtype=torch.float64,
        pools=0,
        refused={"float64": 1},
    ),
    "tiling_overwritten": Net(
        "scatter without addition, right because windows tile",
        stem(nn.MaxPool2d(2)),
        _IMAGE,
        decompositions=OVERWRITING,
        form="F7",
    ),
    "global": Net(
        "AdaptiveMaxPool2d(1): ReduceMax forward, ArgMax backward, no pool node",
        stem(nn.AdaptiveMaxPool2d(1)),
        _IMAGE,
        form="F5",
    ),
    "maximum_over_axis": Net(
        "torch.max over the width",
        stem(Maximum(lambda x: torch.max(x, 3).values)),
        _IMAGE,
        form="F8",
    ),
    "maximum_over_points": Net(
        "PointPillars: torch.max over the points of each pillar, axis 1 of 3",
        lambda: nn.Sequential(nn.Linear(7, 6), nn.ReLU(), Maximum(lambda x: torch.max(x, 1).values)),
        (4, 9, 7),
        form="F8",
        dynamic_batch=True,
    ),
    "maximum_over_channels": Net(
        "CBAM's spatial attention: torch.max over the channels, the axis kept",
        stem(Maximum(lambda x: torch.max(x, 1, keepdim=True).values)),
        _IMAGE,
        form="F8",
    ),
    "maxima_of_six_axes": Net(
        "torch.max over two axes of six, one after the other",
        lambda: nn.Sequential(nn.Linear(4, 3), Maximum(lambda x: torch.max(torch.max(x, 3).values, 3).values)),
        (2, 2, 3, 5, 4, 4),
        pools=2,
        form="F8",
    ),
    "maximum_shared_by_ties": Net(
        "torch.amax: the gradient is divided among tied maxima",
        stem(Maximum(lambda x: torch.amax(x, (2, 3)))),
        _IMAGE,
        pools=0,
        refused={"equality mask": 1},
    ),
}
