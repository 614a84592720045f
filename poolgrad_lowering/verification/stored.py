"""Constants of a cut that lie in external files. The only place of the package that opens them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from onnx import TensorProto
from onnx.external_data_helper import load_external_data_for_tensor

from poolgrad_lowering.verification.cut import Cut
from poolgrad_lowering.verification.result import UnprovenError


def with_loaded_constants(cut: Cut, folder: Path | None) -> Cut:
    """The cut with its own external tensors read from `folder`. Raises `UnprovenError` where one cannot be."""
    return replace(cut, constants={name: _loaded(name, tensor, folder) for name, tensor in cut.constants.items()})


def _loaded(name: str, tensor: TensorProto, folder: Path | None) -> TensorProto:
    if tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    if folder is None:
        raise UnprovenError(f"'{name}' lies in an external file, and no folder is given to look in")
    loaded = TensorProto()
    loaded.CopyFrom(tensor)
    try:
        load_external_data_for_tensor(loaded, str(folder))  # refuses paths that leave the folder
    except Exception as error:
        raise UnprovenError(f"'{name}' cannot be read from its external file: {error}") from error
    loaded.data_location = TensorProto.DEFAULT
    del loaded.external_data[:]
    return loaded
