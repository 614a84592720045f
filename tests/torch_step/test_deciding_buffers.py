# SPDX-License-Identifier: Apache-2.0

"""Numbers in a buffer, or in a weight that is not trained, may decide which way a step computes, if it keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from poolgrad_lowering.torch import TorchExportError, export_forward, export_training_step

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Initialised(nn.Module):
    """Takes its shift from the first batch, as an ActNorm does."""

    def __init__(self, ask: Callable[[Tensor], Any], ready: Tensor) -> None:
        super().__init__()
        self.layer, self.ask = nn.Linear(4, 4), ask
        self.ready = ready
        self.register_buffer("shift", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        if not self.ask(self.ready):
            self.shift.copy_(y.detach().mean(0))
            self.ready.fill_(1)
        return y - self.shift


def buffer() -> Tensor:
    return nn.Buffer(torch.tensor(False))


def weight() -> Tensor:
    return nn.Parameter(torch.zeros(()), requires_grad=False)


ASKED: dict[str, tuple[Callable[[Tensor], Any], Callable[[], Tensor]]] = {
    "a truth value": (lambda ready: ready, buffer),
    "its item": (lambda ready: ready.item(), buffer),
    "a number": (lambda ready: int(ready.float() + 1) > 1, buffer),
    "a weight that is not trained": (lambda ready: float(ready) != 0, weight),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_layer_that_the_first_batch_initialises(name: str) -> None:
    ask, ready = ASKED[name]
    model = Initialised(ask, ready())
    with pytest.raises(
        TorchExportError,
        match=r"the numbers in 'ready' decide which way the computation takes, in \S+ \(test_deciding_buffers\.py, "
        r"line \d+\), and the step changes them.*run the model on the example inputs before",
    ):
        export_training_step(model, nn.functional.mse_loss, (X, X), optimizer="sgd")
    model(X)
    step = export_training_step(model, nn.functional.mse_loss, (X, X), optimizer="sgd")
    assert step.check(steps=3)
    assert not any(name.startswith(("new_buffer.", "new_weight.ready")) for name in step.outputs)
    forward = export_forward(model, (X,))
    assert forward.outputs == ("output",)


def test_a_weight_that_is_trained() -> None:
    model = Initialised(lambda ready: ready > 0, nn.Parameter(torch.ones(())))
    with pytest.raises(TorchExportError, match=r"the numbers in a tensor, by torch\.Tensor\.__bool__ in "):
        export_training_step(model, nn.functional.mse_loss, (X, X))


class Padded(nn.Module):
    """Keeps a size in a buffer, as layers of audio codecs do, and gives the tensor to a function of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(1, 4, 3)
        self.register_buffer("kernel", torch.tensor(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(functional.pad(x, (0, self.kernel - 1)))


def test_a_number_in_an_argument_of_a_function() -> None:
    step = export_training_step(Padded(), lambda y, _: y.square().mean(), (X[:, None], X), optimizer="sgd")
    step.check(steps=2)


class OfPatches(nn.Module):
    """Has the heights and widths of the images in a batch in a buffer, as models of images and text get them."""

    def __init__(self, use: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.use = nn.Linear(4, 4), use
        self.register_buffer("grid", torch.tensor([[2, 2], [1, 2]]))

    def forward(self, x: Tensor) -> Tensor:
        return self.use(self.layer(x), self.grid)


def _by_loops(y: Tensor, grid: Tensor) -> Tensor:
    places = [torch.arange(high * wide).reshape(high, wide).flatten() for high, wide in grid.tolist()]
    return y + torch.cat(places)[:, None]


def _by_segments(y: Tensor, grid: Tensor) -> Tensor:
    counts = torch.repeat_interleave(grid[:, 1], grid[:, 0])
    ends = functional.pad(counts.cumsum(0), (1, 0))
    parts = torch.split(y, (ends[1:] - ends[:-1]).tolist())
    return torch.cat([part - part.mean(0) for part in parts])


OF_TABLES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "loops": _by_loops,
    "segments": _by_segments,
    "the largest": lambda y, grid: torch.cat([y[: k + 1] for k in range(grid.max().item())]),
    "places": lambda y, grid: y.index_select(0, (grid == 2).nonzero()[:, 1]),
    "how often": lambda y, grid: torch.cat([y.mean(0).repeat(high, 1) for high, _ in grid]),
    "several results": lambda y, grid: y[:2, torch.where(grid == 2)[0]],
    "repeats of a known sum": lambda y, grid: y[:2].repeat_interleave(grid.prod(1), dim=0, output_size=6),
}


@pytest.mark.parametrize("name", OF_TABLES)
def test_a_table_of_sizes(name: str) -> None:
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    step = export_training_step(OfPatches(OF_TABLES[name]), lambda y, _: y.square().mean(), (x, x), optimizer="sgd")
    step.check(steps=2)


def test_a_table_that_the_step_changes() -> None:
    model = OfPatches(lambda y, grid: (grid.add_(1), _by_loops(y, grid - 1))[1])
    x = torch.ones(6, 4)
    with pytest.raises(TorchExportError, match=r"'grid' decide which way .* in _by_loops \(.* changes them"):
        export_training_step(model, lambda y, _: y.square().mean(), (x, x))


def test_a_table_among_the_example_inputs() -> None:
    class Given(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Tensor, grid: Tensor) -> Tensor:
            return _by_segments(self.layer(x), grid)

    x, grid = torch.ones(6, 4), torch.tensor([[2, 2], [1, 2]])
    with pytest.raises(TorchExportError, match=r"by torch\.\S+ in _by_segments .*may be a buffer of the model"):
        export_training_step(Given(), lambda y, _: y.square().mean(), (x, grid, x))
