# SPDX-License-Identifier: Apache-2.0

"""The result of a self-test as text; if it passes, only versions, chip and functions differ between machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from poolgrad_lowering.runtime.self_test.cases import ELEMENT_TYPES
from poolgrad_lowering.runtime.self_test.result import Row, SelfTest

_TYPES = [element.name for element in ELEMENT_TYPES]


def to_text(found: SelfTest) -> str:
    """Return the backend, a table of operators, a table of sessions, the checks that are not ok, and the totals."""
    return "".join(f"{line}\n" for line in _lines(found))


def _lines(found: SelfTest) -> Iterator[str]:
    yield _machine(found)
    if found.problem:
        yield f"nothing was tested: {found.problem}"
        return
    operators = [row for row in found.rows if row.operator]
    yield ""
    yield from _table([["operator", "windows", "runs by", *_TYPES], *_operator_rows(operators)])
    yield ""
    yield from _table([["session", "status"], *([row.title, row.status] for row in found.rows if not row.operator)])
    yield ""
    yield from _details(found.rows)
    yield ", ".join(f"{count} {status}" for status, count in found.counts.items())


def _machine(found: SelfTest) -> str:
    parts = [f"backend {found.backend or 'none'}"]
    parts += [
        f"{row.soc} ({row.product})" for row in found.machine.backends if row.backend == found.backend and row.soc
    ]
    parts += [f"onnxruntime {found.machine.onnxruntime.found or 'none'}", f"poolgrad-lowering {found.machine.package}"]
    return ", ".join(parts)


def _operator_rows(rows: Sequence[Row]) -> Iterator[list[str]]:
    """Yield a row for each operator and kind of windows, with a status for each element type."""
    statuses: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in rows:
        key = (str(row.operator), row.title, row.function or "–")
        statuses.setdefault(key, {})[str(row.element_type)] = row.status
    for key, by_type in statuses.items():
        yield [*key, *(by_type[name] for name in _TYPES)]


def _details(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each distinct failure, with the number of checks that have it."""
    names: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.status != "ok":
            name = f"{row.operator} {row.title} {row.element_type}" if row.operator else row.title
            names.setdefault((row.status, str(row.detail)), []).append(name)
    for (status, detail), (first, *others) in names.items():
        yield f"{first}{f' and {len(others)} more' if others else ''}: {status}: {detail}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield lines with left-aligned columns; the last one is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join([*padded[:-1], row[-1]])
