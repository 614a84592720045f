# SPDX-License-Identifier: Apache-2.0

"""Operators in other operators, against torch's own."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from torch import nn  # noqa: E402

from poolgrad_lowering.torch import export_training_step  # noqa: E402
from poolgrad_lowering.torch.decompositions import decompositions  # noqa: E402

aten = torch.ops.aten
WRITTEN = decompositions("matmul")

AT = torch.tensor([[0, 2, 2], [-1, 0, 2]])
"""Positions that occur twice, and a negative one."""

INDICES: dict[str, list[Any]] = {
    "the first axis": [AT],
    "an inner axis": [None, AT],
    "two axes": [None, AT, AT[0]],
    "two axes apart": [AT, None, AT[1]],
    "all axes": [AT, AT - 1, AT[1], AT[0]],
}


@pytest.mark.parametrize("name", INDICES)
def test_values_are_added_at_indices(name: str) -> None:
    indices = INDICES[name]
    x = torch.randint(9, (4, 3, 3, 5))
    values = torch.randint(9, x[tuple(slice(None) if index is None else index for index in indices)].shape)
    for added in (values, values.flatten()[0], values[-1:]):
        for operator in (aten.index_put, aten._unsafe_index_put):
            found = WRITTEN[operator.default](x, indices, added, True)
            assert torch.equal(found, operator(x, indices, added, True))


def test_values_that_are_put_stay() -> None:
    index_put = WRITTEN[aten.index_put.default]
    assert index_put(torch.zeros(4), [AT], torch.ones(()), False) is NotImplemented
    assert index_put(torch.zeros(4, 3, 3), [torch.ones(4) > 0, AT], torch.ones(()), True) is NotImplemented


@pytest.mark.parametrize("pads", [(-1, 2), (-1, -2, 1, 0), (2, -1, -3, 0, -1, -1)])
def test_negative_pads(pads: tuple[int, ...]) -> None:
    x = torch.randn(3, 5, 7)
    pad = WRITTEN[aten.constant_pad_nd.default]
    assert torch.equal(pad(x, pads, 2.5), torch.nn.functional.pad(x, pads, value=2.5))
    assert pad(x, [1, 0], 2.5) is NotImplemented


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str) -> None:
    x = torch.linspace(-6, 6, 101, dtype=torch.float64)
    found = WRITTEN[aten.gelu.default](x, approximate=approximate)
    # Some roundings of float64 of numbers up to 6.
    torch.testing.assert_close(found, torch.nn.functional.gelu(x, approximate=approximate), rtol=0, atol=1e-14)


@pytest.mark.parametrize("sizes", [(7,), (1,), (5, 6), (2, 1), (3, 4, 5)])
def test_replication_pads(sizes: tuple[int, ...]) -> None:
    pads = [1, 2, 0, 1, 2, 0][: 2 * len(sizes)]
    x = torch.randint(9, (2, 3, *sizes)).double().requires_grad_()
    padded = torch.nn.functional.pad(x, pads, mode="replicate")
    gradient = torch.randint(9, padded.shape).double()
    (expected,) = torch.autograd.grad(padded, x, gradient)
    operator = getattr(aten, f"replication_pad{len(sizes)}d_backward").default
    assert torch.equal(WRITTEN[operator](gradient, x, pads), expected)


@pytest.mark.parametrize("axis", [0, 2])
def test_weight_norm(axis: int) -> None:
    v = torch.randn(4, 3, 5, dtype=torch.float64)
    g = torch.randn([size if at == axis else 1 for at, size in enumerate(v.shape)], dtype=torch.float64)
    forward, backward = aten._weight_norm_interface.default, aten._weight_norm_interface_backward.default
    weight, norms = torch._weight_norm_interface(v, g, axis)
    for one, other in zip(WRITTEN[forward](v, g, axis), (weight, norms), strict=True):
        assert torch.allclose(one, other, rtol=1e-12)  # some roundings of float64
    gradient = torch.randn_like(v)
    written = WRITTEN[backward](gradient, v, g, norms, axis)
    variables = [v.clone().requires_grad_(), g.clone().requires_grad_()]
    others = [at for at in range(3) if at != axis]
    direct = variables[1] * variables[0] / variables[0].norm(dim=others, keepdim=True)
    for one, other in zip(written, torch.autograd.grad(direct, variables, gradient), strict=True):
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-12)  # as above


LAYERS = {
    "weight_norm": lambda: nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 4, 3, padding=1)),
    "older weight_norm": lambda: nn.utils.weight_norm(nn.Conv2d(4, 4, 3, padding=1)),
    "replication pad": lambda: nn.ReplicationPad2d((1, 0, 2, 1)),
    "nearest upsampling": lambda: nn.Upsample(scale_factor=2),
    "bilinear upsampling": lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm")
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2), LAYERS[name](), nn.Flatten(), nn.LazyLinear(2)
    model = nn.Sequential(*layers)
    x = torch.randn(2, 3, 8, 8)
    model(x)
    step = export_training_step(model, nn.functional.cross_entropy, (x, torch.tensor([0, 1])), optimizer="sgd")
    step.check(steps=2)
