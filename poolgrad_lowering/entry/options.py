# SPDX-License-Identifier: Apache-2.0

"""The options of a lowering from file to file."""

from __future__ import annotations

from dataclasses import dataclass

from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.model.io.limits import DEFAULT_LIMITS, Limits


@dataclass(frozen=True, kw_only=True)
class FileOptions(Options):
    """The parameters of `lower_file` of the same names, with their defaults."""

    limits: Limits = DEFAULT_LIMITS
    strict: bool = False
    verify: bool = False
    copy_external: bool = False
    standard: bool = False
