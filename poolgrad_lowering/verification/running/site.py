# SPDX-License-Identifier: Apache-2.0

"""Verifies one site: runs both sides on the same data, and finds the smallest data for which they differ.

Such data is written with both sides as a reproducer.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import ModelProto

from poolgrad_lowering.model.diagnostics.errors import explained
from poolgrad_lowering.verification.arrays import AnyArray, NamedArrays
from poolgrad_lowering.verification.graph import roles
from poolgrad_lowering.verification.graph.types import TensorType, TensorTypes, value_info
from poolgrad_lowering.verification.graph.windows import known_integers, windows_of
from poolgrad_lowering.verification.result import Mismatch, SiteResult, UnprovenError
from poolgrad_lowering.verification.running import averages, contract, evaluator
from poolgrad_lowering.verification.running.compare import compare
from poolgrad_lowering.verification.running.data import DRAWN, ONLY_MULTIPLES, Divisors, draw, excluded_data
from poolgrad_lowering.verification.running.sizes import ConcreteShape, choices, element_count, shapes
from poolgrad_lowering.verification.sites.cut import Cut, Role
from poolgrad_lowering.verification.sites.declared import node_flaw
from poolgrad_lowering.verification.sites.regions import ChangedRegion

logger = logging.getLogger(__name__)

DEFAULT_RUNS = 9
"""The number of kinds of data, so that a site with one plane gets each of them."""
LARGE = 1 << 18
"""The number of input elements above which a site of fixed size is large: as a rule one run has every kind of data."""
LARGE_RUNS = 2
"""The fewest runs of a large site. One with fewer planes than kinds of data runs until each kind was drawn."""
_MOST_ELEMENTS = 1 << 21
"""The number of input elements above which no further values of symbolic sizes are tried."""


class Settings(NamedTuple):
    """How sites are run. `provider` runs the lowered side, or None for the function bodies.

    Without a number of `runs` there are enough for every kind of data and for all sizes of a site.
    """

    runs: int | None = None
    seed: int = 0
    provider: evaluator.Provider | None = None


class Failure(NamedTuple):
    """A case in which the sides of a site differ: the models of both sides and the inputs."""

    original: ModelProto
    lowered: ModelProto
    feeds: NamedArrays
    mismatch: Mismatch


class DifferentialTest:
    """Both sides of a cut, ready to run. The constructor raises `UnprovenError` if one cannot run."""

    def __init__(
        self, cut: Cut, sources: tuple[ModelProto, ModelProto], types: TensorTypes, settings: Settings
    ) -> None:
        self._cut, self._sources, self._settings = cut, sources, settings
        self._types = _completed_types(cut, types)
        self._original = evaluator.side_model(sources[0], cut, cut.original, self._types)
        self._lowered = evaluator.side_model(sources[1], cut, cut.lowered, self._types)
        sound = [node for node in cut.region.added if roles.is_dialect(node) and node_flaw(node) is None]
        self._sound = sorted(sound, key=lambda node: not roles.is_dialect_gradient(node))
        made = {value for node in cut.lowered for value in node.outputs if value}
        operands = [value for node in self._sound for value in (*node.inputs, *node.outputs[1:])]
        operands += [node.outputs[0] for node in self._sound if roles.is_average_gradient(node)]
        watched = [value for value in operands if value in made]
        running = evaluator.side_model(
            sources[1], cut, cut.lowered, self._types, dict.fromkeys([*cut.region.outputs, *watched])
        )
        provider = settings.provider
        self._expect = evaluator.reference_runner(self._original)
        self._find: evaluator.Runner = (
            evaluator.reference_runner(running) if provider is None else evaluator.provider_runner(running, provider)
        )
        self._constants = {value: onnx.numpy_helper.to_array(tensor) for value, tensor in cut.constants.items()}
        self.not_drawn = excluded_data(cut, self._types, on_provider=provider is not None)
        self._divisors: dict[tuple[tuple[str, ConcreteShape], ...], dict[str, Divisors]] = {}
        self._of_averages = ONLY_MULTIPLES in self.not_drawn
        self._rounds = self._of_averages and (provider is not None or averages.multiplies_by_fractions(cut))

    def check(self) -> tuple[int, Failure | None]:
        """Return the number of runs, and the first case in which the sides differ, at the smallest sizes, or None.

        Raises `UnprovenError` if the original does not run with any of the sizes.
        """
        usable, reason = self._sizes()
        if not usable:
            raise UnprovenError(reason)
        runs = self._settings.runs or max(DEFAULT_RUNS, len(usable))
        if not self._settings.runs and len(usable) == 1 and element_count(usable[0]) > LARGE:
            planes = min((math.prod(shape[:2]) for shape in usable[0].values() if len(shape) > 2), default=1)
            runs = max(LARGE_RUNS, -(-DEFAULT_RUNS // max(planes, 1)))
        for run in range(runs):
            if (failure := self._run(run, usable[run % len(usable)])) is not None:
                smaller = (self._run(run, sizes) for sizes in usable[: run % len(usable)])
                return run + 1, next((found for found in smaller if found is not None), failure)
        return runs, None

    def _sizes(self) -> tuple[list[dict[str, ConcreteShape]], str]:
        """Return the choices of shapes with which the original runs, and the reason why the last other one fails."""
        usable: list[dict[str, ConcreteShape]] = []
        reason = ""
        for chosen in choices(self._cut, self._types):
            try:
                found = shapes(self._cut, self._sources, self._types, chosen)
                if usable and element_count(found) > _MOST_ELEMENTS:
                    break
                if chosen:
                    self._expect(self._feeds(0, found))
            except UnprovenError:
                raise
            except Exception as error:  # the evaluator raises errors of many classes for wrong sizes
                reason = f"the original site does not run: {evaluator.first_line(error)}"
                logger.info("sizes %s: %s", chosen, reason)
                continue
            usable.append(found)
        return usable, reason

    def _feeds(self, run: int, sizes: Mapping[str, ConcreteShape]) -> dict[str, AnyArray]:
        random, types = np.random.default_rng([self._settings.seed, run]), self._types
        divided = self._divisors_at(sizes)
        drawn = partial(draw, random, run=run, not_drawn=self.not_drawn)
        return {
            value: drawn(sizes[value], types[value].element, role=role, divided=divided.get(value))
            for value, role in self._cut.inputs.items()
        }

    def _divisors_at(self, sizes: Mapping[str, ConcreteShape]) -> dict[str, Divisors]:
        """Return what elements of the incoming gradients are divided by at these sizes, for average pools."""
        if not self._of_averages:
            return {}
        key = tuple(sorted(sizes.items()))
        if key not in self._divisors:
            self._divisors[key] = averages.divisors(self._cut, self._sources[1], sizes)
        return self._divisors[key]

    def _run(self, run: int, sizes: Mapping[str, ConcreteShape]) -> Failure | None:
        feeds = self._feeds(run, sizes)
        try:
            expected = self._expect(feeds)
        except Exception as error:
            raise UnprovenError(f"the original site does not run: {evaluator.first_line(error)}") from error
        mismatch = self._mismatch(run, feeds, expected)
        return None if mismatch is None else Failure(self._original, self._lowered, feeds, mismatch)

    def _mismatch(self, run: int, feeds: NamedArrays, expected: NamedArrays) -> Mismatch | None:
        try:
            found = self._find(feeds)
        except Exception as error:  # as above; the original ran with these inputs
            return Mismatch(run, self._cut.region.name, f"the lowered site does not run: {evaluator.first_line(error)}")
        divided = self._divisors_at({value: array.shape for value, array in feeds.items()})
        exact = not self._of_averages or averages.are_exact(self._cut, divided, feeds)
        bounds: NamedArrays = {}
        for name, value in expected.items():
            bad = compare(value, found[name], run=run, output=name)
            if bad and (self._rounds or not exact):
                bounds = bounds or averages.rounding_bounds(self._expect, self._cut, divided, feeds)
                bad = compare(value, found[name], run=run, output=name, bound=bounds.get(name))
            if bad:  # data of averages is drawn for the windows of the attributes: what contradicts them is the cause
                return (self._of_averages and self._contract_mismatch(run, feeds, found, exact=exact)) or bad
        return self._contract_mismatch(run, feeds, found, exact=exact)

    def _contract_mismatch(self, run: int, feeds: NamedArrays, found: NamedArrays, *, exact: bool) -> Mismatch | None:
        """Return the first violation of the contract between attributes and operands of the dialect's nodes."""
        known = {**self._constants, **feeds, **found}
        for node in self._sound:
            name, operands = node.outputs[0], [known[value] for value in (*node.inputs, *node.outputs[1:])]
            if roles.is_average_gradient(node):
                by_body = exact and self._settings.provider is None
                wrong = contract.check_average_contract(node, operands, known[name], exact=by_body)
            elif roles.is_dialect_gradient(node):
                wrong = contract.check_gradient_contract(node, operands)
            else:
                wrong = contract.check_pool_contract(node, *operands)
            if wrong is not None:
                return Mismatch(run, name, wrong)
        return None


