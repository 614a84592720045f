# SPDX-License-Identifier: Apache-2.0

"""Tests of this folder need what `make test-cann-ep` makes."""

from __future__ import annotations

import pytest

from tests.harness.sessions import mixed_sessions


@pytest.fixture(autouse=True)
def _installed() -> None:
    if not mixed_sessions.is_installed():
        pytest.skip("there is no onnxruntime-cann, or no stand-in for CANN; run `make test-cann-ep`")
