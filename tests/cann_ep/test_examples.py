# SPDX-License-Identifier: Apache-2.0

"""The example beside onnxruntime's CANN provider: pools and gradients run on one provider, the rest on the other."""

from __future__ import annotations

import contextlib
import io
import runpy

import numpy as np
import pytest

from models import catalogue
from poolgrad_lowering.runtime import get_ep_name
from tests.harness.examples import FOLDER
from tests.harness.sessions.mixed_sessions import CANN, on_device

pytestmark = pytest.mark.cann_ep


def run_example(name: str) -> list[str]:
    """The lines that an example prints in this process, whose device is the stand-in."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(FOLDER / name), run_name="__main__")
    return printed.getvalue().splitlines()


def beside_cann() -> list[str]:
    return run_example("beside_cann.py")


def test_beside_cann() -> None:
    ours, cann, *outputs = on_device(beside_cann)
    assert ours == f"{get_ep_name()}: 4 nodes"
    assert cann.startswith(f"{CANN}: ")
    expected = catalogue.entry("torch/lenet").expected()
    assert len(outputs) == len(expected)
    for line, (name, array) in zip(outputs, expected.items(), strict=True):
        described, norm = line.split(", norm ")
        assert described == f"{name}: shape {list(array.shape)}"
        assert float(norm) == pytest.approx(np.linalg.norm(array), rel=1e-5)  # PyTorch computed the stored outputs
