# SPDX-License-Identifier: Apache-2.0

"""Symbolic sizes: of any axis, right for other sizes, and refused where a graph would be right for some alone."""

from __future__ import annotations

import functools
import re
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from poolgrad_lowering import export_cann, lower, verify
from poolgrad_lowering.torch import TorchExportError, TrainingStep, export_forward, export_training_step
from poolgrad_lowering.torch.arguments import find_arguments
from poolgrad_lowering.torch.dynamic_shapes import Symbol, SymbolicSize
from tests.torch_step.networks import NETWORKS
from tests.torch_step.symbolic_steps import Function, assert_whole, check_for

X, LABELS = torch.randn(4, 3, 8, 12), torch.tensor([0, 1, 1, 0])


class Net(nn.Module):
    """A convolution, some other layer, and the means of planes."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 2, 3, padding=1), nn.ReLU(), *layers)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layers(x).mean((2, 3))
        return found


def export(*layers: nn.Module, **options: Any) -> TrainingStep:
    torch.manual_seed(3)
    return export_training_step(Net(*layers), nn.CrossEntropyLoss(), (X, LABELS), **options)


def sizes_of(step: TrainingStep, name: str) -> list[int | str]:
    [value] = [value for value in step.model.graph.input if value.name == name]
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


HEIGHT, WIDTH = Dim("height"), Dim("width")
SPELLINGS: dict[str, Any] = {
    "names": {"x": {2: "height", 3: "2*width"}},
    "dims": {"x": {2: HEIGHT, 3: 2 * WIDTH}, "target": None},
    "a size for each axis": {"x": (None, None, "height", "2*width")},
    "a tuple like the examples": ({2: "height", 3: "2 * width"}, None),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_of_the_same(spelling: str) -> None:
    arguments = find_arguments(Net(), (X, LABELS), has_target=True)
    sizes = {2: SymbolicSize(1, Symbol("height")), 3: SymbolicSize(2, Symbol("width"))}
    assert arguments.symbolic_sizes(SPELLINGS[spelling], dynamic_batch=False) == {"x": sizes}


def test_with_a_dynamic_batch() -> None:
    step = export(nn.MaxPool2d(2), dynamic_batch=True, dynamic_shapes={"x": {2: "2*height", 3: "2*width"}})
    assert (sizes_of(step, "x"), sizes_of(step, "target")) == (["batch", 3, "2*height", "2*width"], ["batch"])
    check_for(step, torch.randn(3, 3, 16, 4), LABELS[:3])
    assert len(lower(step.model).report.lowered) == 1


def test_equal_sizes_have_the_names_that_they_are_given() -> None:
    shapes = {"x": {0: "side", 2: "2*side", 3: "2*width"}, "target": ("side",)}
    step = export_training_step(Net(), nn.CrossEntropyLoss(), (torch.randn(4, 3, 8, 8), LABELS), dynamic_shapes=shapes)
    assert sizes_of(step, "x") == ["side", 3, "2*side", "2*width"]
    check_for(step, torch.randn(3, 3, 6, 10), LABELS[:3])


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, parts: list[Tensor], named: dict[str, Tensor]) -> Tensor:
        return self.scale * (parts[0].sum() + parts[1].sum() + named["a"].sum())


def test_inputs_within_others() -> None:
    examples = ([torch.ones(2, 5), torch.ones(3)], {"a": torch.ones(4)}, torch.ones(()))
    step = export_training_step(
        Nested(), lambda y, t: y * t, examples, dynamic_shapes={"parts": [{1: "n"}, None], "named": {"a": ("m",)}}
    )
    assert [sizes_of(step, name) for name in ("parts.0", "parts.1", "named.a")] == [[2, "n"], [3], ["m"]]


def test_a_forward_pass() -> None:
    net = Net(nn.MaxPool2d(2)).eval()
    forward = export_forward(net, (X,), dynamic_shapes={"x": {2: "2*height"}})
    [x] = [value for value in forward.model.graph.input if value.name == "x"]
    assert [dim.dim_param or dim.dim_value for dim in x.type.tensor_type.shape.dim] == [4, 3, "2*height", 12]


def test_a_pool_with_overlapping_windows_is_lowered() -> None:
    """torch computes the size of its gradient's planes from the number of windows, twice."""
    step = export(nn.MaxPool2d(3, 2, 1), nn.Conv2d(2, 4, 1), dynamic_shapes={"x": {2: "4*height", 3: "4*width"}})
    assert len(lower(step.model).report.lowered) == 1


