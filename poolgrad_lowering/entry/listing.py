# SPDX-License-Identifier: Apache-2.0

"""What this installation knows: its targets and its forms, as records for programs and for the command."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from poolgrad_lowering.dialect.targets import DEFAULT_TARGET, TARGETS, Target, aclnn_functions
from poolgrad_lowering.model.ir.tensors import type_name
from poolgrad_lowering.patterns import all_forms, broken_plugins


@dataclass(frozen=True)
class OperatorRecord:
    """An operator of domain `npu` on a target: the aclnn functions that run it, its element types and its limit.

    `element_types` are names such as "float16". `max_plane` is the largest plane, in elements.
    """

    name: str
    functions: tuple[str, ...]
    element_types: tuple[str, ...]
    max_plane: int


@dataclass(frozen=True)
class TargetRecord:
    """A target: its name and its SoC names, each a value of `target`; its title in texts; and its operators.

    Without operators every gradient is refused for this target.
    """

    name: str
    title: str
    is_default: bool
    socs: tuple[str, ...]
    operators: tuple[OperatorRecord, ...]


@dataclass(frozen=True)
class PatternRecord:
    """A form: its name, the operators of its anchors as pairs of domain and op type, and a summary.

    `problem` says why a form of another package is not used; it then has no anchors and no summary. None if it is used.
    """

    name: str
    anchors: tuple[tuple[str, str], ...]
    summary: str
    problem: str | None = None


def list_targets() -> list[TargetRecord]:
    """Return the targets that models are lowered for, those with operators first.

    Example:
        >>> import poolgrad_lowering
        >>> [target.name for target in poolgrad_lowering.list_targets() if target.is_default]
        ['atlas-a2']
    """
    return [
        TargetRecord(target.name, target.title, target.name == DEFAULT_TARGET, target.socs, _operators(target))
        for target in TARGETS.values()
    ]


def list_patterns() -> list[PatternRecord]:
    """Return the forms that are recognised: this package's by name, then those of others, those not used last."""
    used = [PatternRecord(form.name, form.anchors, form.summary) for form in all_forms()]
    return [*used, *(PatternRecord(plugin.name, (), "", plugin.reason) for plugin in broken_plugins())]


def type_names(element_types: Iterable[int]) -> tuple[str, ...]:
    """Return the names of element types (`TensorProto.DataType`) in the order of their numbers: "float32"."""
    return tuple(map(type_name, sorted(element_types)))


def _operators(target: Target) -> tuple[OperatorRecord, ...]:
    return tuple(
        OperatorRecord(name, aclnn_functions(name), type_names(support.element_types), support.max_plane)
        for name, support in target.operators.items()
    )