def describe(region: ChangedRegion) -> SiteResult:
    """Return the result of a site before it is verified."""
    gradients = tuple(value for node in region.added if roles.is_dialect_gradient(node) for value in node.outputs[:1])
    expanded = tuple(gradient.result for gradient in region.expanded)
    what = region.identifier, region.unit, "unproven", gradients + expanded, len(region.removed), len(region.added)
    return SiteResult(*what, expanded=expanded, layer=region.layer)


def _completed_types(cut: Cut, types: TensorTypes) -> dict[str, TensorType]:
    """Return the types with what the site's operators tell of its inputs.

    A pooled tensor of unknown shape gets the rank that ONNX's MaxPool requires. An incoming gradient of unknown or
    claimed type gets the element type of the pooled tensor. Raises `UnprovenError` for an input of unknown type, or of
    a type for which no data is generated.
    """
    known = dict(types)
    pooled = [value for value, role in cut.inputs.items() if role is Role.POOLED and value in types]
    constants = known_integers(cut.original, cut.constants)
    for node in cut.original:
        value = roles.pooled(node)
        if value in pooled and node.op == ("", "MaxPool") and known[value].dims is None:
            axes = windows_of(node, constants)
            known[value] = known[value]._replace(dims=(None,) * (2 + len(axes)) if axes else None)
    for value, role in cut.inputs.items():
        if role is Role.GRADIENT and pooled and (value not in known or known[value].claimed):
            known[value] = TensorType(known[pooled[0]].element, known[value].dims if value in known else None)
        if value not in known:
            raise UnprovenError(f"the type of '{value}' is not known")
    for value in cut.inputs:
        if known[value].element not in DRAWN:
            raise UnprovenError(f"'{value}' has an element type for which no data is generated")
    return known


