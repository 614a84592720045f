# SPDX-License-Identifier: Apache-2.0

"""Pools whose operators torch's exporter does not know, or translates wrongly, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from poolgrad_lowering import export_atc, lower, verify
from poolgrad_lowering.runtime import create_session
from poolgrad_lowering.torch import TorchExportError, export_forward, export_training_step
from poolgrad_lowering.torch.operators.pools import (
    adaptive_average_pool,
    adaptive_average_pool_backward,
    adaptive_max_pool,
    average_pool,
    average_pool_backward,
    max_pool_backward,
)

aten = torch.ops.aten
PLANES = {2: (9, 8), 3: (5, 6, 7)}
CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
INPUTS = {1: (9,), **PLANES}

AVERAGES: dict[str, tuple[Any, ...]] = {
    "tiling": (2, 2, 0, False, True, None),
    "overlapping": (3, 2, 1, False, True, None),
    "without the padding": (3, 2, 1, False, False, None),
    "rounded up": (3, 2, 1, True, True, None),
    "rounded up without the padding": (3, 2, 1, True, False, None),
    "gaps": (2, 3, 0, False, True, None),
    "its own divisor": (3, 2, 1, True, True, 5),
}
EXACT = ("tiling", "gaps")
"""Windows that do not overlap: nothing is summed."""


def drawn(*shape: int, dtype: Any = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def average_arguments(name: str, axes: int) -> tuple[Any, ...]:
    kernel, stride, padding, *others = AVERAGES[name]
    return ([kernel] * axes, [stride] * axes, [padding] * axes, *others)


def assert_close(found: Tensor, expected: Tensor, *, exactly: bool = False) -> None:
    """Sums of at most 27 products in another order; `exactly`: the same bits."""
    tolerance = 0.0 if exactly else 1e-6
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("batch", [(2, 3), (3,)])
@pytest.mark.parametrize("axes", PLANES)
@pytest.mark.parametrize("name", AVERAGES)
def test_average_pools(name: str, axes: int, batch: tuple[int, ...]) -> None:
    arguments = average_arguments(name, axes)
    forward, backward = {
        2: (aten.avg_pool2d, aten.avg_pool2d_backward),
        3: (aten.avg_pool3d, aten.avg_pool3d_backward),
    }[axes]
    x = drawn(*batch, *PLANES[axes])
    y = forward(x, *arguments)
    dy = drawn(*y.shape)
    assert_close(average_pool_backward(axes, dy, x, *arguments), backward(dy, x, *arguments), exactly=name in EXACT)
    if arguments[-1] is not None:
        assert_close(average_pool(axes, x, *arguments), y)


LARGE: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "all of a plane": (nn.AvgPool2d(17), (2, 3, 17, 17)),
    "with a rest": (nn.AvgPool2d((20, 15)), (2, 3, 43, 30)),
    "with a divisor": (nn.AvgPool2d(16, divisor_override=3), (2, 3, 32, 16)),
    "longer than a kernel": (nn.AvgPool1d(300), (2, 3, 650)),
    "adaptive": (nn.AdaptiveAvgPool2d((2, 1)), (2, 3, 40, 20)),
    "adaptive, three axes": (nn.AdaptiveAvgPool3d((1, 2, 1)), (2, 3, 8, 8, 16)),
    "gradient of an interpolation": (nn.Upsample((16, 17)), (2, 3, 1, 1)),
}


@pytest.mark.parametrize(("pool", "shape"), LARGE.values(), ids=LARGE)
def test_average_pools_over_the_limits_of_ascend(pool: nn.Module, shape: tuple[int, ...]) -> None:
    model = nn.Sequential(CONVOLUTIONS[len(shape) - 2](3, 3, 1), pool, nn.Flatten(), nn.LazyLinear(2))
    batch = drawn(*shape), drawn(2, 2)
    model(batch[0])
    step = export_training_step(model, nn.functional.mse_loss, batch)
    step.check()
    assert not export_atc(step.model).report.obstacles


@pytest.mark.parametrize("axes", PLANES)
@pytest.mark.parametrize("stride", [[2], []])
def test_average_pools_with_one_number_for_all_axes(stride: list[int], axes: int) -> None:
    x, others = drawn(2, 3, *PLANES[axes]), (True, True, 5)
    steps = [stride[0] if stride else 3] * axes
    y = {2: aten.avg_pool2d, 3: aten.avg_pool3d}[axes](x, [3] * axes, steps, [1] * axes, *others)
    dy = drawn(*y.shape)
    backward = {2: aten.avg_pool2d_backward, 3: aten.avg_pool3d_backward}[axes]
    expected = backward(dy, x, [3] * axes, steps, [1] * axes, *others)
    assert_close(average_pool_backward(axes, dy, x, [3], stride, [1], *others), expected)
    assert_close(average_pool(axes, x, [3], stride, [1], *others), y)


@pytest.mark.parametrize("counts", [(4, 3), (7, 5), (9, 3), (9, 4), (3, 4, 3), (5, 2, 7)])
def test_adaptive_average_pools(counts: tuple[int, ...]) -> None:
    axes = len(counts)
    forward, backward = {
        2: (aten._adaptive_avg_pool2d, aten._adaptive_avg_pool2d_backward),
        3: (aten._adaptive_avg_pool3d, aten._adaptive_avg_pool3d_backward),
    }[axes]
    x, dy = drawn(2, 3, *PLANES[axes]), drawn(2, 3, *counts)
    if counts != (9, 4):  # sizes that divide
        assert_close(adaptive_average_pool(axes, x, counts), forward(x, counts))
    else:
        assert adaptive_average_pool(axes, x, counts) is NotImplemented
    assert_close(adaptive_average_pool_backward(axes, dy, x), backward(dy, x))


@pytest.mark.parametrize("batch", [(2, 3), (3,)])
@pytest.mark.parametrize("counts", [(4, 3), (7, 5), (9, 3), (3, 4, 3), (5, 5, 7)])
def test_adaptive_max_pools(counts: tuple[int, ...], batch: tuple[int, ...]) -> None:
    """With ties, of which the first is taken."""
    axes = len(counts)
    forward, backward = {
        2: (aten.adaptive_max_pool2d, aten.adaptive_max_pool2d_backward),
        3: (aten.adaptive_max_pool3d, aten.adaptive_max_pool3d_backward),
    }[axes]
    x, dy = drawn(*batch, *PLANES[axes]).round(), drawn(*batch, *counts)
    y, indices = forward(x, counts)
    found, taken = adaptive_max_pool(axes, x, counts)
    assert_close(found, y, exactly=True)
    assert torch.equal(taken, indices)
    assert_close(max_pool_backward(axes, dy, x, indices), backward(dy, x, indices))


STEPS: dict[str, tuple[int, Callable[[], nn.Module]]] = {
    "average 1-D": (1, lambda: nn.AvgPool1d(3, 2, 1)),
    "average": (2, lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False)),
    "one number for all axes": (2, lambda: nn.AvgPool2d([3], [2], [1])),  # type: ignore[arg-type]
    "one number and its own divisor": (2, lambda: nn.AvgPool2d([3], divisor_override=5)),  # type: ignore[arg-type]
    "its own divisor": (2, lambda: nn.AvgPool2d(3, 2, divisor_override=5)),
    "average 3-D": (3, lambda: nn.AvgPool3d(3, 2, 1)),
    "power average": (2, lambda: nn.LPPool2d(2, 2)),
    "adaptive average": (2, lambda: nn.AdaptiveAvgPool2d((4, 3))),
    "adaptive average 3-D": (3, lambda: nn.AdaptiveAvgPool3d((3, 4, 3))),
    "adaptive 1-D": (1, lambda: nn.AdaptiveMaxPool1d(4)),
    "adaptive": (2, lambda: nn.AdaptiveMaxPool2d((4, 3))),
    "adaptive 3-D": (3, lambda: nn.AdaptiveMaxPool3d((3, 4, 3))),
}


def exported(name: str, **options: Any) -> Any:
    axes, pool = STEPS[name]
    torch.manual_seed(1)
    model, x = nn.Sequential(CONVOLUTIONS[axes](2, 3, 1), pool()), drawn(2, 2, *INPUTS[axes])
    target = drawn(*model(x).shape)
    return export_training_step(model, nn.functional.mse_loss, (x, target), **options)


@pytest.mark.parametrize("name", STEPS)
def test_steps(name: str) -> None:
    """The gradient of each pool lowers, and the power average's inside: it is that of an average of powers."""
    step = exported(name)
    step.check(tolerance=1e-5)
    lowered = lower(step.model)
    assert (len(lowered.report.lowered), len(lowered.report.anchors)) == (1, 1)
    assert verify(step.model, lowered.model).proven
    assert not export_atc(step.model).report.obstacles