OTHERS: dict[str, tuple[Tensor, Tensor]] = {
    "unet_of_any_size": (torch.randn(3, 1, 16, 4), torch.randint(5, (3, 16, 4))),
    "unpooled_of_any_size": (torch.randn(3, 3, 6, 10), torch.randint(5, (3, 6, 10))),
    "text_of_any_length": (torch.randint(30, (3, 22)), torch.randint(5, (3,))),
    "language_model_of_any_size": (torch.randint(5, (3, 16)), torch.randint(5, (3, 16))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_networks_of_other_sizes(name: str) -> None:
    """Their steps are right and whole on the NPU, and every pool is lowered."""
    network = NETWORKS[name]
    step = network.export(optimizer="sgd")
    check_for(step, *OTHERS[name])
    assert_whole(step)
    assert len(lower(step.model).report.lowered) == network.pools


WITH_ANY_SIZE: dict[str, nn.Module] = {
    "a root of a size": Function(lambda x: x * x.shape[2] ** -0.5),
    "a mean by its sizes": Function(lambda x: x - x.sum((2, 3), keepdim=True) / (x.shape[2] * x.shape[3])),
    "a layer norm": Function(lambda x: functional.layer_norm(x.permute(0, 2, 3, 1), (2,)).permute(0, 3, 1, 2)),
    "interpolation to its own size": Function(
        lambda x: functional.interpolate(functional.max_pool2d(x, 2), size=x.shape[2:], mode="bilinear")
    ),
    "an average pool": nn.AvgPool2d(3, 2, 1),
    "attention": Function(
        lambda x: functional.scaled_dot_product_attention(*[x.flatten(2).mT] * 3).mT.reshape(x.shape)
    ),
    "len": Function(lambda x: x / len(x[0, 0]) + x.new_ones(len(x), 1, 1, 1)),
    "parts": Function(lambda x: x[:, :1] + x[:, 1:] + functional.pad(x[:, :, 1:], (0, 0, 1, 0))),
    "repeats": Function(lambda x: x + torch.ones(2, 1, 1).repeat(1, 1, x.shape[2], 1)),
    "a view of repeats": Function(lambda x: x * torch.arange(1.0, 3).repeat(n := x.shape[2], 1).view(2 * n)[:n, None]),
    "a strided convolution": nn.Conv2d(2, 2, 3, 2, 1),
    "a transposed convolution": nn.ConvTranspose2d(2, 2, 3, 2, 1),
}


def test_layers() -> None:
    """All in one network, since each export takes seconds."""
    step = export(*WITH_ANY_SIZE.values(), optimizer="sgd", dynamic_shapes={"x": {2: "height", 3: Dim("width", min=4)}})
    assert sizes_of(step, "x") == [4, 3, "height", "width"]
    assert "Tile" not in {node.op_type for node in step.model.graph.node}  # CANN has to know its repeats
    step.check()
    check_for(step, torch.randn(4, 3, 13, 10), LABELS)


@functools.lru_cache
def ramp(size: int) -> Tensor:
    return torch.arange(size) + 0.5


def test_a_cache_by_sizes_is_refused() -> None:
    with pytest.raises(TorchExportError, match=r"functools\.lru_cache, in <lambda> \(test_dynamic_shapes\.py, line "):
        export(Function(lambda x: x * ramp(x.shape[3])), dynamic_shapes={"x": {3: "width"}})


CONDITIONS: dict[str, tuple[nn.Module, str]] = {
    "range": (
        Function(lambda x: sum(x / row for row in range(1, len(x[0, 0])))),
        r"height = 8, by what <lambda> \(test_dynamic_shapes\.py, line ",
    ),
    "a list": (
        Function(lambda x: torch.stack(list(x.movedim(2, 0)), 2)),
        r"height = 8, by what <lambda> .* a loop over a tensor do, or compares it; else ",
    ),
    "float": (Function(lambda x: x / float(x.shape[2])), "height = 8, by what <lambda>"),
    "a way": (Function(lambda x: x if x.shape[2] > 6 else 2 * x), "height > 6, by what <lambda>"),
    "the height of what a pool left, twice": (
        Function(lambda x: torch.cat([x, functional.interpolate(functional.max_pool2d(x, 2), scale_factor=2.0)], 1)),
        r"2\*\(\(height//2\)\) = height, by what <lambda>",
    ),
    "adaptive maxima": (Function(lambda x: functional.adaptive_max_pool2d(x, 3)), "height"),
    "a pool of whole planes": (
        Function(lambda x: functional.max_pool2d(x, x.shape[2:])),
        r"height = 8, by what <lambda> \(test_dynamic_shapes\.py, line ",
    ),
    "a transform": (
        Function(lambda x: torch.vmap(lambda number: functional.max_pool2d(number * x, 2))(torch.ones(2)).sum(0)),
        r"height = 8, by what <lambda> .*\. Within transforms of torch\.func, such as vmap, ",
    ),
}


def test_sizes_in_a_transform() -> None:
    layer = Function(lambda x: torch.vmap(lambda number: functional.interpolate(number * x, (4, 4)))(torch.ones(2))[0])
    said = r"an operator of PyTorch takes no symbolic size, in .*\. Within transforms of torch\.func"
    with pytest.raises(TorchExportError, match=said):
        export(layer, dynamic_batch=True)


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_graph_that_is_right_for_some_sizes_is_refused(name: str) -> None:
    layer, condition = CONDITIONS[name]
    with pytest.raises(TorchExportError, match=f"the graph would be right only for .*{condition}"):
        export(layer, dynamic_shapes={"x": {2: "height"}})


def test_a_batch_of_any_size_in_parts_with_moments_and_a_diagonal() -> None:
    """torch writes sequences for its parts, and no number for what its size divides. An example may have a gradient."""
    x = X.clone().requires_grad_()
    x.grad = torch.ones_like(x)

    def layer(y: Tensor) -> Tensor:
        first, second = y.chunk(2)
        begun, last = y.split([len(y) - 1, 1])
        y = torch.cat([first * 2, second]) + torch.cat([begun, last * 3]) + y.std(0)
        flat = y.flatten(1)
        products = (flat @ flat.mT).fill_diagonal_(0.5)
        return y + products.mean(1)[:, None, None, None]

    step = export_training_step(Net(Function(layer)), nn.CrossEntropyLoss(), (x, LABELS), dynamic_batch=True)
    step.check()
    check_for(step, torch.randn(5, 3, 8, 12), torch.tensor([0, 1, 1, 0, 1]))


def test_a_spatial_transformer_of_any_size() -> None:
    """torch makes numbers of the sizes of a grid, the batch among them."""

    def layer(x: Tensor) -> Tensor:
        matrices = x[:, :, :2, :3].sum(1) * 0.1 + torch.eye(2, 3)
        for corners in (False, True):
            grid = functional.affine_grid(matrices, list(x.shape), align_corners=corners)
            x = functional.grid_sample(x, grid, align_corners=corners)
        return x

    step = export(Function(layer), dynamic_batch=True, dynamic_shapes={"x": {2: "height"}})
    step.check()
    check_for(step, torch.randn(3, 3, 5, 12), LABELS[:3])
    step = export(Function(layer), dynamic_batch=True)
    assert not export_cann(step.model).report.obstacles
    check_for(step, torch.randn(3, 3, 8, 12), LABELS[:3])


@pytest.mark.parametrize("offset", [-1, 0, 2])
def test_diagonals_of_a_batch_are_no_obstacle(offset: int) -> None:
    """torch writes a mask, of which nothing tells the sizes where the batch is symbolic."""

    def layer(x: Tensor) -> Tensor:
        square, wide = x.flatten(2) @ x.flatten(2).mT, x[:, 0].transpose(1, 2)
        found = square.diagonal(0, 1, 2).mean(1) + wide.diagonal(offset, -1, 1).mean(1)
        return x + found[:, None, None, None]

    step = export(Function(layer), dynamic_batch=True)
    whole = export_cann(step.model)
    assert not whole.report.obstacles
    assert verify(step.model, whole.model, whole_model=False).proven
    assert "EyeLike" not in {node.op_type for node in step.model.graph.node}
    check_for(step, torch.randn(3, 3, 8, 12), LABELS[:3])


def test_a_contrastive_loss_of_a_batch_is_no_obstacle() -> None:
    """The diagonal is that of two symbolic axes; elements beside it may be infinities. Both views have one batch."""

    def loss(y: Tensor, _: Tensor) -> Tensor:
        pairs = y @ y.flip(1).mT
        views = torch.cat([y, 2 * y])
        both = (views @ views.mT).masked_fill(torch.eye(len(views), dtype=torch.bool), -torch.inf)
        places = (torch.arange(len(views)) + len(y)) % len(views)
        hidden = pairs.masked_fill(torch.eye(len(y)) == 0, torch.inf)
        found = torch.diag(pairs) - pairs.logsumexp(1) + hidden.diagonal() + (views @ views.mT).trace() / 99
        found = found + torch.diag(both, len(y)) - 2 * both.exp().diagonal(-len(y))
        halves = torch.cat([both.T.diagonal(len(y)), (views @ views.mT).diagonal()[len(y) :]])
        found = found + (halves / both.exp().sum(1))[: len(y)]
        return functional.cross_entropy(both, places) - found.mean()

    torch.manual_seed(3)
    step = export_training_step(Net(), loss, (X, LABELS), dynamic_batch=True)
    whole = export_cann(step.model)
    assert not whole.report.obstacles
    assert verify(step.model, whole.model, whole_model=False).proven
    step.check()
    check_for(step, torch.randn(3, 3, 8, 12), LABELS[:3])


@pytest.mark.parametrize("norm", [nn.InstanceNorm2d(4, affine=True), nn.BatchNorm2d(4), nn.BatchNorm2d(4).eval()])
def test_a_penalty_on_gradients_of_a_batch(norm: nn.Module) -> None:
    """torch makes numbers of the sizes that an instance norm, and a batch norm, has in its second gradient."""

    class Critic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), norm)

        def forward(self, x: Tensor) -> Tensor:
            x = x.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.layers(x).pow(2).mean((1, 2, 3)).sum(), x, create_graph=True)
            return (gradient.flatten(1).norm(dim=1) - 1).pow(2).mean()

    step = export_training_step(Critic(), None, (X,), dynamic_batch=True)
    step.check()
    check_for(step, torch.randn(3, 3, 8, 12))


