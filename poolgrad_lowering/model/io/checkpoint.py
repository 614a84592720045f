# SPDX-License-Identifier: Apache-2.0

"""Reads and writes the checkpoints of onnxruntime's training API, which are FlatBuffers.

The tables, by the numbers of their fields (onnxruntime's ort_training_checkpoint.fbs and ort.fbs):

    Checkpoint        0 version: int32, 1 module state, 2 optimizer groups, 3 property bag
    ModuleState       0 trainable parameters, 1 frozen parameters, 2 is nominal: bool, 3 has external data: bool
    OptimizerGroup    0 name, 1 step: int64, 2 initial learning rate: float32, 3 states of parameters
    ParameterState    0 parameter's name, 1 momentums
    Tensor            0 name, 1 doc, 2 dims: [int64], 3 element type: int32, 4 bytes, 5 strings, 6 offset: int64

The bytes of a large checkpoint are in a second file, `<name>.data`, each at its tensor's offset.
"""

from __future__ import annotations

import io
import math
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
from flatbuffers import encode, number_types
from flatbuffers.table import Table
from onnx import helper

from poolgrad_lowering.model.diagnostics.errors import FileError, explained
from poolgrad_lowering.model.io.atomic_write import PathLike, open_regular, write_bytes
from poolgrad_lowering.model.io.model_file import read_bytes

Array = npt.NDArray[Any]

IDENTIFIER = b"ODTC"
VERSION = 2
_FIRST_FIELD = 4
"""The offset of the first field in a table's vtable, in bytes; each takes two."""
_PLACE, _INT32 = number_types.UOffsetTFlags, number_types.Int32Flags
"""Types of fields: the place of something else, and an integer."""
_EXTERNAL = ".data"
_MALFORMED = (IndexError, struct.error, ValueError, KeyError, TypeError, OverflowError, UnicodeDecodeError)


