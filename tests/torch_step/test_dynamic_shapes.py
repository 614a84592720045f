# SPDX-License-Identifier: Apache-2.0

"""Symbolic sizes: of any axis, right for other sizes, and refused where a graph would be right for some alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
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
from poolgrad_lowering.torch.arrays import to_array
from poolgrad_lowering.torch.dynamic_shapes import Symbol, SymbolicSize
from tests.torch_step.networks import NETWORKS

X, LABELS = torch.randn(4, 3, 8, 12), torch.tensor([0, 1, 1, 0])


class Net(nn.Module):
    """A convolution, some other layer, and the means of planes."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 2, 3, padding=1), nn.ReLU(), *layers)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layers(x).mean((2, 3))
        return found


class Function(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def export(*layers: nn.Module, **options: Any) -> TrainingStep:
    torch.manual_seed(3)
    return export_training_step(Net(*layers), nn.CrossEntropyLoss(), (X, LABELS), **options)


def sizes_of(step: TrainingStep, name: str) -> list[int | str]:
    [value] = [value for value in step.model.graph.input if value.name == name]
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def check_for(step: TrainingStep, *examples: Tensor) -> None:
    given = {name: to_array(value) for name, value in zip(step.examples, examples, strict=True)}
    replace(step, examples=given).check()


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
    "text_of_any_length": (torch.randint(30, (3, 22)), torch.randint(5, (3,))),
    "language_model_of_any_size": (torch.randint(5, (3, 16)), torch.randint(5, (3, 16))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_networks_of_other_sizes(name: str) -> None:
    """Their steps are right, and every pool is lowered."""
    network = NETWORKS[name]
    step = network.export(optimizer="sgd")
    check_for(step, *OTHERS[name])
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


CONDITIONS: dict[str, tuple[nn.Module, str]] = {
    "range": (
        Function(lambda x: sum(x / row for row in range(1, len(x[0, 0])))),
        r"height = 8, by what <lambda> \(test_dynamic_shapes\.py, line ",
    ),
    "float": (Function(lambda x: x / float(x.shape[2])), "height = 8, by what <lambda>"),
    "a way": (Function(lambda x: x if x.shape[2] > 6 else 2 * x), "height > 6, by what <lambda>"),
    "the height of what a pool left, twice": (
        Function(lambda x: torch.cat([x, functional.interpolate(functional.max_pool2d(x, 2), scale_factor=2.0)], 1)),
        r"2\*\(\(height//2\)\) = height",
    ),
}


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


def test_a_range_decides_a_comparison() -> None:
    layer, _ = CONDITIONS["a way"]
    check_for(export(layer, dynamic_shapes={"x": {2: Dim("height", min=7)}}), torch.randn(4, 3, 7, 12), LABELS)


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


def test_masks_of_a_symbolic_size_are_no_obstacle() -> None:
    """Each mask computes its size for itself; onnxruntime joins what is equal, so no part needs numbers of another."""
    model = nn.Sequential(nn.Linear(4, 4), Function(lambda x: ((x @ x.T).triu(1) + torch.eye(len(x))).mean()))
    step = export_training_step(model, None, (torch.randn(6, 4),), dynamic_batch=True, optimizer="sgd")
    assert not export_cann(step.model).report.obstacles


def assert_whole(step: TrainingStep) -> None:
    """Graph mode takes the whole step, which provably computes the same in its export."""
    export = export_cann(step.model)
    assert not export.report.obstacles
    assert verify(step.model, export.model, whole_model=False).proven


class Attended(nn.Module):
    """Layers of sequences, of which batch and length are symbolic; the attention as it is often written."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)), nn.Linear(16, 3)
        self.parts = nn.Linear(16, 48, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        of_heads = self.parts(y).view(*y.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(*of_heads, is_causal=True)
        scores: Tensor = self.head(y + found.transpose(1, 2).flatten(2)) @ torch.ones(3, 2)
        return scores


@pytest.mark.parametrize("is_mixed", [False, True])
def test_two_symbolic_sizes_are_no_obstacle(is_mixed: bool) -> None:
    with torch.autocast("cpu", torch.float16, enabled=is_mixed):
        step = export_training_step(
            Attended(),
            lambda y, _: (y * y).mean(),
            (torch.randn(2, 5, 8), torch.zeros(1)),
            dynamic_shapes={"x": {0: "batch", 1: "time"}},
            optimizer="sgd",
        )
    assert_whole(step)
    step.check(steps=2)
    check_for(step, torch.randn(3, 7, 8), torch.zeros(1))


class TokenByToken(nn.Module):
    """Layers of a batch and a length that are symbolic, which the model joins to rows and parts again."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.dropout(functional.relu(self.first(x.flatten(0, 1))), 0.2)
        y = self.second(hidden * hidden.softmax(1)).view_as(x)
        attended: Tensor = self.attention(y, y, y, need_weights=False)[0]
        return self.layer(attended).flatten(0, 1)


def test_axes_that_are_joined_to_rows_are_no_obstacle() -> None:
    """Rows are computed before their axes are joined, also in the gradient of a loss of tokens."""
    step = export_training_step(
        TokenByToken(),
        lambda y, target: functional.cross_entropy(y, target.flatten()),
        (torch.randn(2, 5, 8), torch.randint(8, (2, 5))),
        dynamic_shapes={"x": {0: "batch", 1: "time"}, "target": {0: "batch", 1: "time"}},
        optimizer="sgd",
    )
    assert_whole(step)
    step.check(steps=2)
    check_for(step, torch.randn(3, 7, 8), torch.randint(8, (3, 7)))


class Summed(nn.Module):
    """Relative attention by einsum over (time, batch), as in XLNet."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ParameterList(torch.randn(8, 2, 4) / 3 for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        y = x.transpose(0, 1)
        query, value = (torch.einsum("ibh,hnd->ibnd", y, part) for part in (self.parts[0], self.parts[2]))
        key = torch.einsum("hnd,ibh->ibnd", self.parts[1], y)
        odds = torch.einsum("ibnd,jbnd->bnij", query, key).softmax(3)
        found = torch.einsum("ibnd,hnd->ibh", torch.einsum("bnij,jbnd->ibnd", odds, value), self.parts[3])
        return torch.einsum("ibh,ibh->bi", [found, y])


def test_sums_of_products_are_no_obstacle() -> None:
    step = export_training_step(
        Summed(),
        lambda y, _: (y * y).mean(),
        (torch.randn(2, 5, 8), torch.zeros(1)),
        dynamic_shapes={"x": {0: "batch", 1: "time"}},
        optimizer="sgd",
    )
    assert_whole(step)
    step.check(steps=2)
    check_for(step, torch.randn(3, 7, 8), torch.zeros(1))


class Segmented(nn.Module):
    """A head of a fully convolutional network, which resizes features to the sizes of others."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.stem, self.deep = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, 2, padding=1)
        self.head, self.options = nn.Conv2d(8, 5, 1), options

    def forward(self, x: Tensor) -> Tensor:
        y = functional.max_pool2d(self.stem(x), 2)
        deep = self.deep(y)
        context = functional.interpolate(deep.mean((2, 3), keepdim=True), deep.shape[2:], **self.options)
        found = torch.cat([functional.interpolate(deep + context, y.shape[2:], **self.options), y], 1)
        return functional.interpolate(self.head(found), x.shape[2:], **self.options)


RESIZES: dict[str, dict[str, Any]] = {
    "bilinear": {"mode": "bilinear"},
    "corners": {"mode": "bilinear", "align_corners": True},
    "nearest": {"mode": "nearest"},
    "exact": {"mode": "nearest-exact"},
}


@pytest.mark.parametrize("name", RESIZES)
def test_images_of_any_size_are_resized_without_an_obstacle(name: str) -> None:
    height, width = "4*height", "4*width"
    step = export_training_step(
        Segmented(**RESIZES[name]),
        nn.CrossEntropyLoss(),
        (torch.randn(2, 3, 8, 12), torch.randint(5, (2, 8, 12))),
        dynamic_shapes={"x": {0: "batch", 2: height, 3: width}, "target": {0: "batch", 1: height, 2: width}},
        optimizer="sgd",
    )
    assert_whole(step)
    assert len(lower(step.model).report.lowered) == 1
    step.check(steps=2)
    check_for(step, torch.randn(3, 3, 16, 4), torch.randint(5, (3, 16, 4)))


def test_pools_of_what_layers_leave_of_a_length_are_lowered() -> None:
    """Which is a rounded quotient, and twice one: the gradient's shape is that of a tensor, not its own arithmetic."""
    layers = [nn.Conv1d(1, 4, 8, 3), nn.ReLU(), nn.MaxPool1d(4), nn.Conv1d(4, 4, 3), nn.MaxPool1d(3, 2), nn.Flatten(0)]
    step = export_training_step(
        nn.Sequential(*layers),
        lambda y, _: (y * y).mean(),
        (torch.randn(2, 1, 90), torch.zeros(1)),
        dynamic_shapes={"input": {0: "batch", 2: Dim("length", min=80)}},
        optimizer="sgd",
    )
    assert len(lower(step.model).report.lowered) == 2
    step.check(steps=2)
    check_for(step, torch.randn(3, 1, 131), torch.zeros(1))


class Causal(nn.Module):
    """Convolutions that read what is before, as in a TCN."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(size, 4, 3, padding=2 * step, dilation=step) for size, step in [(3, 1), (4, 2)]
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = functional.relu(layer(x)[:, :, : -layer.padding[0]])
        return functional.pad(x[..., 1:], (1, 0)).mean(2)


def test_ends_that_are_cut_off_a_length_are_no_obstacle() -> None:
    step = export_training_step(
        Causal(),
        lambda y, _: (y * y).mean(),
        (torch.randn(2, 3, 9), torch.zeros(1)),
        dynamic_shapes={"x": {0: "batch", 2: "time"}},
        optimizer="sgd",
    )
    assert "ScatterElements" not in {node.op_type for node in step.model.graph.node}
    assert_whole(step)
    step.check(steps=2)
    check_for(step, torch.randn(3, 3, 12), torch.zeros(1))


def test_zeros_of_a_symbolic_size_are_shared() -> None:
    step = export_training_step(
        nn.Sequential(nn.Linear(4, 4), Function(lambda y: y + torch.zeros(y.shape[0], 1, y.shape[2]))),
        lambda y, _: (y * y * torch.arange(4.0)).mean(),
        (torch.randn(2, 5, 4), torch.zeros(1)),
        dynamic_shapes={"input": {0: "lambda", 1: "time"}},
    )
    assert_whole(step)
    check_for(step, torch.randn(3, 7, 4), torch.zeros(1))


def test_a_stored_loss_is_no_export_of_a_step() -> None:
    step = export(optimizer="sgd")
    export_of_it = export_cann(step.model).model
    [last] = [node for node in export_of_it.graph.node if node.output[0] == "loss"]
    export_of_it.graph.node.remove(last)
    export_of_it.graph.initializer.append(numpy_helper.from_array(np.zeros((), np.float32), "loss"))
    assert not verify(step.model, export_of_it, whole_model=False).proven


def test_rows_of_tensors_with_other_axes_are_rows() -> None:
    """Rows of (time, batch) and of (batch, time) are as many, and others."""
    step = export_training_step(
        nn.Sequential(nn.Linear(4, 3), Function(lambda y: (y.flatten(0, 1) * y.transpose(0, 1).flatten(0, 1)).sum(0))),
        nn.MSELoss(),
        (torch.randn(2, 5, 4), torch.randn(3)),
        dynamic_shapes={"input": {0: "batch", 1: "time"}},
        optimizer="sgd",
    )
    step.check()
    check_for(step, torch.randn(3, 7, 4), torch.randn(3))


def test_a_size_that_a_view_leaves_to_torch_has_its_name() -> None:
    """Torch notes it as the quotient that it computes."""
    step = export_training_step(
        nn.Sequential(nn.Linear(4, 4), Function(lambda y: (y @ y.mT).view(len(y), 1, y.shape[1], -1).softmax(3))),
        lambda y, _: (y * y).mean(),
        (torch.randn(2, 5, 4), torch.zeros(1)),
        dynamic_shapes={"input": {0: "batch", 1: "lambda"}},
    )
    sizes = {dim.dim_param for value in step.model.graph.value_info for dim in value.type.tensor_type.shape.dim}
    assert sizes >= {"batch", "lambda"}
    assert not any("//" in size for size in sizes)
    assert_whole(step)


@pytest.mark.parametrize(
    "weights",
    [
        lambda length: functional.one_hot(torch.arange(length), length),
        lambda length: torch.linspace(-1, 2, length)[:, None],
        lambda length: (torch.arange(length, dtype=torch.float32) * (1 / (length - 1)))[:, None],
    ],
)
def test_numbers_that_are_made_of_a_symbolic_size(weights: Callable[[Any], Tensor]) -> None:
    body = Function(lambda y: (y @ y.transpose(1, 2) * weights(y.shape[1])).sum())
    shapes = {"input": {1: "time"}}
    examples = (torch.randn(2, 5, 4),)
    step = export_training_step(nn.Sequential(nn.Linear(4, 3), body), None, examples, dynamic_shapes=shapes)
    step.check()
    check_for(step, torch.randn(2, 7, 4))


def test_positions_of_a_symbolic_length_are_no_obstacle() -> None:
    """A model takes the first rows of a table, as many as there are tokens; more than it has are an error."""

    class Positioned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.table = nn.Linear(4, 4), nn.Parameter(torch.randn(8, 4))
            self.register_buffer("numbers", torch.arange(8.0)[None])

        def forward(self, x: Tensor) -> Tensor:
            places = self.numbers[:, : x.shape[1]].expand(len(x), -1)
            return self.layer(x + self.table[: x.shape[1]]).flatten(0, 1) * places.flatten()[:, None]

    time = Dim("time", min=2, max=8)
    step = export_training_step(
        Positioned(),
        lambda y, _: (y * y).mean(),
        (torch.randn(2, 5, 4), torch.zeros(1)),
        dynamic_shapes={"x": {0: "batch", 1: time}},
        optimizer="sgd",
    )
    assert_whole(step)
    check_for(step, torch.randn(3, 8, 4), torch.zeros(1))
    step.check()


@pytest.mark.parametrize("rows", [lambda table, x: table[: -x.shape[1]], lambda table, x: table[: x.shape[1]]])
def test_a_table_that_may_end_before_the_length_is_sliced(rows: Callable[[Tensor, Tensor], Tensor]) -> None:
    """An end that is counted from the last element, or may be behind it, is none of the first positions."""

    class Sliced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(9, 4))

        def forward(self, x: Tensor) -> Tensor:
            return rows(self.table, x).square().sum() + x.sum()

    step = export_training_step(Sliced(), None, (torch.randn(2, 5, 4),), dynamic_shapes={"x": {1: "time"}})
    step.check()
    for length in (7, 12):
        check_for(step, torch.randn(2, length, 4))