@pytest.mark.parametrize("name", ["average", "adaptive average", "adaptive"])
def test_a_dynamic_batch(name: str) -> None:
    step = exported(name, dynamic_batch=True)
    step.check(tolerance=1e-5)
    lowered = lower(step.model)
    assert len(lowered.report.lowered) == (1 if "average" in name else 0)
    assert verify(step.model, lowered.model).proven


@pytest.mark.parametrize("name", ["adaptive 1-D", "adaptive", "adaptive 3-D"])
def test_a_dynamic_batch_of_sizes_that_do_not_divide_is_refused(name: str) -> None:
    report = lower(exported(name, dynamic_batch=True).model).report
    assert [anchor.code for anchor in report.anchors] == ["window-tables"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["average", "adaptive average", "adaptive"])
def test_mixed_precision(name: str, dtype: Any) -> None:
    with torch.autocast("cpu", dtype):
        step = exported(name)
    step.check()
    if "average" in name:
        lowered = lower(step.model)
        assert [anchor.status for anchor in lowered.report.anchors] == ["lowered"]
        assert verify(step.model, lowered.model).proven


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_adaptive_max_pools_lower_in_every_precision(dtype: Any) -> None:
    """10 elements in 3 windows, which are written by tables."""
    model = nn.Sequential(nn.Conv2d(2, 3, 1), nn.AdaptiveMaxPool2d(3), nn.Flatten())
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        step = export_training_step(model, nn.functional.mse_loss, (drawn(2, 2, 10, 10), drawn(2, 27)))
    assert len(lower(step.model).report.lowered) == 1
    step.check()