@dataclass(frozen=True)
class OptimizerGroup:
    """The state of an optimizer: its number of updates, and the momentums of each parameter, in order."""

    name: str = "group0"
    step: int = 0
    learning_rate: float = 1e-3
    momentums: Mapping[str, tuple[Array, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """The parameters by name, those that are trained and those that are not, and the optimizer's state or None."""

    trainable: Mapping[str, Array]
    frozen: Mapping[str, Array]
    group: OptimizerGroup | None = None

    @property
    def parameters(self) -> dict[str, Array]:
        """All parameters by name."""
        return {**self.trainable, **self.frozen}


def read_checkpoint_file(path: PathLike) -> Checkpoint:
    """Read a checkpoint. Raises `FileError` if the file cannot be read, or is no checkpoint of this form."""
    path = Path(path)
    data = read_bytes(path)
    if data[4:8] != IDENTIFIER:
        raise FileError(f"'{path}' is no checkpoint of onnxruntime's training API")
    try:
        root = _Reader(Table(bytearray(data), encode.Get(number_types.UOffsetTFlags.packer_type, data, 0)), path)
        module = root.table(1)
        if module is None or module.flag(2):
            raise FileError(f"'{path}' has no parameters: a nominal checkpoint cannot be trained from")
        groups = root.tables(2)
        if len(groups) > 1:
            raise FileError(f"'{path}' has {len(groups)} groups of parameters; one is read")
        weights, others = (dict(tensor.tensor() for tensor in module.tables(number)) for number in (0, 1))
        return Checkpoint(weights, others, groups[0].group() if groups else None)
    except _MALFORMED as error:
        raise FileError(f"'{path}' is damaged: {error}") from error


def write_checkpoint_file(path: PathLike, checkpoint: Checkpoint) -> None:
    """Write a checkpoint that onnxruntime loads. Raises `FileError`; then the file has not changed."""
    builder = flatbuffers.Builder(1024)
    trainable, frozen = _tensors(builder, checkpoint.trainable), _tensors(builder, checkpoint.frozen)
    fields = [(0, _INT32, VERSION), (1, _PLACE, _table(builder, (0, _PLACE, trainable), (1, _PLACE, frozen)))]
    if checkpoint.group is not None:
        fields.append((2, _PLACE, _vector(builder, [_group(builder, checkpoint.group)])))
    builder.Finish(_table(builder, *fields), IDENTIFIER)
    write_bytes(Path(path), bytes(builder.Output()))


def as_npz(values: Mapping[str, Array]) -> bytes:
    """Return the bytes of a file that `numpy.load` reads as these arrays."""
    held = io.BytesIO()
    np.savez(held, **dict(values))  # type: ignore[arg-type]
    return held.getvalue()


class _Reader:
    """A table of a checkpoint. What lies outside of the file raises one of `_MALFORMED`."""

    def __init__(self, table: Table, path: Path) -> None:
        self._table = table
        self._path = path
        if not 0 <= table.Pos < len(table.Bytes):
            raise ValueError("a table lies outside of the file")

    def table(self, number: int) -> _Reader | None:
        offset = self._offset(number)
        return _Reader(self._at(offset + self._table.Pos), self._path) if offset else None

    def tables(self, number: int) -> list[_Reader]:
        start, count = self._list(number, 4)
        return [_Reader(self._at(start + 4 * position), self._path) for position in range(count)]

    def text(self, number: int) -> str:
        offset = self._offset(number)
        return bytes(self._table.String(offset + self._table.Pos)).decode() if offset else ""

    def flag(self, number: int) -> bool:
        return bool(self._number(number, False, number_types.BoolFlags))

    def tensor(self) -> tuple[str, Array]:
        """Return a tensor's name and its values."""
        name = self.text(0)
        dtype = helper.tensor_dtype_to_np_dtype(int(self._number(3, 0, _INT32)))
        start, rank = self._list(2, 8)
        dims = struct.unpack_from(f"<{rank}q", self._table.Bytes, start)
        size = math.prod(dims) * dtype.itemsize
        if min(dims, default=0) < 0:
            raise ValueError(f"'{name}' has a negative size")
        start, count = self._list(4, 1)
        if self._offset(4):
            data = bytes(self._table.Bytes[start : start + count])
        else:
            offset = int(self._number(6, -1, number_types.Int64Flags))
            data = _external(self._path, offset, size)
        if len(data) != size:
            raise ValueError(f"'{name}' has {len(data)} bytes, its sizes say {size}")
        return name, np.frombuffer(data, dtype).reshape(dims).copy()

    def group(self) -> OptimizerGroup:
        """Return a group of the optimizer."""
        states = {state.text(0): tuple(dict(m.tensor() for m in state.tables(1)).values()) for state in self.tables(3)}
        step, rate = self._number(1, 0, number_types.Int64Flags), self._number(2, 0.0, number_types.Float32Flags)
        return OptimizerGroup(self.text(0), int(step), float(rate), states)

    def _number(self, number: int, default: float, kind: Any) -> float:
        """Return the value of a field that is a number."""
        value: float = self._table.GetSlot(_FIRST_FIELD + 2 * number, default, kind)
        return value

    def _offset(self, number: int) -> int:
        return int(self._table.Offset(_FIRST_FIELD + 2 * number))

    def _at(self, place: int) -> Table:
        return Table(self._table.Bytes, self._table.Indirect(place))

    def _list(self, number: int, item: int) -> tuple[int, int]:
        """Return where a list starts and how many items it has."""
        offset = self._offset(number)
        if not offset:
            return 0, 0
        start, count = int(self._table.Vector(offset)), int(self._table.VectorLen(offset))
        if start + count * item > len(self._table.Bytes):
            raise ValueError("a list lies outside of the file")
        return start, count


def _external(path: Path, offset: int, size: int) -> bytes:
    """Return these bytes of the file beside the checkpoint, fewer if it ends before."""
    if offset < 0:
        raise ValueError("a tensor has neither bytes nor an offset")
    beside = path.with_name(path.name + _EXTERNAL)
    with explained(f"cannot read '{beside}'"), open_regular(beside) as file:
        held = os.fstat(file.fileno()).st_size
        file.seek(min(offset, held))
        return file.read(min(size, held))


def _tensors(builder: flatbuffers.Builder, arrays: Mapping[str, Array]) -> int:
    return _vector(builder, [_tensor(builder, name, array) for name, array in arrays.items()])


def _tensor(builder: flatbuffers.Builder, name: str, array: Array) -> int:
    data = builder.CreateByteVector(np.ascontiguousarray(array).tobytes())
    dims = builder.CreateNumpyVector(np.array(array.shape, np.int64))
    text = builder.CreateString(name)
    element_type = int(helper.np_dtype_to_tensor_dtype(array.dtype))
    return _table(builder, (0, _PLACE, text), (2, _PLACE, dims), (4, _PLACE, data), (3, _INT32, element_type))


def _group(builder: flatbuffers.Builder, group: OptimizerGroup) -> int:
    states = []
    for name, momentums in group.momentums.items():
        tensors = _tensors(builder, {f"momentum{number}": array for number, array in enumerate(momentums)})
        states.append(_table(builder, (0, _PLACE, builder.CreateString(name)), (1, _PLACE, tensors)))
    text, listed = builder.CreateString(group.name), _vector(builder, states)
    rate = (2, number_types.Float32Flags, group.learning_rate)
    return _table(builder, (0, _PLACE, text), (1, number_types.Int64Flags, group.step), rate, (3, _PLACE, listed))


def _table(builder: flatbuffers.Builder, *fields: tuple[int, Any, float]) -> int:
    """Write a table of fields, each a number, a type and a value, and return its place."""
    builder.StartObject(7)
    for number, kind, value in fields:
        if kind is _PLACE:
            builder.PrependUOffsetTRelativeSlot(number, value, 0)
        else:
            builder.PrependSlot(kind, number, value, 0)
    return int(builder.EndObject())


def _vector(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())
