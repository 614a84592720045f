# SPDX-License-Identifier: Apache-2.0

"""What a conversion ends with: ATC's error codes, and messages in this project's own words."""

from __future__ import annotations

from dataclasses import dataclass

OPTION_VALUE = "E10001"
OPTION_SYNTAX = "E10002"
OPTION_SIZE = "E10011"
OPTION_RANGE = "E10013"
OPTION_NUMBER = "E10014"
NO_PROTOTYPE = "E10501"
PLUGIN_FAILED = "E11010"
NAME_REPEATED = "E13009"
TYPE_UNREGISTERED = "E13010"
NO_INPUT_OR_OUTPUT = "E16001"
NO_GRAPH = "E16004"
INNER = "E19999"
NO_KERNEL = "EZ3003"
"""The operator library of the SoC has no such operator, or none for these types and formats."""
OPERATOR_INNER = "EZ9999"
"""Shape inference or tiling refuses; newer releases have more exact codes for some of the reasons."""


@dataclass(frozen=True)
class Fault:
    """One error, as ATC would print it."""

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class GeError(Exception):
    """The conversion ends.

    Attributes:
        faults: the errors that were found, in their order: several only where GE goes on to look for more.
    """

    def __init__(self, *faults: Fault) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults

    @classmethod
    def of(cls, code: str, message: str) -> GeError:
        """Return the exception for one error."""
        return cls(Fault(code, message))
