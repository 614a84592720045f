# SPDX-License-Identifier: Apache-2.0

"""Operators in other operators, against torch's own."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from poolgrad_lowering.torch import TorchExportError, export_training_step
from poolgrad_lowering.torch.operators import elementary
from poolgrad_lowering.torch.operators.decompositions import decompositions
from poolgrad_lowering.torch.operators.elementary import copysign, erfcx, erfinv, expm1, lgamma, log1p
from poolgrad_lowering.torch.operators.elementwise import nanmedian
from poolgrad_lowering.torch.operators.random_numbers import _integers

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


def test_inverses_of_erf() -> None:
    x = torch.cat([torch.linspace(-1, 1, 201), 1 - 2.0 ** -torch.arange(3, 24), torch.tensor([1e-20, 1.5])])
    torch.testing.assert_close(erfinv(x), x.erfinv(), rtol=2e-6, atol=0, equal_nan=True)


def test_signs_of_other_numbers() -> None:
    x = torch.tensor([2.0, -3.0, 0.0, -0.0])
    for sign in (1, -1, 0.0, -0.0):
        found, wanted = copysign(x, torch.tensor(sign)), x.copysign(sign)
        assert torch.equal(found, wanted)
        assert torch.equal(found.signbit(), wanted.signbit())


@pytest.mark.parametrize("axis", [0, 1])
def test_medians_without_nan(axis: int) -> None:
    x = torch.tensor([[1, torch.nan, 3, 2], [torch.nan] * 4, [torch.inf, -1, torch.nan, -torch.inf]])
    for found, wanted in zip(nanmedian(x, axis), x.nanmedian(axis), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
    numbers = torch.arange(12).reshape(3, 4)
    assert torch.equal(nanmedian(numbers, axis)[0], numbers.nanmedian(axis)[0])


class InOrder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, 3, 1, 2, 3], [0, 0, 2, -1, 0]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values, places = torch.sort(self.weight * x, dim=1, descending=True, stable=True)
        quantized = torch.fake_quantize_per_tensor_affine(self.weight, 0.1, 0, -20, 25)
        return (values * places).sum() + quantized.square().sum()


def test_a_step_that_sorts_and_quantizes() -> None:
    export_training_step(InOrder(), None, (torch.ones(5),), optimizer="sgd").check(steps=2)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("ordered", [torch.tensor([-1.0, 0, 0, 2]), torch.arange(12.0).reshape(2, 1, 6) - 2])
def test_places_in_ordered_numbers(ordered: torch.Tensor, right: bool) -> None:
    x = torch.tensor([[[-3.0, 0, torch.nan]], [[2, 1.5, torch.inf]]])
    search = WRITTEN[aten.searchsorted.Tensor]
    sorter = ordered.flip(-1).argsort(-1)
    for out_int32 in (False, True):
        wanted = torch.searchsorted(ordered, x, right=right, out_int32=out_int32)
        for options in ({"right": right}, {"side": "right" if right else "left"}):
            torch.testing.assert_close(search(ordered, x, out_int32=out_int32, **options), wanted)
    torch.testing.assert_close(search(ordered.flip(-1), x, right=right, sorter=sorter), wanted.long())
    if ordered.ndim == 1:
        torch.testing.assert_close(WRITTEN[aten.bucketize.Tensor](x, ordered, right=right), wanted.long())


END = 2**63 - 1
"""What torch writes for the end of an axis."""


@pytest.mark.parametrize(
    "bounds",
    [
        (0, 2, 1),
        (4, END, 1),
        (-3, -1, 1),
        (0, END, 1),
        (-100, END, 1),
        (0, END, 2),
        (1, 6, 4),
        (6, END, 5),
        (1, END, 2**40),
        (3, 3, 1),
    ],
)
@pytest.mark.parametrize("axis", [0, -2, 2])
def test_gradients_of_slices(bounds: tuple[int, int, int], axis: int) -> None:
    x = torch.randn(7, 7, 7)
    gradient = torch.randn(aten.slice(x, axis, *bounds).shape)
    found = WRITTEN[aten.slice_backward.default](gradient, x.shape, axis, *bounds)
    assert torch.equal(found, aten.slice_backward(gradient, x.shape, axis, *bounds))


@pytest.mark.parametrize("index", [0, 3, -1, -4])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gradients_of_elements_along_an_axis(index: int, axis: int) -> None:
    x = torch.randn(4, 4, 4)
    gradient = torch.randn(x.select(axis, index).shape)
    found = WRITTEN[aten.select_backward.default](gradient, x.shape, axis, index)
    assert torch.equal(found, aten.select_backward(gradient, x.shape, axis, index))


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


@pytest.mark.parametrize("pads", [(-1, 2), (-2, -1), (3, -5), (-6, 2), (3, -8), (-1, 2, 1, -1), (0, -3, -1, 1, 2, -1)])
def test_replication_pads_that_crop(pads: tuple[int, ...]) -> None:
    axes = len(pads) // 2
    x = torch.randint(9, (2, 3, *(6, 5, 7)[:axes])).double().requires_grad_()
    padded = functional.pad(x, pads, mode="replicate")
    gradient = torch.randint(9, padded.shape).double()
    (expected,) = torch.autograd.grad(padded, x, gradient)
    forward = WRITTEN[getattr(aten, f"replication_pad{axes}d").default]
    assert torch.equal(forward(x, pads), padded)
    backward = WRITTEN[getattr(aten, f"replication_pad{axes}d_backward").default]
    assert torch.equal(backward(gradient, x, pads), expected)


@pytest.mark.parametrize("reduce", ["mean", "sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_reductions_that_are_scattered(reduce: str, dtype: torch.dtype) -> None:
    x, values = (10 * torch.randn(4, 3)).to(dtype), (10 * torch.randn(3, 2)).to(dtype)
    if dtype.is_floating_point:
        values[:, 0] = -torch.inf if reduce == "amax" else torch.inf
    index = torch.tensor([[0, 2], [0, 1], [0, 2]])
    scatter = WRITTEN[aten.scatter_reduce.two]
    for axis, include_self in product((0, 1), (True, False)):
        found = scatter(x, axis, index, values, reduce, include_self=include_self)
        if include_self and reduce != "mean":
            assert found is NotImplemented
            continue
        expected = torch.scatter_reduce(x, axis, index, values, reduce, include_self=include_self)
        # Roundings of sums of at most four numbers in float64.
        torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)


TINY = torch.tensor([-80, -30, -1e-5, -1e-9, 0, 1e-30, 1e-9, 3e-8, 1e-4, 0.3, 5, 80])


@pytest.mark.parametrize("function", [log1p, expm1])
def test_digits_of_small_results(function: Any) -> None:
    x = torch.cat([TINY, torch.tensor([torch.inf, torch.nan])])
    x = torch.where(x < -1, -0.9999, x) if function is log1p else x
    expected = getattr(torch, function.__name__)(x.double())
    # Some roundings of float32, of every element by itself.
    torch.testing.assert_close(function(x).double(), expected, rtol=8 * 2.0**-24, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ["lgamma", "digamma", "polygamma"])
def test_the_gamma_function(name: str) -> None:
    """They are as near to the values of float64 as a rounding of x, or of the largest term, which is below 8 here."""
    order = [1] if name == "polygamma" else []
    own, of_torch = (partial(getattr(holder, name), *order) for holder in (elementary, torch))
    x = torch.cat(
        [torch.rand(3000) * 6 + 1e-6, torch.tensor([1e-6, 0.5, 1.0, 2.0, 30.0, 1e4]), -3 + 0.9 * torch.rand(99)]
    )
    exact, moved = of_torch(x.double()), of_torch(x.double() * (1 + 2.0**-22))
    assert ((own(x) - exact).abs() <= (moved - exact).abs() + 2.0**-21 * (exact.abs() + 4)).all()
    assert torch.isposinf(lgamma(torch.zeros(1)))


def test_erfcx() -> None:
    x = torch.cat([torch.linspace(-8, 30, 97), torch.tensor([1e4, 1e30, torch.inf, torch.nan])])
    # The fit, and roundings of exponents up to 64, which are of 2 ** -18.
    torch.testing.assert_close(
        erfcx(x).double(), torch.special.erfcx(x.double()), rtol=2.0**-17, atol=0, equal_nan=True
    )


def test_limits_of_small_results() -> None:
    infinite = torch.tensor(-torch.inf)
    assert log1p(torch.tensor(-1.0)) == infinite
    assert expm1(infinite) == -1
    assert torch.equal(log1p(torch.tensor([0, 3])), torch.log1p(torch.tensor([0, 3])))


SMALL: dict[str, tuple[Any, Any]] = {
    "softplus": (functional.softplus, [-28.0, -30, -40]),
    "log_ndtr": (torch.special.log_ndtr, [-3.0, -10, -13]),
    "mish": (functional.mish, [-9.0, -28, -30]),
    "soft_margin_loss": (lambda x: functional.soft_margin_loss(x, torch.ones(3), reduction="none"), [28.0, 30, 40]),
    "log_sigmoid": (functional.logsigmoid, [28.0, 30, 40]),
    "gamma functions": (lambda x: torch.lgamma(x) + torch.digamma(x) + torch.digamma(-x), [0.3, 2.5, 7.25]),
    "expm1 and log1p": (lambda x: torch.expm1(x) + torch.log1p(x), [1e-9, -3e-8, 2e-10]),
    "binary_cross_entropy": (
        lambda x: functional.binary_cross_entropy_with_logits(x, torch.ones(3), reduction="none"),
        [28.0, 30, 40],
    ),
}
"""Results that are far below 1, which a sum with 1 loses."""

OF_SCALARS: dict[str, Any] = {
    "all and any": lambda x: x * torch.all(x > 0, 0) + x * torch.any(x > 1, (-1,), keepdim=True),
    "amax": lambda x: torch.amax(x, 0),
    "amax over all axes": lambda x: torch.amax(x) + torch.amax(x.expand(2, 3)),
    "amin": lambda x: torch.amin(x, -1, keepdim=True),
    "flip": lambda x: torch.flip(x, (0,)),
    "logsumexp": lambda x: torch.logsumexp(x, 0),
    "max": lambda x: torch.max(x, 0)[0],
    "min": lambda x: torch.min(x, -1, keepdim=True)[0],
    "norm": lambda x: torch.norm(x, 2, 0),
    "permute": lambda x: x.permute(()) + torch.permute_copy(x * 2, ()),
    "prod": lambda x: torch.prod(x, 0),
    "median and kthvalue": lambda x: torch.median(x, 0)[0] + torch.kthvalue(x, 1, 0)[0] + torch.cummax(x, 0)[0],
    "sort and topk": lambda x: torch.sort(x, 0)[0] + torch.topk(x, 1, 0)[0],
    "scatter and gather": lambda x: torch.gather(torch.scatter(x, 0, torch.tensor(0), 2 * x), 0, torch.tensor(0)),
    "scattered mean": lambda x: torch.scatter_reduce(x, 0, torch.tensor(0), 2 * x, "mean"),
    "squeeze": lambda x: torch.squeeze(x, 0),
    "variance": lambda x: torch.var(x, 0, correction=0) + x,
}
"""Operators along an axis of a scalar, which ONNX has not."""


class Function(nn.Module):
    def __init__(self, function: Any, x: Any) -> None:
        super().__init__()
        self.function, self.x = function, nn.Parameter(torch.tensor(x))

    def forward(self, one: Any) -> Any:
        return self.function(self.x * one)


@pytest.mark.parametrize("order", [0, 1, 2, 2.5, -1, torch.inf, -torch.inf])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_norms_over_all_axes_that_stay(shape: tuple[int, ...], order: float) -> None:
    x, one = torch.rand(shape) + 0.5, torch.tensor(1.0)

    def norm(y: Any) -> Any:
        return y * torch.linalg.vector_norm(y, order, keepdim=True)

    export_training_step(Function(norm, x.tolist()), lambda y, target: (y * target).sum(), (one, one)).check()


@pytest.mark.parametrize("count", [1, 3, 1000, 2**24])
def test_random_integers(count: int) -> None:
    """Each uniform number of float32 gives one of the integers, the first and the last ones too."""
    spaced = torch.arange(0, 2**24, 2**24 // 1000).double() / 2**24
    uniform = torch.cat([spaced, torch.tensor([1 - 2.0**-24, 1])]).float()
    expected = (uniform.double() * count).floor().clamp(max=count - 1).long() - 5
    assert torch.equal(_integers(uniform, -5, count - 5), expected)


def test_random_integers_that_are_too_many() -> None:
    one = torch.tensor(1.0)
    with pytest.raises(TorchExportError, match=r"draws random integers, one of 16777217: a step draws"):
        export_training_step(
            Function(lambda x: x * torch.randint(2**24 + 1, ()), 0.7), lambda y, t: (y * t).sum(), (one, one)
        )


def test_what_does_nothing_to_a_tensor() -> None:
    """A step has no node for it where torch's exporter finds no translation."""
    one = torch.tensor(1.0)
    function = Function(lambda x: torch.block_diag(x, x * 2), [0.3, 0.7, 2.0])
    export_training_step(function, lambda y, target: (y * y * target).sum(), (one, one)).check()


