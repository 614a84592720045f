# SPDX-License-Identifier: Apache-2.0

"""A model runs with other tensors, and is afterwards what it was before."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from poolgrad_lowering.torch.internals.caches import caches_without_fakes, content

CONTAINERS = (dict, list, set, deque)
_NO_STATE = {*sys.stdlib_module_names, "torch", "numpy"}
"""The packages whose objects are not looked into: some are shared by all of a program, as loggers are."""
_WITH_STATE = (nn.Module, SimpleNamespace)
"""Classes of them whose objects are."""


@contextmanager
def restored(model: nn.Module) -> Iterator[None]:
    """After it, also after an error, the attributes of all modules and the state of random numbers are as before it.

    Nor do caches of functions keep tensors of a trace that was made in it.
    """
    with caches_without_fakes(), attributes_restored(model), random_numbers_restored():
        yield


@contextmanager
def random_numbers_restored() -> Iterator[None]:
    """After it, also after an error, the state of torch's, Python's and numpy's random numbers is as before it."""
    in_python, in_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(in_python)
        np.random.set_state(in_numpy)


@contextmanager
def attributes_restored(model: nn.Module) -> Iterator[None]:
    """After it, also after an error, the attributes of all modules are as before it.

    Attributes are parameters, buffers, submodules, modes, hooks, and what else a module holds. So are the elements of
    lists, dictionaries and sets that are reached from them, and the attributes of other objects. The numbers in a
    tensor are not restored: a trace changes none.
    """
    kept = [(held, dict(held) if isinstance(held, dict) else list(held)) for held in _containers(model)]
    try:
        yield
    finally:
        for held, before in kept:
            _restore(held, before)


@contextmanager
def numbers_restored(model: nn.Module) -> Iterator[None]:
    """After it, also after an error, the tensors and gradients of all modules have the numbers that they had before."""
    tensors = {value for part in model.modules() for value in vars(part).values() if isinstance(value, Tensor)}
    kept = [(tensor, tensor.detach().clone()) for tensor in tensors.union(model.parameters(), model.buffers())]
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    model.zero_grad(set_to_none=True)
    try:
        yield
    finally:
        for tensor, before in kept:
            tensor.data.copy_(before)
        for parameter, gradient in gradients:
            parameter.grad = gradient


def replace(model: nn.Module, tensors: Mapping[Tensor, Tensor]) -> None:
    """Put other tensors in the place of parameters and buffers that have one, under all names of each.

    `attributes_restored` undoes it.
    """
    for part in model.modules():
        for entries in (part._parameters, part._buffers):  # noqa: SLF001 - an assignment wants a Parameter
            entries.update({name: tensors.get(value, value) for name, value in entries.items() if value is not None})


def _restore(held: Any, before: Any) -> None:
    """Give a container the elements that it had, unless it has them."""
    if identities(held) == identities(before):
        return
    held.clear()
    if isinstance(held, (list, deque)):
        held.extend(before)
    else:
        held.update(before)


def identities(held: Any) -> list[int]:
    """Return the identities of the elements of a container; of a dictionary, those of its keys too."""
    return list(map(id, (*held, *held.values()) if isinstance(held, dict) else held))


def _containers(model: nn.Module) -> list[Any]:
    """Return the lists, dictionaries and sets that are reached from a model; one dictionary has an object's attributes.

    They are kept alive by the result, so that no other object gets the identity of one.
    """
    found: dict[int, Any] = {}
    left: list[Any] = [model]
    while left:
        value = left.pop()
        if id(value) not in found:
            found[id(value)] = value
            left.extend(iter(_parts(value)))  # a tuple of a class of its own may have no length
    return [value for value in found.values() if isinstance(value, CONTAINERS)]


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return value
    if isinstance(value, MethodType):
        return value.__self__, value.__func__
    if isinstance(value, FunctionType):
        return map(content, value.__closure__ or ())
    if isinstance(value, (Tensor, type, ModuleType)):
        return ()
    is_shared = type(value).__module__.partition(".")[0] in _NO_STATE
    return [vars(value)] if hasattr(value, "__dict__") and (not is_shared or isinstance(value, _WITH_STATE)) else ()
