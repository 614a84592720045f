# SPDX-License-Identifier: Apache-2.0

"""The warning about external data that is missing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataWarning:
    """External data that is not available.

    `file` is the file's location as the model has it, `tensor` the place of a tensor without data, `reason` a sentence.
    """

    file: str
    tensor: str
    reason: str
