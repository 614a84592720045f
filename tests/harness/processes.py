# SPDX-License-Identifier: Apache-2.0

"""New interpreters that run the package under test."""

from __future__ import annotations

import os
from pathlib import Path

import poolgrad_lowering


def environment() -> dict[str, str]:
    """An environment in which a new interpreter finds the package that this one tests."""
    home = str(Path(poolgrad_lowering.__file__).parent.parent)
    return dict(os.environ) | {"PYTHONPATH": home, "PYTHONSAFEPATH": "1"}