@pytest.mark.parametrize("name", [*SMALL, *OF_SCALARS])
def test_functions(name: str) -> None:
    function, x = SMALL[name] if name in SMALL else (OF_SCALARS[name], 0.7)
    one = torch.tensor(1.0)
    export_training_step(Function(function, x), lambda y, target: (y * target).sum(), (one, one)).check()


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


class OfTwo(nn.Module):
    """A layer of two tensors, of which both are computed."""

    def __init__(self, layer: Any, second: Any) -> None:
        super().__init__()
        self.first, self.layer, self.second = nn.Linear(4, 4), layer, second

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        return self.layer(y, *self.second(y))


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(lambda: OfTwo(nn.Bilinear(4, 4, 3), lambda y: [y.tanh()]), id="bilinear"),
        pytest.param(
            lambda: OfTwo(
                nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, 0.0, batch_first=True), 1),
                lambda y: [y, nn.Transformer.generate_square_subsequent_mask(5)],
            ),
            id="a decoder with the causal mask",
        ),
    ],
)
def test_layers_of_two_tensors(model: Any) -> None:
    """torch has a bilinear form as one operator, and asks whether the numbers of a mask are those of the causal one."""
    torch.manual_seed(0)
    batch = torch.randn(2, 5, 4), torch.zeros(2, 5, 1)
    step = export_training_step(model(), lambda y, target: (y - target).pow(2).mean(), batch, optimizer="sgd")
    step.check(steps=2)


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (torch.linalg.eigvalsh, r"aten\._linalg_eigh\.default"),
        (torch.linalg.svdvals, r"aten\._linalg_svd\.default"),
        (lambda x: torch.linalg.qr(x)[1], r"aten\.linalg_qr\.default"),
    ],
)
def test_operators_that_torch_does_not_translate_are_named(function: Any, operator: str) -> None:
    one = torch.tensor(1.0)
    with pytest.raises(TorchExportError, match=f"no translation to ONNX of the operator {operator}"):
        export_training_step(Function(function, [[2.0, 1], [1, 3]]), lambda y, t: (y * t).sum(), (one, one))


