# SPDX-License-Identifier: Apache-2.0

"""Trees of tensors, modules and parameters, and the arguments of calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor
from torch._dynamo import OptimizedModule
from torch.optim import Optimizer
from torch.utils._pytree import GetAttrKey, MappingKey, SequenceKey, TreeSpec, tree_flatten_with_path, tree_unflatten

Structure: TypeAlias = TreeSpec
"""How tuples, lists, dictionaries and torch's other trees hold their leaves."""


def flatten(tree: Any) -> tuple[list[tuple[tuple[str, ...], Any]], Structure]:
    """Return the leaves of a tree, each with its path of positions, keys and attributes, and the tree's structure."""
    leaves, structure = tree_flatten_with_path(tree)
    return [(tuple(map(_step, path)), leaf) for path, leaf in leaves], structure


unflatten = tree_unflatten
"""Returns the tree with these leaves and this structure."""


def _step(key: Any) -> str:
    """Return a position, key or attribute of a path as text."""
    if isinstance(key, SequenceKey):
        return str(key.idx)
    if isinstance(key, MappingKey):
        return str(key.key)
    return str(key.name) if isinstance(key, GetAttrKey) else str(key)


CompiledModule = OptimizedModule
"""The class of a compiled module; the module itself is its attribute `_orig_mod`."""


def has_gradient_hooks(parameter: Tensor) -> bool:
    """Whether functions are registered that change a parameter's gradient or read it."""
    registered = (getattr(parameter, name, None) for name in ("_backward_hooks", "_post_accumulate_grad_hooks"))
    return any(registered)


def has_step_hooks(optimizer: Optimizer) -> bool:
    """Whether functions of the user run before or after each step of an optimizer."""
    return bool(optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks)  # noqa: SLF001


def bound(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Iterable[Any]:
    """Return the arguments of a call of a function by position, with its defaults for those that are not given."""
    found = inspect.signature(function).bind(*arguments, **named)
    found.apply_defaults()
    return found.arguments.values()
