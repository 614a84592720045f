# SPDX-License-Identifier: Apache-2.0

"""Modes in which operators run: random numbers given, in wider types, copies for assignments, without a compiler."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

aten = torch.ops.aten

_DRAWING = (aten.rand, aten.rand_like, aten.randn, aten.randn_like)
"""The operators that are exported as random numbers. All other random operators are computed from these."""


class Draws(TorchDispatchMode):
    """While it is active, the uniform and normal random numbers that are drawn are kept in `values`, in their order.

    Operators with `decompositions`, which draw others, are computed from these. With `given`, these numbers take the
    place of those that would be drawn.
    """

    def __init__(self, decompositions: Mapping[Any, Callable[..., Any]], given: Sequence[Tensor] | None = None) -> None:
        super().__init__()
        self.values: list[Tensor] = []
        self._decompositions = decompositions
        self._given = None if given is None else iter(given)

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operator.overloadpacket in _DRAWING:
            drawn = operator(*args, **(kwargs or {})) if self._given is None else next(self._given).clone()
            self.values.append(drawn.clone())
            return drawn
        if operator in self._decompositions:
            with self:
                return self._decompositions[operator](*args, **(kwargs or {}))
        return operator(*args, **(kwargs or {}))


_SHORTER = {
    torch.float64: (torch.float32, torch.float16, torch.bfloat16),
    torch.float32: (torch.float16, torch.bfloat16),
}


class InWiderType(TorchDispatchMode):
    """While it is active, operators compute in `wide`, float64 or float32, in place of shorter floating-point types.

    Views stay in the type of what they show, and what an operator writes to in its own. New tensors, of numbers too,
    are in the wider type, so that a model may write to them what it computes. Operators of `written`, which take no
    float64, are computed by these functions.
    """

    def __init__(self, wide: torch.dtype, written: Mapping[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self._wide, self._written = wide, written

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        arguments, results = operator._schema.arguments, operator._schema.returns  # noqa: SLF001 - there is no other way
        kwargs = dict(kwargs or {})
        if not any(result.alias_info and not result.alias_info.is_write for result in results):
            written = {argument.name for argument in arguments if argument.alias_info and argument.alias_info.is_write}
            named = zip((argument.name for argument in arguments), args, strict=False)
            args = tuple(value if name in written else tree_map(self.widened, value) for name, value in named)
            kwargs = {
                name: value if name in written else tree_map(self.widened, value) for name, value in kwargs.items()
            }
        if operator is aten.full.default and isinstance(args[1], float):  # a number of any size, such as the least one
            kwargs["dtype"] = kwargs.get("dtype") or self._wide
        if operator in self._written:
            return self._written[operator](*args, **kwargs)
        found = operator(*args, **kwargs)
        is_new = operator is aten.lift_fresh.default or not any(result.alias_info for result in results)
        return tree_map(self.widened, found) if is_new else found

    def widened(self, value: Any) -> Any:
        """Return a tensor in the wider type if its own is shorter, the wider type for a shorter one, else the value."""
        if isinstance(value, Tensor):
            return value.to(self._wide) if value.dtype in _SHORTER[self._wide] else value
        return self._wide if isinstance(value, torch.dtype) and value in _SHORTER[self._wide] else value


class RandomNumbersInBackwardError(RuntimeError):
    """Random numbers are drawn while gradients are computed."""


class WithoutRandomNumbers(TorchDispatchMode):
    """While it is active, raises `RandomNumbersInBackwardError` when an operator draws random numbers."""

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in operator.tags:
            raise RandomNumbersInBackwardError(str(operator))
        return operator(*args, **(kwargs or {}))


class DataIsCopied(TorchFunctionMode):
    """While it is active, `tensor.data = value` copies the value: a trace records the copy, but not an assignment.

    Raises `RuntimeError` if the value has another shape or type.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function != Tensor.data.__set__:
            return function(*args, **(kwargs or {}))
        tensor, value = args
        if (tensor.shape, tensor.dtype) != (value.shape, value.dtype):
            raise RuntimeError("the model gives `data` of a tensor another shape or type")
        with torch.no_grad():
            return tensor.data.copy_(value)


@contextmanager
def gradients_in(mode: TorchFunctionMode) -> Iterator[None]:
    """While it is active, `torch.autograd.grad` computes in this mode, to which it would only hand itself otherwise."""
    with mode, patch.object(torch.autograd, "has_torch_function", lambda _: False):
        yield


@contextmanager
def uncompiled() -> Iterator[None]:
    """While it is active, compiled modules and functions run uncompiled, also in a trace."""
    with (
        warnings.catch_warnings(),
        torch._dynamo.config.patch(error_on_nested_fx_trace=False),  # noqa: SLF001
        torch.compiler.set_stance("force_eager"),
    ):
        warnings.filterwarnings("ignore", message="Using `torch.compile")  # of the hooks that note modules
        yield


@contextmanager
def without_one_dnn() -> Iterator[None]:
    """Switch oneDNN off.

    Its gradients of 16-bit 3-D convolutions are not initialised in torch 2.13, and its operator of an LSTM has no
    translation to ONNX.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TF32 acceleration")  # of a setting that stays as it is
        with torch.backends.mkldnn.flags(enabled=False):
            yield


_EXPECTED_LOGS = {
    "torch.onnx._internal.exporter._registration": "torchvision is not installed",
    "onnx_ir._convenience": "Attribute type is ambiguous because it is an empty sequence",
    "onnxscript.optimizer._constant_folding": "Skipping constant folding",
}
"""What the exporter's loggers say of its own code, or of packages that no step needs."""


def _is_unexpected(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_EXPECTED_LOGS[record.name])


@contextmanager
def expected_logs_are_left_out() -> Iterator[None]:
    """While it is active, the exporter does not log what `_EXPECTED_LOGS` has."""
    with ExitStack() as stack:
        for logger in map(logging.getLogger, _EXPECTED_LOGS):
            logger.addFilter(_is_unexpected)
            stack.callback(logger.removeFilter, _is_unexpected)
        yield
