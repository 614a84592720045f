# SPDX-License-Identifier: Apache-2.0

"""What every test of this folder leaves as it was."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def log_levels() -> Iterator[None]:
    """The command sets the levels of the package's loggers, for the process that it usually is."""
    yield
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.startswith("poolgrad_lowering") and isinstance(logger, logging.Logger):
            logger.setLevel(logging.NOTSET)
