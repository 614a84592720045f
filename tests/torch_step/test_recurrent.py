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
