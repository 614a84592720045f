# SPDX-License-Identifier: Apache-2.0

"""Tests of this folder need what `make test-torch-npu` makes."""

from __future__ import annotations

import pytest

from tests.harness.torch_npu import client


@pytest.fixture(autouse=True)
def _installed() -> None:
    if not client.is_installed():
        pytest.skip("there is no torch_npu, or no stand-in for CANN; run `make test-torch-npu`")
