# SPDX-License-Identifier: Apache-2.0

"""Collects tests where PyTorch and what its exporter needs are there; gives every one the same random numbers."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

NEEDED = ("torch", "onnxscript", "onnxruntime")
collect_ignore_glob = [] if all(map(find_spec, NEEDED)) else ["test_*.py"]


@pytest.fixture(autouse=True)
def seeded() -> None:
    import torch

    torch.manual_seed(0)
