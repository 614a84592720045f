# SPDX-License-Identifier: Apache-2.0

"""The gradients of convolutions, in every spelling, against torch's own."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx.reference
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from poolgrad_lowering import export_atc
from poolgrad_lowering.model.convolution_gradients import ConvolutionWindows, Spelling, moved_axes, spelling
from poolgrad_lowering.model.windows import AxisWindow
from poolgrad_lowering.torch import export_training_step
from poolgrad_lowering.torch.exporter import translated
from poolgrad_lowering.torch.operators.convolution import convolution, convolution_backward
from tests.torch_step.symbolic_steps import check_for

aten = torch.ops.aten

WRITTEN = ("by_shape", "matmul", "convolution")


@dataclass(frozen=True)
class Convolution:
    sizes: tuple[int, ...]
    stride: int
    padding: int
    dilation: int
    groups: int
    transposed: bool
    channels: tuple[int, int]


CASES = [
    Convolution(sizes, *windows, *others)
    for sizes, windows, *others in itertools.product(
        ((5,), (6, 5), (2, 1, 3)),
        ((1, 0, 1), (1, 1, 2), (3, 1, 1), (3, 0, 2)),
        (1, 4),
        (False, True),
        ((4, 4), (8, 4), (64, 68)),
    )
]
CASES += [  # so few rows that one product is written
    Convolution(sizes, 1, 1, 1, groups, transposed, channels)
    for sizes, groups, transposed, channels in itertools.product(
        ((-2,), (-2, -2), (-2, -2, -1)), (1, 4), (False, True), ((64, 512), (512, 64))
    )
]


def operands(case: Convolution) -> tuple[Any, Any, Any, tuple[Any, ...]]:
    """dy, x and weight in float64, in which both sides agree to the last digits."""
    axes = len(case.sizes)
    kernel = (3, 2, 1)[:axes] if axes > 1 else (3,)
    before, after = case.channels
    x = torch.randn(3, before, *[size + 4 for size in case.sizes], dtype=torch.float64)
    shape = (before, after // case.groups) if case.transposed else (after, before // case.groups)
    weight = torch.randn(*shape, *kernel, dtype=torch.float64)
    settings = (
        [case.stride] * axes,
        [case.padding] * axes,
        [case.dilation] * axes,
        case.transposed,
        [case.stride - 1 if case.transposed else 0] * axes,
        case.groups,
    )
    y = aten.convolution(x, weight, None, *settings)
    return torch.randn_like(y), x, weight, settings


def assert_as_torch(dy: Any, x: Any, weight: Any, *others: Any) -> None:
    """Compare the operators, and the weight's gradient as it is written, in onnx's reference evaluator.

    The evaluator takes no ConvTranspose with groups, so it computes dx of one group alone.
    """
    tensors = {"dy": dy, "x": x, "weight": weight}
    expected = aten.convolution_backward(*tensors.values(), *others, [True, True, True])
    ways = [partial(convolution_backward, way) for way in WRITTEN]
    has_dx = others[-1] == 1

    def gradients(*given: Any) -> list[Any]:
        dx = [ways[0](*given, *others, [True, False, False])[0]] if has_dx else []
        return [way(*given, *others, [False, True, False])[1] for way in ways] + dx

    model = translated(gradients, tensors, [*WRITTEN, *(["dx"] if has_dx else [])], opset=18)
    feeds = {value.name: tensors[value.name].numpy() for value in model.graph.input}
    found = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    # Sums of at most 3·10³ products of order 1, in another order: 1e-16 · 3e3 · √3e3 at the very most.
    for name, value in zip([*WRITTEN, "dx"], found, strict=False):
        np.testing.assert_allclose(value, expected[name != "dx"], rtol=0, atol=2e-11)
    for one, exact in zip(ways[0](*tensors.values(), *others, [True, True, True]), expected, strict=True):
        torch.testing.assert_close(one, exact, rtol=0, atol=2e-11)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_torch_computes_them(case: Convolution) -> None:
    torch.manual_seed(0)
    dy, x, weight, settings = operands(case)
    assert_as_torch(dy, x, weight, [case.channels[1]], *settings)


# The axes: image, kernel, channels, results, groups, padding, dilation and output_padding.
MOVED: dict[tuple[int, ...], list[Any]] = {
    (0,): [
        ((9,), (3,), 12, 2, 1, 1, 1, 0),
        ((11, 12), (5, 5), 2, 3, 1, 1, 2, 1),
        ((8, 9), (5, 5), 4, 4, 4, 2, 1, 0),
        ((5, 6, 7), (3, 3, 3), 4, 4, 2, 1, 1, 0),
    ],
    (1,): [((8, 9), (3, 5), 6, 2, 1, 2, 1, 0), ((8, 9), (3, 5), 6, 2, 2, 2, 2, 1), ((8, 9), (1, 4), 6, 2, 1, 0, 1, 0)],
    (0, 1): [((18, 17), (3, 3), 32, 4, 1, 1, 1, 0), ((22, 21), (3, 3), 32, 4, 2, 1, 3, 2)],
    (1, 2): [((7, 6, 8), (1, 3, 3), 12, 2, 1, 0, 1, 0)],
}


@pytest.mark.parametrize(("moved", "case"), [(axes, case) for axes, cases in MOVED.items() for case in cases])
def test_the_outputs_move_in_place_of_the_image(moved: tuple[int, ...], case: tuple[Any, ...]) -> None:
    torch.manual_seed(0)
    sizes, kernel, channels, results, groups, padding, dilation, output_padding = case
    windows = [AxisWindow(size, 1, padding, padding, dilation) for size in kernel]
    counts = [window.output_size(size, ceil=False) for window, size in zip(windows, sizes, strict=True)]
    none = [0] * len(sizes)
    of = ConvolutionWindows(channels, results, groups, windows, list(sizes), counts, none, 3)
    assert moved_axes(of) == set(moved)
    assert spelling(of) is Spelling.COLUMNS
    image, weight = torch.randn(3, channels, *sizes), torch.randn(results, channels // groups, *kernel)
    settings = ([1] * len(sizes), [padding] * len(sizes), [dilation] * len(sizes))
    x, dy, weight = image.double(), torch.randn(3, results, *counts).double(), weight.double()
    assert_as_torch(dy, x, weight, [results], *settings, False, none, groups)
    longer = [output_padding] * len(sizes)
    given = torch.randn_like(aten.convolution(dy, weight, None, *settings, True, longer, groups))
    assert_as_torch(given, dy, weight, [channels], *settings, True, longer, groups)


@pytest.mark.parametrize("groups", [1, 2])
def test_output_padding_of_a_stride_and_more(groups: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4, 6, 5, dtype=torch.float64)
    weight = torch.randn(4, 6 // groups, 2, 3, dtype=torch.float64)
    settings = ([3, 2], [1, 2], [4, 4], True, [2, 3], groups)
    dy = torch.randn_like(aten.convolution(x, weight, None, *settings))
    assert_as_torch(dy, x, weight, [6], *settings)
    for bias in (None, torch.randn(6, dtype=torch.float64)):
        y = convolution(x, weight, bias, *settings)
        torch.testing.assert_close(y, aten.convolution(x, weight, bias, *settings), rtol=0, atol=2e-11)
    assert convolution(x, weight, None, *settings[:4], [2, 1], groups) is NotImplemented  # less than the strides


@pytest.mark.parametrize("written", WRITTEN)
def test_only_what_is_asked_for(written: str) -> None:
    dy, x, weight, settings = operands(Convolution((6, 5), 1, 1, 1, 1, False, (4, 8)))
    backward = partial(convolution_backward, written)
    for mask in itertools.product((False, True), repeat=3):
        assert [value is not None for value in backward(dy, x, weight, [8], *settings, list(mask))] == list(mask)


@pytest.mark.parametrize("kernel", [1, 3, (3, 1, 2)])
def test_strided_volumes_are_without_obstacles(kernel: Any) -> None:
    pytest.importorskip("onnxscript")
    model = torch.nn.Sequential(torch.nn.Conv3d(1, 3, 1), torch.nn.Conv3d(3, 4, kernel, (2, 3, 2), padding=0))
    x = torch.randn(2, 1, 6, 8, 8)
    step = export_training_step(model, torch.nn.functional.mse_loss, (x, torch.randn_like(model(x))))
    step.check()
    assert not export_atc(step.model).report.obstacles


WIDE = {
    "padding": torch.nn.Conv1d(2, 3, 7, padding=400, dilation=128),
    "padding and stride": torch.nn.Conv1d(2, 3, 3, padding=300, dilation=200, stride=2),
    "along one axis": torch.nn.Conv2d(2, 2, (1, 3), padding=(0, 300)),
    "padding that is cut off": torch.nn.ConvTranspose1d(2, 3, 7, padding=300, dilation=128),
    "that and a stride": torch.nn.ConvTranspose1d(2, 3, 7, 2, padding=300, dilation=128, output_padding=1),
}


@pytest.mark.parametrize("name", WIDE)
def test_wide_windows_are_without_obstacles(name: str) -> None:
    layer = WIDE[name]
    axes = layer.weight.ndim - 2
    model = torch.nn.Sequential((torch.nn.Conv1d, torch.nn.Conv2d)[axes - 1](2, 2, 1), layer)
    x = torch.randn(2, 2, *(3, 40)[-axes:])
    step = export_training_step(model, torch.nn.functional.mse_loss, (x, torch.randn_like(model(x))))
    step.check()
    assert not export_atc(step.model).report.obstacles


@pytest.mark.parametrize("bias", [False, True])
def test_a_step_with_output_padding_of_a_stride_and_more(bias: bool) -> None:
    """onnxruntime does not run such a ConvTranspose."""
    torch.manual_seed(0)
    layer = torch.nn.ConvTranspose2d(4, 6, 3, (3, 2), (1, 2), (2, 3), 2, bias, dilation=4)
    x = torch.randn(2, 4, 5, 6)
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 1), layer)
    export_training_step(model, torch.nn.functional.mse_loss, (x, torch.randn_like(model(x)))).check()


def test_a_step_without_padding_by_name() -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 4, (1, 3), 2, "valid"), torch.nn.Conv2d(4, 4, 3, groups=4, padding="valid")]
    model, x = torch.nn.Sequential(*layers), torch.randn(2, 3, 9, 8)
    export_training_step(model, torch.nn.functional.mse_loss, (x, torch.randn_like(model(x)))).check()


class Adapted(nn.Module):
    """The loss of a layer after a step of its own, as in meta-learning, whose gradient is a second one of the layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        weights = dict(self.layer.named_parameters())
        gradients = torch.autograd.grad(self.loss(weights, x), list(weights.values()), create_graph=True)
        return self.loss({name: weights[name] - 0.1 * each for name, each in zip(weights, gradients, strict=True)}, x)

    def loss(self, weights: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(self.layer, weights, (x,)).tanh().square().mean()


class AdaptedByTransform(Adapted):
    def forward(self, x: Tensor) -> Tensor:
        weights = dict(self.layer.named_parameters())
        gradients = torch.func.grad(self.loss)(weights, x)
        return self.loss({name: weights[name] - 0.1 * each for name, each in gradients.items()}, x)


@pytest.mark.parametrize("kind", [Adapted, AdaptedByTransform])
@pytest.mark.parametrize(
    ("layer", "sizes"),
    [
        (nn.Conv1d(3, 4, 3, padding=2, dilation=2), (3, 12)),
        (nn.Sequential(nn.Conv2d(4, 8, 3, groups=4), nn.Softplus(), nn.Conv2d(8, 2, 1, bias=False)), (4, 6, 6)),
        (nn.Conv3d(2, 4, 3, 2, 1), (2, 5, 5, 4)),
        (nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2), (4, 5, 6)),
        (nn.Sequential(nn.Conv2d(2, 2, 1), nn.Upsample(scale_factor=2, mode="bilinear")), (2, 4, 5)),
    ],
)
def test_second_gradients_of_a_batch_of_any_size(kind: type[Adapted], layer: nn.Module, sizes: tuple[int, ...]) -> None:
    step = export_training_step(kind(layer), None, (torch.randn(4, *sizes),), dynamic_batch=True)
    step.check()
    check_for(step, torch.randn(7, *sizes))
