# SPDX-License-Identifier: Apache-2.0

"""A plan: the chosen operators for every site of a model, as data and as a file that users edit.

`docs/report.md` describes the file, `schemas/plan.json` is its schema. Every error of a file names it and the JSON
path. `apply_plan` applies a plan, and checks whether it fits a model.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from poolgrad_lowering.compiler.families.registry import GRADIENT_OPERATORS
from poolgrad_lowering.dialect import OPS
from poolgrad_lowering.dialect.targets import find_target
from poolgrad_lowering.model.diagnostics.errors import PlanError, UnknownTargetError
from poolgrad_lowering.model.diagnostics.text import did_you_mean
from poolgrad_lowering.model.io.model_file import read_bytes

PLAN_VERSION = 1

_IN_FILE = ("site", "layer", "pattern", "operator", "alternatives", "forward")
"""The fields of a choice in a file."""


@dataclass(frozen=True)
class SiteChoice:
    """The choice for one site.

    `site` is its identifier in the report. `operator` is the dialect operator that the gradient becomes, `forward` the
    one that its forward pool becomes; None leaves the node unchanged. `pattern`, `alternatives` and `layer` inform the
    user and have no effect. `where` is the place in a file, for messages.
    """

    site: str
    operator: str | None
    forward: str | None
    pattern: str | None = None
    alternatives: tuple[str, ...] = ()
    where: str = field(default="", compare=False)
    layer: str | None = None


@dataclass(frozen=True)
class LoweringPlan:
    """A choice for every site of a model on a target.

    `target` is the product's name, `model_sha256` the SHA-256 of the model's file in hexadecimal. `trust_defaults` says
    that defaults of graph inputs are constants (`lower`). `where` maps the names of these fields to their places in a
    file, for messages.
    """

    target: str
    model_sha256: str
    sites: tuple[SiteChoice, ...]
    trust_defaults: bool = False
    where: Mapping[str, str] = field(default_factory=dict, compare=False)

    def to_json(self) -> str:
        """The plan as JSON text, for a file."""
        document = {
            "schema_version": PLAN_VERSION,
            "model_sha256": self.model_sha256,
            "target": self.target,
            **({"trust_defaults": True} if self.trust_defaults else {}),
            "sites": [{name: getattr(choice, name) for name in _IN_FILE} for choice in self.sites],
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


_TYPES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    type(None): "null",
}
_PLAN_FIELDS = ("schema_version", "model_sha256", "target", "sites")
_PLAN_NOTES = ("trust_defaults",)
_SITE_FIELDS = ("site", "operator", "forward")
_NOTES = ("layer", "pattern", "alternatives")
"""Optional fields of a site, which inform the user and have no effect."""
_FORWARD_OPERATORS = tuple(op for op in OPS if op not in GRADIENT_OPERATORS)


def read_plan(path: str | os.PathLike[str]) -> LoweringPlan:
    """The plan in a file. Raises `FileError` if the file cannot be read, and `PlanError` if it is not a valid plan."""
    path = Path(path)
    data = read_bytes(path)
    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=_members, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise PlanError(str(path), "it is not UTF-8 text") from error
    except json.JSONDecodeError as error:
        raise PlanError(f"{path}:{error.lineno}", f"not JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise PlanError(str(path), f"not JSON: {error}") from error
    return _plan(_Object(document, str(path), "the plan", _PLAN_FIELDS, _PLAN_NOTES))


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object. Raises `ValueError` for a duplicate name."""
    members = dict(pairs)
    if len(members) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"an object has two members '{name}'")
    return members


def _no_number(name: str) -> NoReturn:
    """Reject NaN and infinities, which Python's parser accepts although RFC 8259 does not."""
    raise ValueError(f"{name} is not a number")


class _Object:
    """An object of the file at the place `where`. It must have all `fields`, may have `notes`, and no other field."""

    def __init__(
        self, value: object, where: str, what: str, fields: Collection[str], notes: Collection[str] = ()
    ) -> None:
        self.where = where
        self._separator = "." if where.endswith("]") else ": "
        self._members: dict[str, Any] = _typed(value, where, what, dict)
        for name in self._members:
            if name not in (*fields, *notes):
                hint = did_you_mean(name, (*fields, *notes)) or f": its fields are {', '.join((*fields, *notes))}"
                raise PlanError(where, f"{what} has no field '{name}'{hint}")
        if missing := [name for name in fields if name not in self._members]:
            raise PlanError(where, f"{what} lacks '{missing[0]}'")

    def place(self, name: str) -> str:
        """The place of a field, for messages: `plan.json: sites[3].operator`."""
        return f"{self.where}{self._separator}{name}"

    def field(self, name: str, *types: type) -> Any:
        """The value of a field, which must have one of the types."""
        return _typed(self._members[name], self.place(name), f"'{name}'", *types)

    def note(self, name: str, kind: type) -> Any:
        """The value of an optional field; None if it is missing or null."""
        return self.field(name, kind, type(None)) if name in self._members else None


def _typed(value: object, where: str, what: str, *types: type) -> Any:
    if type(value) not in types:
        raise PlanError(where, f"{what} must be {' or '.join(_TYPES[kind] for kind in types)}")
    return value


def _plan(document: _Object) -> LoweringPlan:
    version = document.field("schema_version", int)
    if version != PLAN_VERSION:
        place = document.place("schema_version")
        raise PlanError(place, f"'schema_version' is {version}, not {PLAN_VERSION}: write a new plan")
    choices: dict[str, SiteChoice] = {}
    for number, site in enumerate(document.field("sites", list)):
        choice = _choice(_Object(site, document.place(f"sites[{number}]"), "a site", _SITE_FIELDS, _NOTES))
        if choice.site in choices:
            first = choices[choice.site].where
            raise PlanError(choice.where, f"site '{choice.site}' is listed twice, first at {first}")
        choices[choice.site] = choice
    places = {name: document.place(name) for name in _PLAN_FIELDS}
    trusting = bool(document.note("trust_defaults", bool))
    try:
        target = find_target(document.field("target", str)).name
    except UnknownTargetError as error:
        raise PlanError(document.place("target"), str(error)) from error
    return LoweringPlan(target, document.field("model_sha256", str), tuple(choices.values()), trusting, places)


def _choice(site: _Object) -> SiteChoice:
    operator = _operator(site, "operator", GRADIENT_OPERATORS)
    forward = _operator(site, "forward", _FORWARD_OPERATORS)
    if operator is None and forward is not None:
        what = "'forward' must be null if 'operator' is null: a pool is lowered only with its gradient"
        raise PlanError(site.place("forward"), what)
    alternatives = tuple(str(name) for name in site.note("alternatives", list) or ())
    name, pattern, layer = site.field("site", str), site.note("pattern", str), site.note("layer", str)
    return SiteChoice(name, operator, forward, pattern, alternatives, where=site.where, layer=layer)


def _operator(site: _Object, name: str, known: Collection[str]) -> str | None:
    operator: str | None = site.field(name, str, type(None))
    if operator is not None and operator not in known:
        hint = did_you_mean(operator, known) or f": give one of {', '.join(known)}, or null"
        raise PlanError(site.place(name), f"'{name}' is '{operator}', which is not a possible operator{hint}")
    return operator
