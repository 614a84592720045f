# SPDX-License-Identifier: Apache-2.0

"""PyTorch's own lists of modules and operators (`module_db`, `op_db`), each sample as a training step."""

from __future__ import annotations

import re
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

from poolgrad_lowering import export_atc, lower
from poolgrad_lowering.torch import StepMismatchError, TorchExportError, export_training_step
from poolgrad_lowering.torch.operators.spectra import Complex

MOST = 60
"""Samples of an entry that are looked at; the lists of some have thousands."""

TRIED = 2
"""Samples of an entry that are exported: the first, the last of `MOST`, and as many between."""

SECONDS = 180
"""A sample that takes more seconds of this process is a failure."""

RECORD = Path(__file__).parents[2] / "docs" / "torch_lists.json"
"""The outcomes of the samples by entry, which the page on them shows."""

TARGET = "ascend950"


@dataclass(frozen=True)
class Sample:
    """A model, its example inputs and its target."""

    name: str
    number: int
    make: Callable[[], nn.Module] = field(repr=False)
    inputs: tuple[Any, ...] = field(repr=False)


def names() -> list[str]:
    """Return the entries of both lists that have gradients in float32; modules begin with `nn.`, once for each."""
    modules = [f"module {info.name}" for info in module_db]
    operators = [_name(op) for op in op_db if op.supports_autograd and torch.float32 in op.dtypes]
    return [*dict.fromkeys(modules), *dict.fromkeys(operators)]


def samples(name: str) -> list[Sample]:
    """Return the samples of an entry that have a gradient in eager PyTorch, and that give the same twice."""
    torch.manual_seed(0)
    found = list(islice(_of_module(name) if name.startswith("module ") else _of_operator(name), MOST))
    found = [sample for sample in found if _has_gradient(sample)]
    last = len(found) - 1
    chosen = sorted({round(last * place / (TRIED - 1)) for place in range(TRIED)}) if found else []
    return [found[position] for position in chosen]


def outcome(sample: Sample) -> str:
    """Return `right`, or `refused: ` and the message, or what is wrong: `invalid`, `wrong` or `crash` and a message.

    The step is also lowered, and exported for ATC.
    """
    torch.manual_seed(1)
    try:
        with _limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step = export_training_step(sample.make().train(), _loss, sample.inputs, optimizer="sgd")
            step.check()
            lower(step.model, target=TARGET)
            export_atc(step.model, target=TARGET)
    except TorchExportError as error:
        said = re.sub(r",? in \S+ \(lists\.py, line \d+\)", "", str(error))
        return ("invalid: " if "not valid ONNX" in said else "refused: ") + said
    except StepMismatchError as error:
        return f"wrong: {error}"
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"
    return "right"


def outcomes(name: str) -> list[str]:
    """Return the outcome of each sample of an entry."""
    return [outcome(sample) for sample in samples(name)]


class _Function(nn.Module):
    """A function of tensors that are trained, and of others."""

    def __init__(self, function: Callable[..., Any], values: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        super().__init__()
        self._function = function
        self._values = [self._held(str(position), value) for position, value in enumerate(values)]
        self._keywords = {key: self._held(key, value) for key, value in keywords.items()}

    def _held(self, path: str, value: Any) -> Any:
        """Register the tensors in a value. Return the value with their names in their places."""
        if isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value):
            return type(value)([self._held(f"{path}_{position}", each) for position, each in enumerate(value)])
        if not isinstance(value, Tensor):
            return value
        kept, name = value.detach().clone().contiguous(), f"x_{path}"
        if value.requires_grad:
            self.register_parameter(name, nn.Parameter(kept))
        else:
            self.register_buffer(name, kept)
        return _Name(name)

    def _given(self, held: Any) -> Any:
        """Return a value as it is in a call."""
        if isinstance(held, (list, tuple)):
            return type(held)([self._given(each) for each in held])
        return getattr(self, held) if isinstance(held, _Name) else held

    def forward(self, one: Tensor) -> Any:
        """Return the function's result, of its first argument times one."""
        first, *others = map(self._given, self._values)
        keywords = {key: self._given(value) for key, value in self._keywords.items()}
        return self._function(_times(first, one), *others, **keywords)


