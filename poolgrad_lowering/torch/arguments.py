# SPDX-License-Identifier: Apache-2.0

"""The arguments of a model's forward and the target of its loss: which tensors they hold, and by which names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.torch.dynamic_shapes import DynamicShapes, SymbolicSizes, symbolic_sizes
from poolgrad_lowering.torch.internals.trees import Structure, flatten, unflatten

Examples = Sequence[Any] | Mapping[str, Any]
"""Arguments of forward, by position or by name."""


@dataclass(frozen=True)
class Arguments:
    """Positional and keyword arguments and a target, with their tensors apart.

    `_names` are those of all arguments. A tensor has the name of its parameter, or `target`; within tuples, lists and
    dictionaries the position or the key follows after a dot: `x.0`, `target.boxes`. What is no tensor, a number for
    example, is a constant of the step.
    """

    tensors: Mapping[str, Tensor]
    _names: tuple[str, ...]
    _leaves: tuple[Any, ...]
    _structure: Structure

    def symbolic_sizes(self, shapes: DynamicShapes | None, *, dynamic_batch: bool) -> SymbolicSizes:
        """Return the symbolic sizes of the tensors. Raises `ValueError` and `TypeError` if they cannot be those."""
        return symbolic_sizes(self.tensors, self._named(shapes or {}), dynamic_batch=dynamic_batch)

    def _named(self, given: DynamicShapes) -> list[tuple[str, Any]]:
        """Return what is given for the tensors, by their names, from a tuple or a mapping in the form of the examples.

        None stands for nothing. Raises `ValueError` if there is no such argument.
        """
        if isinstance(given, Mapping):
            pairs = list(given.items())
        elif len(given) == len(self._names):
            pairs = list(zip(self._names, given, strict=True))
        else:
            raise ValueError(f"dynamic_shapes has {len(given)} entries for {len(self._names)} example inputs")
        found: list[tuple[str, Any]] = []
        while pairs:
            name, entry = pairs.pop(0)
            if name in self.tensors:
                found += [] if entry is None else [(name, entry)]
            elif isinstance(entry, (Mapping, list, tuple)) and any(own.startswith(f"{name}.") for own in self.tensors):
                parts = entry.items() if isinstance(entry, Mapping) else enumerate(entry)
                pairs += [(f"{name}.{key}", part) for key, part in parts]
            elif entry is not None:
                raise ValueError(f"dynamic_shapes names '{name}', and the example inputs are {', '.join(self.tensors)}")
        return found

    def rebuild(self, tensors: Sequence[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        """Return positional and keyword arguments and the target with other tensors in the place of these."""
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, Tensor) else leaf for leaf in self._leaves]
        *positional, keywords, target = unflatten(leaves, self._structure)
        return tuple(value for each in positional for value in each.values()), keywords, target.get(names.TARGET)


def find_arguments(model: nn.Module, examples: Examples, *, has_target: bool) -> Arguments:
    """Return the example inputs as arguments: a tuple, whose last entry is the target, or a mapping with "target".

    Raises:
        TypeError: they are neither.
        ValueError: the target is missing, there is no tensor, or two tensors get one name.
    """
    positional, keywords, target = _divided(examples, has_target=has_target)
    parameters = inspect.signature(model.forward).parameters.values()
    own = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    own += [f"input_{position}" for position in range(len(own), len(positional))]
    pairs = zip(own, positional, strict=False)
    named = [*({name: value} for name, value in pairs), keywords, {names.TARGET: target} if has_target else {}]
    leaves, structure = flatten(named)
    tensors: dict[str, Tensor] = {}
    for (_, *path), leaf in leaves:
        if isinstance(leaf, Tensor):
            name = ".".join(path)
            if name in tensors or name == names.LEARNING_RATE:
                raise ValueError(f"two inputs of the step would be '{name}': give the example inputs another name")
            tensors[name] = leaf
    if not tensors:
        raise ValueError("example_inputs hold no tensor of PyTorch; of an array, torch.from_numpy makes one")
    everything = tuple(name for part in named for name in part)
    return Arguments(tensors, everything, tuple(leaf for _, leaf in leaves), structure)


def _divided(examples: Any, *, has_target: bool) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    if isinstance(examples, Mapping):
        keywords = dict(examples)
        if has_target and names.TARGET not in keywords:
            raise ValueError("example_inputs lack 'target', the second argument of the loss")
        return (), keywords, keywords.pop(names.TARGET) if has_target else None
    if not isinstance(examples, Sequence):
        target = ", and the target as the last one" if has_target else ""
        raise TypeError(
            f"example_inputs is a {type(examples).__name__}; it takes a tuple: the arguments of the model's "
            f"forward{target}; or a mapping with their names"
        )
    if not has_target:
        return tuple(examples), {}, None
    if len(examples) < 2:
        raise ValueError(
            "example_inputs lack the target: they are the arguments of the model's forward, and behind them the target"
        )
    return tuple(examples[:-1]), {}, examples[-1]
