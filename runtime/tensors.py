# SPDX-License-Identifier: Apache-2.0

"""Values for a session's inputs: as arrays, checked against the input, and kept where the session reads them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

HUAWEI = 0x19E5
"""The vendor of device memory that Ascend's providers share (PCI's number of Huawei)."""

_ELEMENTS = {
    "float": "float32",
    "double": "float64",
}
"""numpy's names of element types, where onnxruntime's are others; bfloat16 is numpy's with ml_dtypes."""


@dataclass(frozen=True)
class Place:
    """The memory in which a session reads an input: device memory of Ascend, or the host's (`device_id` None)."""

    device_id: int | None

    def keep(self, ort: Any, value: np.ndarray) -> Any:
        """Return an OrtValue in this memory with a copy of the array. On the host, it shares memory with that copy."""
        on_host = ort.OrtValue.ortvalue_from_numpy(value.copy())
        if self.device_id is None:
            return on_host
        kept = ort.OrtValue.ortvalue_from_shape_and_type(value.shape, value.dtype.type, "npu", self.device_id, HUAWEI)
        ort.copy_tensors([on_host], [kept])
        return kept

    def to_array(self, ort: Any, value: Any) -> np.ndarray:
        """Return a copy of an OrtValue of this memory."""
        if self.device_id is None:
            copied: np.ndarray = value.numpy().copy()
            return copied
        import numpy as np  # noqa: PLC0415 - importing the runtime must not load numpy

        found: np.ndarray = np.empty(value.shape(), numpy_type(value.data_type()))
        on_host = ort.OrtValue.ortvalue_from_numpy(found)
        ort.copy_tensors([value], [on_host])
        return np.array(on_host.numpy())


def place_of(session: Any, position: int) -> Place:
    """Return the memory of a session's input. Releases before 1.24 do not say it; there it is the host's."""
    if not hasattr(session, "get_input_memory_infos"):
        return Place(None)
    memory = session.get_input_memory_infos()[position]
    return Place(memory.device_id if memory.device_vendor_id == HUAWEI else None)


def as_array(value: Any, wanted: Any) -> np.ndarray:
    """Return an array, a tensor of PyTorch or a number as an array in row-major order.

    A number gets the element type of the session's input `wanted` (`NodeArg`), if there is one.
    """
    import numpy as np  # noqa: PLC0415 - importing the runtime must not load numpy

    if hasattr(value, "detach"):
        value = _array_of(value.detach().cpu())
    is_number = isinstance(value, (int, float)) and wanted is not None
    return np.array(value, numpy_type(wanted.type) if is_number else None, order="C")


def _array_of(tensor: Any) -> np.ndarray:
    """Return a tensor of PyTorch as an array; bfloat16, which numpy lacks, as the type of ml_dtypes."""
    if str(tensor.dtype) != "torch.bfloat16":
        found: np.ndarray = tensor.numpy()
        return found
    import ml_dtypes  # noqa: PLC0415 - optional: of onnx

    bits: np.ndarray = tensor.contiguous().view(sys.modules["torch"].int16).numpy()
    return bits.view(ml_dtypes.bfloat16)


def check_fits(wanted: Any, value: np.ndarray, *, is_batch: bool = False) -> None:
    """Require that an array has the element type and the shape of a session's input (`NodeArg`).

    Raises `ValueError`, which names the input and both types or shapes, and of a batch (`is_batch`) what lets its size
    be another one.
    """
    element = numpy_type(wanted.type)
    if str(value.dtype) != element:
        raise ValueError(f"the step takes {wanted.name} as {element}; {value.dtype} is given")
    sizes = list(wanted.shape)
    fits = len(sizes) == value.ndim and all(
        not isinstance(size, int) or size == found for size, found in zip(sizes, value.shape, strict=True)
    )
    if not fits:
        is_other_size = is_batch and len(sizes) == value.ndim and sizes[1:] == list(value.shape[1:])
        advice = "; export it with dynamic_batch=True (artifacts: dynamic_axes) for any batch" if is_other_size else ""
        raise ValueError(f"the step takes {wanted.name} of shape {tuple(sizes)}; {value.shape} is given{advice}")


def check_sizes_agree(wanted: Mapping[str, Any], given: Mapping[str, np.ndarray]) -> None:
    """Require that symbolic sizes of one name in a session's inputs are one number in the arrays that are given.

    Raises `ValueError`, which names two inputs that differ: a kernel would say it by its own node, or compute on.
    """
    found: dict[str, tuple[str, int]] = {}
    for name, value in given.items():
        for size, count in zip(wanted[name].shape, value.shape, strict=True):
            first, other = found.setdefault(size, (name, count))
            if isinstance(size, str) and size and count != other:
                raise ValueError(
                    f"the step takes {first} and {name} of one size '{size}'; {other} and {count} are given"
                )


def numpy_type(tensor_type: str) -> str:
    """Return numpy's name of the element type in onnxruntime's name of a tensor's type: float32 for tensor(float)."""
    element = tensor_type.removeprefix("tensor(").removesuffix(")")
    return _ELEMENTS.get(element, element)