class _Name(str):
    """The name of a tensor of a module."""


class _Scaled(nn.Module):
    """A module whose first floating-point argument is scaled by weights. The last arguments go by keyword."""

    def __init__(self, module: nn.Module, inputs: Sequence[Any], keywords: Sequence[str]) -> None:
        super().__init__()
        self.module, self._keywords = module, tuple(keywords)
        self._place = next((at for at, value in enumerate(inputs) if _is_real(value)), None)
        if self._place is not None:
            self.scale = nn.Parameter(torch.ones_like(inputs[self._place]))

    def forward(self, *inputs: Any) -> Any:
        """Return the module's result."""
        values = list(inputs)
        if self._place is not None:
            values[self._place] = values[self._place] * self.scale
        count = len(values) - len(self._keywords)
        return self.module(*values[:count], **dict(zip(self._keywords, values[count:], strict=True)))


def _of_operator(name: str) -> Iterator[Sample]:
    [op] = [op for op in op_db if _name(op) == name][:1]
    for number, found in enumerate(op.sample_inputs("cpu", torch.float32, requires_grad=True)):
        values, keywords = (found.input, *found.args), dict(found.kwargs)

        def make(values: Sequence[Any] = values, keywords: Mapping[str, Any] = keywords) -> nn.Module:
            return _Function(op.op, values, keywords)

        yield Sample(name, number, make, (torch.tensor(1.0), torch.tensor(0.3)))


def _of_module(name: str) -> Iterator[Sample]:
    number = 0
    for info in (info for info in module_db if f"module {info.name}" == name):
        for found in info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
        ):
            arguments, given = found.constructor_input, found.forward_input
            inputs = tuple(_contiguous(value) for value in (*given.args, *given.kwargs.values()))

            def make(
                info: Any = info,
                arguments: Any = arguments,
                inputs: Sequence[Any] = inputs,
                keywords: Any = given.kwargs,
            ) -> nn.Module:
                torch.manual_seed(2)
                scaled = _Scaled(info.module_cls(*arguments.args, **arguments.kwargs), inputs, list(keywords))
                if any(map(nn.parameter.is_lazy, scaled.parameters())):
                    scaled(*inputs)
                return scaled

            yield Sample(name, number, make, (*inputs, torch.tensor(0.3)))
            number += 1


def _has_gradient(sample: Sample) -> bool:
    """Whether eager PyTorch computes a gradient of the sample, and the same twice."""
    losses = []
    for _ in range(2):
        torch.manual_seed(3)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loss = _loss(sample.make().train()(*sample.inputs[:-1]), sample.inputs[-1])
                loss.backward()
        except Exception:
            return False
        losses.append(loss.detach())
    return torch.equal(losses[0].nan_to_num(), losses[1].nan_to_num())


def _loss(result: Any, target: Tensor) -> Tensor:
    """Return a loss of all tensors in a result, whose gradient has another value for each element."""
    found = [y for y in map(_as_real, _tensors(result)) if _is_real(y)]
    counts = [y.numel() for y in found]  # in a trace a symbol, where numbers decide it
    terms = [y for y, count in zip(found, counts, strict=True) if not isinstance(count, int) or count]
    return torch.stack([(y * y * 0.5 + y * target).mean() for y in terms]).sum()


def _tensors(result: Any) -> list[Any]:
    if isinstance(result, (Tensor, Complex)):
        return [result]
    return [each for part in result for each in _tensors(part)] if isinstance(result, (list, tuple)) else []


def _as_real(value: Any) -> Tensor:
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


def _is_real(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _times(value: Any, factor: Tensor) -> Any:
    """Return a tensor, or the tensors of a list, times the factor, and other values as they are."""
    if isinstance(value, (list, tuple)):
        return type(value)([_times(each, factor) for each in value])
    return value * factor if _is_real(value) else value


def _contiguous(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_contiguous, value))
    return value.detach().clone().contiguous() if isinstance(value, Tensor) else value


def _name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


@contextmanager
def _limited() -> Iterator[None]:
    """Raise `TimeoutError` after `SECONDS`."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