DROPPED: dict[str, tuple[Any, nn.Module]] = {
    "max 1-D": ((2,), nn.MaxPool1d(3, 3, 1, ceil_mode=True)),
    "max": ((2, 2), nn.MaxPool2d(3, 3, 1, ceil_mode=True)),
    "max, one axis": ((6, 5), nn.MaxPool2d(3, 3, 1, ceil_mode=True)),
    "max, gaps": ((6, 5), nn.MaxPool2d((2, 3), (3, 2), ceil_mode=True)),
    "max, dilated": ((5, 7), nn.MaxPool2d((3, 2), (3, 3), (1, 1), (1, 2), ceil_mode=True)),
    "max 3-D": ((3, 6, 5), nn.MaxPool3d(3, 3, 1, ceil_mode=True)),
    "average 1-D": ((2,), nn.AvgPool1d(3, 3, 1, ceil_mode=True)),
    "average": ((6, 5), nn.AvgPool2d(3, 3, 1, ceil_mode=True)),
    "average, all axes": ((5, 5), nn.AvgPool2d(3, 3, 1, ceil_mode=True)),
    "average without the padding": ((6, 5), nn.AvgPool2d(3, 3, 1, ceil_mode=True, count_include_pad=False)),
    "average with its own divisor": ((6, 5), nn.AvgPool2d(3, 3, 1, ceil_mode=True, divisor_override=5)),
    "average 3-D": ((3, 6, 5), nn.AvgPool3d(3, 3, 1, ceil_mode=True)),
}
"""Pools in `ceil_mode` whose last window along an axis starts behind the input: PyTorch has none there, and ONNX's
inference counts it. Along other axes there may be a last window that ends behind the input."""