@pytest.mark.parametrize(
    "pads", [(1, 2), (-1, 3), (2, 2, 0, 4), (-2, 3, 1, -1), (1, 2, 0, 3, 4, 1), (0, -3, -1, 1, 2, -1)]
)
def test_reflection_pads(pads: tuple[int, ...]) -> None:
    axes = len(pads) // 2
    x = torch.randint(9, (2, 3, *(6, 5, 7)[:axes])).double().requires_grad_()
    padded = functional.pad(x, pads, mode="reflect")
    gradient = torch.randint(9, padded.shape).double()
    (expected,) = torch.autograd.grad(padded, x, gradient)
    forward = WRITTEN[getattr(aten, f"reflection_pad{axes}d").default]
    found = forward(x, pads)
    assert torch.equal(found, padded) if min(pads) < 0 else found is NotImplemented
    backward = WRITTEN[getattr(aten, f"reflection_pad{axes}d_backward").default]
    assert torch.equal(backward(gradient, x, pads), expected)


def test_a_step_with_reflections() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReflectionPad2d((1, 2, 3, 0)), nn.Conv2d(4, 2, 3))
    step = export_training_step(model, lambda y, t: (y * y).mean() + t, (torch.randn(2, 3, 6, 5), torch.zeros(())))
    modes = [a.s for node in step.model.graph.node for a in node.attribute if a.name == "mode"]
    assert modes.count(b"reflect") == 1
    assert all(node.op_type not in ("GatherND", "Where") for node in step.model.graph.node)
    step.check()


@pytest.mark.parametrize("name", ["clamp", "cumprod", "expm1", "lgamma", "log1p"])
def test_an_operator_in_place_follows_from_the_other(name: str) -> None:
    """It has the digits of small numbers too, and gives the tensor that it changes."""
    others = {"clamp": (0, 0.5), "cumprod": (0,)}.get(name, ())
    x = torch.tensor([1e-6, 0.25, 0.75])
    expected = WRITTEN[getattr(aten, name).default](x, *others)
    assert WRITTEN[getattr(aten, f"{name}_").default](x, *others) is x
    assert torch.equal(x, expected)


def test_a_sum_whose_axes_are_none() -> None:
    """torch writes None for all axes where it decomposes nansum."""
    model = nn.Linear(4, 3)
    example = torch.randn(2, 4), torch.ones(())
    export_training_step(model, lambda y, t: y.nansum() * t, example, optimizer="sgd").check()
