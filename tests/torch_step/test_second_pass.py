# SPDX-License-Identifier: Apache-2.0

"""What forward keeps outside of parameters and buffers is refused if the loss depends on it, and is else left alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from poolgrad_lowering.torch import TorchExportError, export_training_step
from poolgrad_lowering.torch.second_pass import check_second_pass

X, TARGET = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), torch.ones(3, 1)


class Keeps(nn.Module):
    """A model that keeps something in its forward."""

    def __init__(self, keep: Callable[[Any, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.keep = keep
        self.layer, self.norm = nn.Linear(4, 1), nn.BatchNorm1d(1)
        self.kept: dict[str, Any] = {"mean": torch.zeros(())}
        self.past, self.count = [torch.zeros(())], 0

    def forward(self, x: Tensor) -> Tensor:
        return self.keep(self, x, self.norm(self.layer(x)))


def a_list(model: Any, x: Tensor, y: Tensor) -> Tensor:
    model.past[0] = model.past[0] * 0.9 + x.mean()
    return y + model.past[0]


def a_longer_list(model: Any, x: Tensor, y: Tensor) -> Tensor:
    model.past.append(x.mean())
    return y + torch.stack(model.past).mean()


def a_dictionary(model: Any, x: Tensor, y: Tensor) -> Tensor:
    model.kept["mean"] = model.kept["mean"] * 0.9 + x.mean()
    return y + model.kept["mean"]


def a_number(model: Any, _: Tensor, y: Tensor) -> Tensor:
    model.count += 1
    return y * model.count


def a_counter(model: Any, _: Tensor, y: Tensor) -> Tensor:
    model.count += 1
    return y


def a_cache(model: Any, x: Tensor, y: Tensor) -> Tensor:
    model.kept["y"] = y
    model.past.append(x)
    return y


def random_numbers(_: Any, __: Tensor, y: Tensor) -> Tensor:
    random.random()
    np.random.rand()
    return nn.functional.dropout(y)


def no_forward(*_: Any) -> Tensor:
    raise ZeroDivisionError


REFUSED = {a_list: "past", a_longer_list: "past", a_dictionary: "kept", a_number: "count"}


@pytest.mark.parametrize("keep", REFUSED)
def test_what_the_loss_depends_on_is_refused(keep: Any) -> None:
    model = Keeps(keep)
    with pytest.raises(TorchExportError, match=f"forward changes '{REFUSED[keep]}', which is neither parameter nor"):
        export_training_step(model, nn.functional.mse_loss, (X, TARGET))
    assert (len(model.past), model.count, model.kept["mean"].item()) == (1, 0, 0)


def test_what_it_does_not_depend_on_is_kept_as_it_was() -> None:
    for keep in (a_counter, a_cache):
        model = Keeps(keep)
        export_training_step(model, nn.functional.mse_loss, (X, TARGET)).check()
        assert (len(model.past), model.count, list(model.kept)) == (1, 0, ["mean"])


@pytest.mark.parametrize("keep", [random_numbers, no_forward, a_counter])
def test_a_pass_leaves_the_model_as_it_was(keep: Any) -> None:
    """The buffers of BatchNorm too, which each pass changes; a model that cannot run is not judged."""
    model = Keeps(keep)
    before = {name: (value.data_ptr(), value._version, value.clone()) for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    check_second_pass(model, {"x": X})
    for name, value in model.state_dict().items():
        place, version, numbers = before[name]
        assert (value.data_ptr(), value._version) == (place, version)
        assert value.equal(numbers)
    assert torch.get_rng_state().equal(state)
