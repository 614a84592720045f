# SPDX-License-Identifier: Apache-2.0

"""The row of the catalogue of diagnostics: a code with what it means, what to do about it, and how much it matters.

The catalogue is five enums of such rows, each in its module beside this one: `Code`, `DefinitionCode`, `Fault`,
`Obstacle`, `NoteCode`. The status of an anchor is beside it.
"""

from __future__ import annotations

from enum import Enum


class Severity(Enum):
    """ERROR: a model, gradient, pool or node is refused. WARNING: the user has to change or check something else."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Diagnostic(Enum):
    """A code, with its meaning and advice as sentences for users. A row is `ROW_LENGTH = "It is …", "Make it …"`.

    The value, by which reports and docs name the code, is made of the row's name: `row-length`.
    """

    value: str

    def __init__(
        self, meaning: str, advice: str = "", severity: Severity = Severity.ERROR, of_constants: bool = False
    ) -> None:
        if not advice:
            raise TypeError(f"{type(self).__name__}.{self.name} has no advice: a row is a meaning and an advice")
        self._value_ = self.name.lower().replace("_", "-")
        self.meaning = meaning
        self.advice = advice
        self.severity = severity
        self.of_constants = of_constants

    @classmethod
    def _missing_(cls, value: object) -> Diagnostic | None:
        """Return the row with a value; `Enum` itself looks for the tuples that rows are written as."""
        return next((row for row in cls if row.value == value), None)


class Status(str, Enum):
    """What became of an anchor, in the order in which people read anchors. The values are part of the report.

    An unrelated anchor is proven to be no gradient of a pool; it has a code, and does not count as refused.
    """

    LOWERED = "lowered"
    REFUSED = "refused"
    UNRELATED = "unrelated"


def reading_order(status: str) -> int:
    """Sort key of a status: its position in `Status`."""
    return list(Status).index(Status(status))
