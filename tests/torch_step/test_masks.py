# SPDX-License-Identifier: Apache-2.0

"""Constants that a model writes into slices, and random numbers, are valid ONNX and what eager PyTorch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from poolgrad_lowering import export_cann, lower, verify
from poolgrad_lowering.torch import TorchExportError, export_forward, export_training_step
from poolgrad_lowering.torch import exporter as exporter_module

X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
BANDS = ((0, -2), (-2, -1), (-1, None))


def one_value(y: Tensor) -> Tensor:
    mask = torch.zeros(4, 4)
    mask[1:3, 1:3] = 1
    return y + mask


def a_column(y: Tensor) -> Tensor:
    mask = torch.ones(4, 4)
    mask[:, -1:] = 0
    return y * mask


def a_vector(y: Tensor) -> Tensor:
    mask = torch.zeros(4, 4)
    mask[1:3] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    return y + mask


def another_type(y: Tensor) -> Tensor:
    mask = torch.zeros(4, 4, dtype=torch.int64)
    mask[::2, 1:] = 3
    mask[0] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    return y * mask


def a_window_mask(y: Tensor) -> Tensor:
    """As vision transformers with shifted windows make it."""
    mask = y.new_zeros((4, 4))
    for number, (rows, columns) in enumerate((rows, columns) for rows in BANDS for columns in BANDS):
        mask[rows[0] : rows[1], columns[0] : columns[1]] = number
    windows = mask.view(2, 2, 2, 2).permute(0, 2, 1, 3).reshape(4, 4)
    apart = windows.unsqueeze(1) - windows.unsqueeze(2)
    apart = apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)
    return (y + apart[:3]).softmax(-1)


def last_elements(y: Tensor) -> Tensor:
    y = y * 2
    y[..., -1] = 0.0
    return y


def a_slice_of_another(y: Tensor) -> Tensor:
    z = torch.zeros_like(y)
    z[:, 1:] = y[:, :1]
    z[:, 0].copy_(y[0, 0])
    return z + y


MASKS: list[Callable[[Tensor], Tensor]] = [
    one_value, a_column, a_vector, another_type, a_window_mask, last_elements, a_slice_of_another,
]  # fmt: skip


class Masked(nn.Module):
    def __init__(self, write: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.write = nn.Conv2d(3, 3, 1), write

    def forward(self, x: Tensor) -> Tensor:
        return self.write(nn.functional.max_pool2d(self.layer(x), 2))


@pytest.mark.parametrize("dynamic_batch", [False, True])
@pytest.mark.parametrize("write", MASKS)
def test_values_that_are_written_into_slices(write: Callable[[Tensor], Tensor], dynamic_batch: bool) -> None:
    model = Masked(write)
    step = export_training_step(model, lambda y, _: y.pow(2).mean(), (X, torch.zeros(2)), dynamic_batch=dynamic_batch)
    step.check()
    assert verify(step.model, lower(step.model).model).proven
    forward = export_forward(model, (X,), dynamic_batch=dynamic_batch)
    onnx.checker.check_model(forward.model, full_check=True)
    session = onnxruntime.InferenceSession(forward.model.SerializeToString())
    (found,) = session.run(None, {**forward.values, **forward.examples})
    np.testing.assert_allclose(found, model(X).detach(), rtol=1e-5, atol=1e-6)  # of a convolution and a softmax


def written(own: Tensor, y: Tensor) -> Tensor:
    own = own.clone()
    own[y > 1] = False
    return own


OF_TRUTH_VALUES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "one of two": lambda own, y: torch.where(y > 0, own, ~own),
    "in place": written,
    "the sum": lambda own, y: own + (y > 0),
    "the sum with itself and a number": lambda own, _: own + own + 1,
    "sorted": lambda own, y: own.sort(-1)[0] & (y > 0).sort(-1, descending=True)[0],
    "the order": lambda own, _: own.argsort(dim=0, descending=True, stable=True),
}


@pytest.mark.parametrize("name", OF_TRUTH_VALUES)
def test_operators_of_truth_values(name: str) -> None:
    """Which ONNX or onnxruntime has of numbers alone."""

    def loss(y: Tensor, labels: Tensor) -> Tensor:
        products = y @ y.T
        return (products * OF_TRUTH_VALUES[name](labels[:, None] == labels, products.detach())).sum()

    step = export_training_step(nn.Linear(3, 4), loss, (torch.randn(6, 3), torch.arange(6) % 3))
    step.check()
    assert not export_cann(step.model).report.obstacles


@pytest.mark.parametrize("target", [torch.zeros(2, dtype=torch.int64), torch.zeros(2)])
def test_random_numbers_have_their_own_type(target: Tensor) -> None:
    """Not that of a graph input: labels are integers."""

    class Drawn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.gumbel_softmax(self.layer(x))

    step = export_training_step(Drawn(), lambda y, t: (y.sum(1) - t).pow(2).mean(), (torch.randn(2, 4), target))
    feeds: Any = {**step.values, **step.examples}
    session = onnxruntime.InferenceSession(step.model.SerializeToString())
    np.testing.assert_allclose(session.run(["loss"], feeds)[0], 1, rtol=1e-5)  # each row of a softmax sums to 1


def test_a_model_that_is_not_valid_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_it(model: onnx.ModelProto) -> None:
        model.graph.node[0].op_type = "Reshape"

    monkeypatch.setattr(exporter_module, "correct", break_it)
    for export in (
        lambda: export_forward(Masked(one_value), (X,)),
        lambda: export_training_step(Masked(one_value), lambda y, _: y.sum(), (X, torch.zeros(2))),
    ):
        with pytest.raises(TorchExportError, match="not valid ONNX"):
            export()
