"""LoweredOp files read: every fault is said with file and line. Whether a plan fits a model is asked elsewhere."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from poolgrad_lowering.diagnostics.errors import PlanError, UnknownTargetError
from poolgrad_lowering.diagnostics.suggestions import did_you_mean
from poolgrad_lowering.dialect import OPS
from poolgrad_lowering.io.model_file import read_bytes
from poolgrad_lowering.legality.alternatives import GRADIENT_OPERATORS
from poolgrad_lowering.legality.targets import find_target
from poolgrad_lowering.plans.json_lines import JsonFault, Located, parse
from poolgrad_lowering.plans.lowering_plan import PLAN_VERSION, LoweringPlan, SiteChoice

_TYPES: dict[type, str] = {dict: "an object", list: "a list", str: "a text", int: "a whole number", type(None): "null"}
_PLAN_FIELDS = ("schema_version", "model_sha256", "target", "sites")
_SITE_FIELDS = ("site", "operator", "forward")
_NOTES = ("pattern", "alternatives")
"""Fields of a site that are there for readers."""
_FORWARD_OPERATORS = tuple(op for op in OPS if op not in GRADIENT_OPERATORS)


def read_plan(path: str | os.PathLike[str]) -> LoweringPlan:
    """The plan in a file. Raises `FileError` where it cannot be read, and `PlanError`."""
    path = Path(path)
    data = read_bytes(path)
    try:
        return _plan(_Object(parse(data.decode("utf-8")), str(path), "the plan", _PLAN_FIELDS))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PlanError(f"{path}:{line}", "it is no UTF-8 text") from error
    except JsonFault as fault:
        raise PlanError(f"{path}:{fault.line}", fault.what) from fault


class _Object:
    """An object of the file: the fields that it has to have, and no other but notes."""

    def __init__(
        self, located: Located, file: str, what: str, fields: Collection[str], notes: Collection[str] = ()
    ) -> None:
        self.file = file
        self._line = located.line
        self._members = self._typed(located, what, dict)[0]
        for name, (line, _) in self._members.items():
            if name not in (*fields, *notes):
                hint = did_you_mean(name, (*fields, *notes)) or f": its fields are {', '.join((*fields, *notes))}"
                raise PlanError(f"{file}:{line}", f"{what} has no field '{name}'{hint}")
        if missing := [name for name in fields if name not in self._members]:
            raise PlanError(f"{file}:{self._line}", f"{what} lacks '{missing[0]}'")

    def where(self, name: str) -> str:
        """The place of a field, for messages."""
        return f"{self.file}:{self._members[name][0] if name in self._members else self._line}"

    def field(self, name: str, *types: type) -> tuple[Any, str]:
        """The value of a field, which has to be one of some types, and its place."""
        return self._typed(self._members[name][1], f"'{name}'", *types)

    def note(self, name: str, kind: type) -> Any:
        """The value of a field that may be missing or null."""
        return self.field(name, kind, type(None))[0] if name in self._members else None

    def _typed(self, located: Located, what: str, *types: type) -> tuple[Any, str]:
        where = f"{self.file}:{located.line}"
        if type(located.value) not in types:
            raise PlanError(where, f"{what} has to be {' or '.join(_TYPES[kind] for kind in types)}")
        return located.value, where


def _plan(document: _Object) -> LoweringPlan:
    version, where = document.field("schema_version", int)
    if version != PLAN_VERSION:
        raise PlanError(where, f"'schema_version' is {version}, not {PLAN_VERSION}: write the plan anew")
    sites, sites_where = document.field("sites", list)
    choices: dict[str, SiteChoice] = {}
    for site in sites:
        choice = _choice(_Object(site, document.file, "a site", _SITE_FIELDS, _NOTES))
        if choice.site in choices:
            raise PlanError(choice.where, f"site '{choice.site}' is there twice, first at {choices[choice.site].where}")
        choices[choice.site] = choice
    places = {name: document.where(name) for name in _PLAN_FIELDS} | {"sites": sites_where}
    return LoweringPlan(_target(document), document.field("model_sha256", str)[0], tuple(choices.values()), places)


def _target(document: _Object) -> str:
    name, where = document.field("target", str)
    try:
        return find_target(name).name
    except UnknownTargetError as error:
        raise PlanError(where, str(error)) from error


def _choice(site: _Object) -> SiteChoice:
    name, where = site.field("site", str)
    operator = _operator(site, "operator", GRADIENT_OPERATORS)
    forward = _operator(site, "forward", _FORWARD_OPERATORS)
    if operator is None and forward is not None:
        raise PlanError(site.where("forward"), "'forward' has to be null where 'operator' is: a pool moves with it")
    alternatives = [str(located.value) for located in site.note("alternatives", list) or []]
    return SiteChoice(name, operator, forward, site.note("pattern", str), tuple(alternatives), where)


def _operator(site: _Object, name: str, known: Collection[str]) -> str | None:
    operator, where = site.field(name, str, type(None))
    if operator is not None and operator not in known:
        hint = did_you_mean(operator, known) or f": give one of {', '.join(known)}, or null"
        raise PlanError(where, f"'{name}' is '{operator}', which is no operator to put there{hint}")
    return None if operator is None else str(operator)
