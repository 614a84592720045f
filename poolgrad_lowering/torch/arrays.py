# SPDX-License-Identifier: Apache-2.0

"""Tensors of torch as arrays of numpy, and back."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import torch
from onnx_ir.tensor_adapters import TorchTensor
from torch import Tensor

Arrays = dict[str, np.ndarray]
"""Arrays by the names of a step's inputs or outputs."""


def to_array(tensor: Tensor) -> np.ndarray:
    """Return a copy of the tensor's values; bfloat16, which numpy lacks, as the type of ml_dtypes."""
    return np.array(TorchTensor(tensor.detach().contiguous()).numpy())


def to_tensor(array: np.ndarray) -> Tensor:
    """Return a tensor with the array's values."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))
