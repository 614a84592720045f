# SPDX-License-Identifier: Apache-2.0

"""Tensors of torch from arrays of numpy and back; numpy's arrays of bfloat16 are of ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DTYPES = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
LAYOUTS = ("contiguous", "strided", "channels_last")


def to_tensor(torch: Any, array: Array) -> Any:
    """The array as a tensor of torch, which takes no bfloat16 from numpy."""
    if array.dtype == DTYPES["bfloat16"]:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_array(torch: Any, tensor: Any) -> Array:
    """The tensor as an array."""
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        return np.asarray(tensor.view(torch.int16).numpy().view(DTYPES["bfloat16"]))
    return np.asarray(tensor.numpy())


def on_npu(torch: Any, array: Array, layout: str, rank: int) -> Any:
    """The array as a tensor of the NPU; its elements have gaps between them, or those of a pixel are side by side."""
    if layout == "strided":
        return to_tensor(torch, np.repeat(array, 2, axis=-1)).npu()[..., ::2]
    if layout == "channels_last":
        channels = array.ndim - rank - 1
        return to_tensor(torch, np.moveaxis(array, channels, -1).copy()).npu().movedim(-1, channels)
    return to_tensor(torch, array).npu()


def plane_indices(torch: Any, indices: Any, shape: tuple[int, ...]) -> Array:
    """The positions that a pool returns; those of a mask are at its begin."""
    found = to_array(torch, indices)
    if found.dtype == np.int8:
        count = int(np.prod(shape))
        found = found.reshape(-1)[: count * 4].view(np.int32).reshape(shape)
    return found.astype(np.int64)