@pytest.mark.parametrize("padding", [0, 1])
def test_the_divisors_of_last_averages_are_those_of_every_onnxruntime(padding: int) -> None:
    """1.24 counts elements behind the padding, if the padding counts and `ceil_mode` is on."""
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.AvgPool2d(3, 2, padding, ceil_mode=True))
    x = drawn(2, 1, 6, 8)
    step = export_training_step(model, nn.functional.mse_loss, (x, drawn(*model(x).shape)))
    (pool,) = [node for node in step.model.graph.node if node.op_type == "AveragePool"]
    held = {each.name: onnx.helper.get_attribute_value(each) for each in pool.attribute}
    assert not (held["ceil_mode"] and held["count_include_pad"])
    step.check(tolerance=1e-5)
    assert verify(step.model, lower(step.model).model).proven


@pytest.mark.parametrize("batch", [(2,), ()])
@pytest.mark.parametrize("name", DROPPED)
def test_a_last_window_behind_the_input(name: str, batch: tuple[int, ...]) -> None:
    sizes, pool = DROPPED[name]
    torch.manual_seed(1)
    model, x = nn.Sequential(CONVOLUTIONS[len(sizes)](2, 3, 1), pool), drawn(*batch, 2, *sizes)
    y = model(x).detach()
    step = export_training_step(model, nn.functional.mse_loss, (x, drawn(*y.shape)))
    step.check(tolerance=1e-5)
    lowered = lower(step.model)
    if "average" not in name:
        assert [anchor.status for anchor in lowered.report.anchors] == ["lowered"]
    assert verify(step.model, lowered.model).proven
    if "dilated" not in name:  # of which an export keeps the pool and its indices
        assert export_atc(step.model).report.converts
    forward = export_forward(model, (x,))
    session = onnxruntime.InferenceSession(forward.model.SerializeToString())
    (found,) = session.run(None, {**forward.values, **forward.examples})
    assert_close(torch.from_numpy(found), y)


class Unpooled(nn.Module):
    """Uses the indices of its pool."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(2, 3, 1)
        self.pool = nn.MaxPool2d(3, 3, 1, ceil_mode=True, return_indices=True)

    def forward(self, x: Tensor) -> Tensor:
        y, indices = self.pool(self.layer(x))
        return y * indices


def test_indices_with_a_last_window_behind_the_input() -> None:
    x = drawn(2, 2, 6, 5)
    export_training_step(Unpooled(), nn.functional.mse_loss, (x, drawn(2, 3, 3, 2))).check(tolerance=1e-5)


def test_windows_that_no_pool_of_onnx_has() -> None:
    """Dilated windows that end far behind the input along one axis, and gaps along the other."""
    pool = nn.MaxPool2d((4, 1), (4, 3), (2, 0), (2, 1), ceil_mode=True)
    with pytest.raises(TorchExportError, match="a max pool in ceil_mode"):
        export_forward(pool, (drawn(2, 3, 8, 6),))


@pytest.mark.parametrize("dynamic_batch", [False, True])
def test_more_windows_than_elements(dynamic_batch: bool) -> None:
    """No node is written that the provider does not run, or refuses in a Run once the batch is known."""
    step = export_training_step(
        nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d((7, 9))),
        lambda y, target: (y - target).pow(2).mean(),
        (drawn(4, 3, 4, 3), torch.zeros(4, 1, 1, 1)),
        dynamic_batch=dynamic_batch,
    )
    step.check()
    lowered = lower(step.model)
    assert [anchor.code for anchor in lowered.report.anchors] == ["more-windows"]
    with pytest.warns(RuntimeWarning, match="no node of the session"):
        session = create_session(lowered.model, backend="host")
    session.run(None, {**step.values, **step.examples})