def test_parts_of_any_size_that_are_written() -> None:
    """The gradient of a write to a part has the strides of the whole."""

    def layer(x: Tensor) -> Tensor:
        found = torch.zeros(x.shape)
        found[:, :, ::2], found[:, :, 1::2] = x[:, :, 1::2] * 2, x[:, :, ::2]
        return found

    step = export(Function(layer), dynamic_shapes={"x": {2: "2*height"}})
    step.check()
    check_for(step, torch.randn(4, 3, 6, 12), LABELS)


def test_a_pool_that_no_step_has_is_named() -> None:
    """torch would say that the batch is a number."""
    with pytest.raises(TorchExportError, match=r"aten.fractional_max_pool2d.default, in forward .*: use a MaxPool"):
        export(nn.FractionalMaxPool2d(2, 4), dynamic_batch=True)


def test_a_range_decides_a_comparison() -> None:
    layer, _ = CONDITIONS["a way"]
    check_for(export(layer, dynamic_shapes={"x": {2: Dim("height", min=7)}}), torch.randn(4, 3, 7, 12), LABELS)


def test_sizes_that_a_step_does_not_take_are_named() -> None:
    """Eager PyTorch takes fewer elements than 4, where the step fails."""
    x = torch.randn(2, 3, 8)

    def export(length: Any) -> None:
        model = nn.Sequential(nn.Conv1d(3, 4, 3, padding=1), First())
        export_training_step(model, lambda y, _: y.square().mean(), (x, x), dynamic_shapes={"input": {2: length}})

    for length in ("length", Dim("length", max=9)):
        with pytest.warns(UserWarning, match=r"the step takes sizes 'length' from 4 on: .*Dim\('length', min=4\)"):
            export(length)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        export(Dim("length", min=4))
        # torch takes other ways for 16 and more elements, to the same numbers.
        model = nn.Sequential(nn.Linear(3, 2), nn.Unflatten(0, (-1, 2, 2)), nn.Flatten(0, 2))
        export_training_step(
            model, lambda y, _: y.var(), (x[0].T.repeat(4, 1), x), dynamic_shapes={"input": {0: "4*n"}}
        )


