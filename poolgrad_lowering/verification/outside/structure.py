# SPDX-License-Identifier: Apache-2.0

"""Compares the structure of two models: finds forbidden differences, and the sites that have to be run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from onnx import FunctionProto, ModelProto

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.verification.graph import roles
from poolgrad_lowering.verification.graph.calls import calls_of
from poolgrad_lowering.verification.graph.flat import Unit, default_opset, function_name, function_unit, main_unit
from poolgrad_lowering.verification.graph.order import in_order
from poolgrad_lowering.verification.graph.types import TensorType, function_types, tensor_types
from poolgrad_lowering.verification.outside.alike import comparable
from poolgrad_lowering.verification.outside.fields import compare_models, compare_units, new_names
from poolgrad_lowering.verification.result import Difference
from poolgrad_lowering.verification.sites.declared import node_flaw
from poolgrad_lowering.verification.sites.expansion import expanded_gradients
from poolgrad_lowering.verification.sites.regions import ChangedRegion, Split, split

Pair = tuple[ModelProto, ModelProto]


@dataclass(frozen=True)
class Obligation:
    """A site with the models that have it in the main graph, their flat graphs, and the types of values."""

    models: Pair
    units: tuple[Unit, Unit]
    region: ChangedRegion
    types: dict[str, TensorType]


def compare_structure(models: Pair) -> tuple[list[Difference], list[Obligation]]:
    """Return the differences outside the sites, and the sites as cases.

    A site in a function is one case for each call with different types or attributes, without a call a difference.
    """
    differences = compare_models(*models)
    given, models = models, (in_order(models[0]), in_order(models[1]))
    ordered = all(map(operator.is_, given, models))
    main = comparable(main_unit(models[0]), main_unit(models[1]))
    parts = split(*main, ordered=ordered)
    sites, others = _sites(main[1], parts, default_opset(models[1]))
    differences += [*_around(main, parts, others), *_flawed(sites, main[1])]
    cases = _cases(models, main, sites)
    for functions in _both_have(models):
        units = comparable(function_unit(functions[0]), function_unit(functions[1]))
        parts = split(*units, ordered=ordered)
        sites, others = _sites(units[1], parts, default_opset(functions[1]))
        differences += [*_around(units, parts, others), *_flawed(sites, units[1])]
        if not sites:
            continue
        calls = list(calls_of(models, functions))
        cases += [case for pair in calls for case in _function_cases(pair, units[0].name)]
        if not calls:
            differences.append(Difference(units[0].name, "differs, and the main graph does not call it: it cannot run"))
    return differences, cases


def exchanged(original: ModelProto, lowered: ModelProto) -> list[Difference]:
    """Return a difference if only the model that was given as the original has nodes of the dialect."""
    if not _has_dialect(original) or _has_dialect(lowered):
        return []
    what = (
        f"the first model has nodes of domain {DOMAIN}, the second one has none: they are exchanged, the original is "
    )
    return [Difference("models", f"{what}given first")]


def _has_dialect(model: ModelProto) -> bool:
    units = [main_unit(model), *map(function_unit, model.functions)]
    return any(roles.is_dialect(node) for unit in units for node in unit.nodes)


def _sites(lowered: Unit, parts: Split, opset: int) -> tuple[list[ChangedRegion], list[ChangedRegion]]:
    """Return the regions with a node of the dialect or the nodes of a gradient's function body, and the others."""
    found = []
    others = []
    for region in parts.regions:
        expanded = expanded_gradients(region.added, lowered.constants, opset)
        if expanded or any(map(roles.is_dialect, region.added)):
            found.append(replace(region, expanded=tuple(expanded)))
        else:
            others.append(region)
    return found, others


def _around(units: tuple[Unit, Unit], parts: Split, others: Iterable[ChangedRegion]) -> list[Difference]:
    without_dialect = [
        Difference(region.unit, f"{_count(region)} at '{region.name}' differ, without a node of the dialect")
        for region in others
    ]
    return [*parts.differences, *compare_units(*units), *new_names(*units), *without_dialect]


def _flawed(sites: Iterable[ChangedRegion], lowered: Unit) -> list[Difference]:
    """Return a difference for each new node that is not as its operator declares it, or that nothing reads."""
    found = []
    for region in sites:
        for node in region.added:
            flaw = node_flaw(node) if roles.is_dialect(node) else None
            if flaw is None and not any(value in lowered.read or value in region.outputs for value in node.outputs):
                flaw = "nothing reads its outputs"
            if flaw is not None:
                found.append(Difference(region.unit, f"node '{node.label}' ({node.op[1]}): {flaw}"))
    return found


def _count(region: ChangedRegion) -> str:
    return f"{len(region.removed)} removed and {len(region.added)} added nodes"


def _cases(
    models: Pair,
    units: tuple[Unit, Unit],
    sites: Sequence[ChangedRegion],
    types_of: Callable[[ModelProto], dict[str, TensorType]] = tensor_types,
) -> list[Obligation]:
    types = types_of(models[0]) if sites else {}
    return [Obligation(models, units, region, types) for region in sites]


def _function_cases(models: Pair, name: str) -> Iterable[Obligation]:
    units = comparable(main_unit(models[0]), main_unit(models[1]))
    parts = split(*units, ordered=False)
    sites, _ = _sites(units[1], parts, default_opset(models[1]))
    found = _cases(models, units, sites, function_types)
    return [replace(case, region=replace(case.region, unit=name)) for case in found]


def _both_have(models: Pair) -> Iterator[tuple[FunctionProto, FunctionProto]]:
    theirs = {function_name(function): function for function in models[1].functions}
    for function in models[0].functions:
        if function_name(function) in theirs:
            yield function, theirs[function_name(function)]