def write_reproducer(folder: Path, name: str, failure: Failure) -> Path:
    """Write `original.onnx`, `lowered.onnx` and `inputs.npz` into a subfolder of `folder`, and return the subfolder.

    The models have the sizes of the case. Types that numpy does not have are stored as their bits. Raises `FileError`.
    """
    place = folder / (re.sub(r"[^\w.-]+", "_", name).strip("_.") or "site")
    with explained(f"cannot write a reproducer into '{place}'"):
        place.mkdir(parents=True, exist_ok=True)
        for model, file in ((failure.original, "original.onnx"), (failure.lowered, "lowered.onnx")):
            (place / file).write_bytes(_with_sizes(model, failure).SerializeToString())
        plain = {
            name: array if array.dtype.kind in "biuf" else array.view(f"u{array.dtype.itemsize}")
            for name, array in failure.feeds.items()
        }
        np.savez(place / "inputs.npz", **plain)  # type: ignore[arg-type]
    return place


def _with_sizes(model: ModelProto, failure: Failure) -> ModelProto:
    sized = deepcopy(model)
    for value in sized.graph.input:
        of_case = TensorType(value.type.tensor_type.elem_type, failure.feeds[value.name].shape)
        value.CopyFrom(value_info(value.name, of_case))
    return sized
