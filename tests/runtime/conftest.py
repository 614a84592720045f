# SPDX-License-Identifier: Apache-2.0

"""The host library, lenient, strict, or both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.aclnn_ctypes import Aclnn, current_device
from tests.runtime.strict_device import MODES, StrictDevice, either_device, strict_device


@pytest.fixture
def aclnn() -> Iterator[Aclnn]:
    with current_device() as library:
        yield library


@pytest.fixture
def device() -> Iterator[StrictDevice]:
    with strict_device() as strict:
        yield strict


@pytest.fixture(params=MODES)
def either(request: pytest.FixtureRequest) -> Iterator[Aclnn | StrictDevice]:
    """For indices in their windows, and sums that are exact: strict mode adds in another order."""
    with either_device(request.param) as library:
        yield library
