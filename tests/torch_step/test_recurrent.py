# SPDX-License-Identifier: Apache-2.0

"""Recurrent layers, of which torch's decompositions are not what PyTorch computes, or have no translation to ONNX."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from poolgrad_lowering.torch import export_training_step


class OnSequences(nn.Module):
    """An LSTM that reads what the step is given."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.layer, self.head = nn.LSTM(6, 8, batch_first=True, **options), nn.LazyLinear(3)

    def forward(self, x: Tensor) -> Any:
        return self.head(self.layer(x)[0][:, -1])


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True, "proj_size": 4}])
def test_an_lstm_on_an_example_input(options: dict[str, Any]) -> None:
    """torch runs an LSTM whose input needs no gradient in oneDNN, by an operator without a translation to ONNX."""
    torch.manual_seed(0)
    model, batch = OnSequences(**options), (torch.randn(4, 3, 6), torch.randint(3, (4,)))
    model(batch[0])
    export_training_step(model, nn.functional.cross_entropy, batch, optimizer="adam").check(steps=2)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_with_dropout_between(layer: type[nn.RNNBase], *, batch_first: bool) -> None:
    """torch's decomposition leaves the dropout out."""
    torch.manual_seed(0)

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layer(6, 8, 3, batch_first=batch_first, dropout=0.4, bidirectional=batch_first)

        def forward(self, x: Tensor) -> Tensor:
            y, last = self.layers(x)
            last = last[0] * last[1] if isinstance(last, tuple) else last
            return y.mean() + last.square().sum()

    step = export_training_step(Layers(), None, (torch.randn(3, 2, 6),))
    assert sum(node.op_type == "RandomUniformLike" for node in step.model.graph.node) == 2
    step.check()


KINDS = [
    (nn.LSTM, {"proj_size": 3, "bidirectional": True}),
    (nn.LSTM, {"bias": False}),
    (nn.GRU, {"num_layers": 2, "bidirectional": True}),
    (nn.GRU, {"bias": False}),
    (nn.RNN, {"bidirectional": True}),
    (nn.RNN, {"nonlinearity": "relu", "num_layers": 2}),
]


class Mixed(nn.Module):
    """A layer that begins from a state, and a loss of what it gives at each step, or of its last state alone."""

    def __init__(self, layer: type[nn.RNNBase], options: dict[str, Any], *, only_last: bool = False) -> None:
        super().__init__()
        self.layer, self.only_last = layer(5, 6, **options), only_last

    def forward(self, x: Tensor, *state: Tensor) -> Tensor:
        y, last = self.layer(x, (state if len(state) > 1 else state[0]) if state else None)
        parts = last if isinstance(last, tuple) else (last,)
        factors = torch.arange(1.0, 1 + y.shape[0])[:, None, None]
        return sum((part.square().sum() for part in parts), (factors * y).sin().sum() * (not self.only_last))


@pytest.mark.parametrize("only_last", [False, True])
@pytest.mark.parametrize(("layer", "options"), KINDS)
def test_gradients_of_layers(layer: type[nn.RNNBase], options: dict[str, Any], *, only_last: bool) -> None:
    torch.manual_seed(0)
    export_training_step(Mixed(layer, options, only_last=only_last), None, (torch.randn(4, 3, 5),)).check()


class FromAState(nn.Module):
    """A layer whose first state is computed from weights: h, and c from h."""

    def __init__(self, layer: type[nn.RNNBase]) -> None:
        super().__init__()
        self.first, self.inner, self.states = nn.Linear(5, 6), Mixed(layer, {}), 2 if layer is nn.LSTM else 1

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x[0])[None]
        return self.inner(x, *(h, h.cos())[: self.states])


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_gradients_of_a_first_state(layer: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    export_training_step(FromAState(layer), None, (torch.randn(4, 3, 5),)).check()


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_second_derivatives(layer: type[nn.RNNBase]) -> None:
    """A penalty of the gradient of the input: the gradient of the layer's own gradient."""
    torch.manual_seed(0)

    class Penalty(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = FromAState(layer)

        def forward(self, x: Tensor) -> Tensor:
            x = x.requires_grad_()
            (slope,) = torch.autograd.grad(self.inner(x), x, create_graph=True)
            return (slope.flatten(1).norm(dim=1) - 1).square().mean()

    export_training_step(Penalty(), None, (torch.randn(3, 2, 5),)).check()


def test_a_step_of_a_sequence_adds_few_nodes() -> None:
    """Autograd's own gradient of an LSTM has about 55 for each step, forward and backward."""
    model, counts = OnSequences(), []
    for length in (4, 8):
        batch = torch.randn(4, length, 6), torch.randint(3, (4,))
        model(batch[0])
        counts.append(len(export_training_step(model, nn.functional.cross_entropy, batch).model.graph.node))
    assert counts[1] - counts[0] <= 4 * 22