class First(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, :4]


def test_a_constant_of_a_dynamic_batch_is_refused() -> None:
    def loss(y: Tensor, target: Tensor) -> Tensor:
        return y.square().sum() / int(target.shape[0])

    with pytest.raises(TorchExportError, match="right only for batch = 4, by what loss"):
        export_training_step(Net(), loss, (X, LABELS), dynamic_batch=True)


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "no such input": ({"image": {2: "h"}}, ValueError, "names 'image', and the example inputs are x, target"),
    "no such axis": ({"x": {4: "h"}}, ValueError, "axis 4; the tensor has 4 axes"),
    "a negative axis": ({"x": {-1: "h"}}, ValueError, "axis -1"),
    "an axis as a text": ({"x": {"2": "h"}}, ValueError, "axis '2'"),
    "no name": ({"x": {2: "2h"}}, ValueError, "'2h'; it takes a name, or a multiple of one"),
    "a sum": ({"x": {2: HEIGHT + 1}}, ValueError, "a multiple of a Dim, and nothing added to it"),
    "a number": ({"x": {2: 8}}, TypeError, "axis 2, is a int; it takes a name"),
    "a hint": ({"x": {2: Dim.AUTO}}, TypeError, "it takes a name, a torch.export.Dim, or None"),
    "a name for a tensor": ({"x": "h"}, TypeError, "'x' is a str; it takes a mapping"),
    "too few": (({2: "h"},), ValueError, "has 1 entries for 2 example inputs"),
    "no multiple": ({"x": {2: "3*h"}}, ValueError, "axis 2 of 'x' has size 8, and dynamic_shapes says a multiple of 3"),
    "two values": ({"x": {2: "h", 3: "h"}}, ValueError, "so 'h' is 12, and 8 elsewhere"),
    "two ranges": ({"x": {2: HEIGHT, 3: Dim("height", min=5)}}, ValueError, "so 'height' is 12, and 8 elsewhere"),
    "too small": ({"x": {2: "8*h"}}, ValueError, "so 'h' is 1; it must be 2 or more"),
    "out of range": ({"x": {2: Dim("h", max=6)}}, ValueError, "so 'h' is 8; it must be 2 or more and 6 or less"),
}


@pytest.mark.parametrize("name", WRONG)
def test_shapes_that_are_refused(name: str) -> None:
    shapes, error, message = WRONG[name]
    with pytest.raises(error, match=re.escape(message)):
        export(dynamic_shapes=shapes)


def test_a_stored_loss_is_no_export_of_a_step() -> None:
    step = export(optimizer="sgd")
    export_of_it = export_cann(step.model).model
    [last] = [node for node in export_of_it.graph.node if node.output[0] == "loss"]
    export_of_it.graph.node.remove(last)
    export_of_it.graph.initializer.append(numpy_helper.from_array(np.zeros((), np.float32), "loss"))
    assert not verify(step.model, export_of_it, whole_model=False).proven
