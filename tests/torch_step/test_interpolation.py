# SPDX-License-Identifier: Apache-2.0

"""Interpolation as products with matrices, and its gradients, against torch's own kernels."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from poolgrad_lowering.torch import export_forward, export_training_step
from poolgrad_lowering.torch.operators.interpolation import INTERPOLATIONS

SIZES = (7, 5, 6)
COUNTS = {
    "more": ((9, 13, 8), None),
    "fewer": ((3, 2, 5), None),
    "one": ((1, 1, 1), None),
    "as many": (SIZES, None),
    "a factor": (None, 1.7),
    "a factor that leaves some sizes": (None, 1.17),
    "a factor that leaves all sizes": (None, 1.05),
    "a factor below 1": (None, 0.6),
    "a whole factor": (None, 3.0),
}


def axes_of(operator: Any) -> int:
    return next(int(letter) for letter in str(operator) if letter.isdigit())


CASES = [
    (operator, count, align_corners)
    for operator, count in itertools.product(INTERPOLATIONS, COUNTS)
    for align_corners in ([] if "nearest" in str(operator) else [False], [True])[: 2 - ("nearest" in str(operator))]
]


@pytest.mark.parametrize(("operator", "count", "align_corners"), CASES, ids=str)
def test_as_torch_computes_them(operator: Any, count: str, align_corners: list[bool]) -> None:
    axes, (counts, factor) = axes_of(operator), COUNTS[count]
    x = torch.randn(2, 3, *SIZES[:axes], dtype=torch.float64, requires_grad=True)
    arguments = (counts and list(counts[:axes]), *align_corners, factor and [factor] * axes)
    expected, found = operator(x, *arguments), INTERPOLATIONS[operator](x, *arguments)
    dy = torch.randn_like(expected)
    results = [(value, *torch.autograd.grad(value, x, dy)) for value in (found, expected)]
    for one, other in zip(*results, strict=True):
        # Sums of at most 13³ products of order 1 in float64, in another order.
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_the_nearest_element_of_a_tie(axes: int) -> None:
    """PyTorch's gradients, and its results along two axes, round such a position another way."""
    operator = getattr(torch.ops.aten, f"_upsample_nearest_exact{axes}d").vec
    x = torch.arange(2.0).reshape(1, 1, *[1] * (axes - 1), 2).requires_grad_()
    arguments = ([1] * (axes - 1) + [41], None)
    expected, found = operator(x, *arguments), INTERPOLATIONS[operator](x, *arguments)
    dy = torch.arange(41.0).reshape(expected.shape)
    results = [(value, *torch.autograd.grad(value, x, dy)) for value in (found, expected)]
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


class Resized(nn.Module):
    """A convolution before and after an interpolation."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.before, self.after = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1)
        self.settings = settings

    def forward(self, x: Any) -> Any:
        return self.after(functional.interpolate(self.before(x), **self.settings))


STEPS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "bilinear": ({"scale_factor": 2, "mode": "bilinear"}, {"MatMul": 4}),
    "corners": ({"size": (9, 9), "mode": "bilinear", "align_corners": True}, {"MatMul": 4}),
    "bicubic": ({"size": (9, 4), "mode": "bicubic"}, {"MatMul": 4}),
    "antialias": ({"size": (3, 4), "mode": "bilinear", "antialias": True}, {"MatMul": 4}),
    "nearest": ({"scale_factor": 3}, {"Resize": 1, "AveragePool": 1}),
    "nearest to any size": ({"size": (9, 4)}, {"MatMul": 4}),
    "along one axis": ({"size": (6, 11), "mode": "bilinear"}, {"MatMul": 2}),
}
OF_CONVOLUTIONS = 2
"""The products of the gradients of the two weights, which have 1 by 1 elements."""


def exported(dtype: Any = None, **settings: Any) -> Any:
    batch = (torch.randn(3, 3, 6, 8), torch.randn(()))
    precision = nullcontext() if dtype is None else torch.autocast("cpu", dtype)
    with precision:
        return export_training_step(Resized(**settings), lambda y, t: (y * y).mean() + t, batch, dynamic_batch=False)


@pytest.mark.parametrize("name", STEPS)
def test_steps(name: str) -> None:
    settings, written = STEPS[name]
    step = exported(**settings)
    operators = Counter(node.op_type for node in step.model.graph.node)
    operators["MatMul"] -= OF_CONVOLUTIONS
    kinds = ("MatMul", "Resize", "AveragePool", "GatherND", "ScatterElements")
    assert {kind: operators[kind] for kind in kinds if operators[kind]} == written
    step.check()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["bilinear", "nearest"])
def test_steps_in_16_bits(name: str, dtype: Any) -> None:
    exported(dtype, **STEPS[name][0]).check()


def test_a_symbolic_batch() -> None:
    batch = (torch.randn(3, 3, 6, 8), torch.randn(3))
    model = Resized(scale_factor=1.5, mode="bilinear")
    step = export_training_step(model, lambda y, t: (y.mean((1, 2, 3)) * t).sum(), batch, dynamic_batch=True)
    step.check()
    assert step.model.graph.input[-1].type.tensor_type.shape.dim[0].dim_param


@pytest.mark.parametrize("scales", [2, 1.5, (2.0, 1.05)])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
def test_symbolic_sizes(mode: str, scales: Any) -> None:
    step = export_training_step(
        Resized(scale_factor=scales, mode=mode),
        lambda y, t: (y * y).mean() + t,
        (torch.randn(2, 3, 6, 8), torch.randn(())),
        dynamic_shapes={"x": {2: "height"}},
    )
    step.check()
    others = (torch.randn(2, 3, height, 8).numpy() for height in (5, 10))
    for other in others:
        replace(step, examples={**step.examples, "x": other}).check()


@pytest.mark.parametrize(("mode", "scale"), [("nearest", 1.05), ("nearest", 2.05), ("bilinear", 1.05)])
def test_factors_that_leave_or_double_a_size(mode: str, scale: float) -> None:
    """PyTorch then takes the elements, whatever the factor is."""
    exported(mode=mode, scale_factor=scale).check()


def test_the_operators_are_torchs_again_after_an_export() -> None:
    kernels = {operator: dict(operator.py_kernels) for operator in INTERPOLATIONS}
    exported(scale_factor=2)
    assert {operator: operator.py_kernels for operator in INTERPOLATIONS} == kernels


def test_integers_stay_torchs() -> None:
    x = torch.ones(1, 1, 4, 4, dtype=torch.uint8)
    operator = torch.ops.aten.upsample_nearest2d.vec
    assert INTERPOLATIONS[operator](x, [8, 8], None) is NotImplemented


def test_forward() -> None:
    forward = export_forward(nn.Upsample(scale_factor=2, mode="bilinear"), (torch.randn(1, 2, 4, 4),))
    assert [node.op_type for node in forward.model.graph.node] == ["MatMul", "MatMul"]


def test_a_gradient_of_a_gradient() -> None:
    class Slopes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(2, 2, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.layer(x)
            y = functional.interpolate(functional.adaptive_avg_pool2d(x.sin(), (4, 3)), scale_factor=2, mode="bicubic")
            (found,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
            return (found**2).mean()

    step = export_training_step(Slopes(), None, (torch.randn(2, 2, 9, 10),))
    step.check()
