# SPDX-License-Identifier: Apache-2.0

"""Which of torch's kernels for the CPU compute."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def without_one_dnn() -> Iterator[None]:
    """Switch oneDNN off.

    Its gradients of 16-bit 3-D convolutions are not initialised in torch 2.13, and its operator of an LSTM has no
    translation to ONNX.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TF32 acceleration")  # of a setting that stays as it is
        with torch.backends.mkldnn.flags(enabled=False):
            yield
