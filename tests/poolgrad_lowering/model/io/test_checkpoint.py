# SPDX-License-Identifier: Apache-2.0

"""Checkpoints of onnxruntime's training API: those that it wrote are read, and damaged ones are errors."""

from __future__ import annotations

from pathlib import Path

import flatbuffers
import numpy as np
import pytest
from onnx import TensorProto

from models.artifact_runs import FOLDERS, RESUMED, STEPS
from poolgrad_lowering import FileError
from poolgrad_lowering.model.io.checkpoint import (
    IDENTIFIER,
    Checkpoint,
    OptimizerGroup,
    read_checkpoint_file,
    write_checkpoint_file,
)

WRITTEN = FOLDERS / "lenet" / "checkpoint"
WITH_STATE = FOLDERS / "lenet" / RESUMED


def test_a_checkpoint_of_onnxruntime() -> None:
    found = read_checkpoint_file(WRITTEN)
    assert found.trainable.keys() == {"0.weight", "3.weight", "3.bias", "7.weight", "7.bias"}
    assert found.frozen.keys() == {"0.bias"}
    assert found.trainable["3.weight"].shape == (8, 4, 3, 3)
    assert found.trainable["3.weight"].dtype == np.float32
    assert found.group is None


def test_the_state_of_an_optimizer() -> None:
    group = read_checkpoint_file(WITH_STATE).group
    assert group is not None
    assert (group.name, group.step) == ("group0", STEPS // 2)
    assert {name: [array.shape for array in held] for name, held in group.momentums.items()}["3.bias"] == [(8,), (8,)]


@pytest.mark.parametrize("path", [WRITTEN, WITH_STATE])
def test_what_is_written_is_read_again(path: Path, tmp_path: Path) -> None:
    before = read_checkpoint_file(path)
    write_checkpoint_file(tmp_path / "copy", before)
    after = read_checkpoint_file(tmp_path / "copy")
    assert same(before.parameters, after.parameters)
    assert list(before.frozen) == list(after.frozen)
    if before.group is None or after.group is None:
        assert before.group is after.group
        return
    assert (before.group.step, before.group.learning_rate) == (after.group.step, after.group.learning_rate)
    for name, held in before.group.momentums.items():
        assert same(dict(enumerate(held)), dict(enumerate(after.group.momentums[name])))


def same(one: object, other: object) -> bool:
    assert isinstance(one, dict)
    assert isinstance(other, dict)
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_types_scalars_and_empty_tensors(tmp_path: Path) -> None:
    arrays = {
        "half": np.arange(6, dtype=np.float16).reshape(2, 3),
        "double": np.array(2.5),
        "long": np.array([-1, 1 << 40]),
        "empty": np.zeros((0, 3), np.float32),
    }
    write_checkpoint_file(tmp_path / "c", Checkpoint(arrays, {}, OptimizerGroup("g", 7, 0.5, {})))
    found = read_checkpoint_file(tmp_path / "c")
    assert same(dict(found.trainable), arrays)
    assert {name: array.dtype for name, array in found.trainable.items()} == {n: a.dtype for n, a in arrays.items()}
    assert found.group is not None
    assert (found.group.name, found.group.step, found.group.learning_rate) == ("g", 7, 0.5)


def test_every_cut_and_every_changed_byte_is_an_error_or_read(tmp_path: Path) -> None:
    """No damage leads to anything else than `FileError`, or to arrays of the sizes that the file says."""
    data = WITH_STATE.read_bytes()
    path = tmp_path / "damaged"
    random = np.random.default_rng(0)
    for length in {0, 1, 7, 8, 9, *random.integers(10, len(data), 40).tolist()}:
        path.write_bytes(data[:length])
        with pytest.raises(FileError):
            read_checkpoint_file(path)
    refused = 0
    for position in random.integers(8, len(data), 600).tolist():
        changed = bytearray(data)
        changed[position] = random.integers(0, 256)
        path.write_bytes(changed)
        try:
            found = read_checkpoint_file(path)
        except FileError:
            refused += 1
        else:
            assert sum(array.nbytes for array in found.parameters.values()) <= len(data)
    assert refused


@pytest.mark.parametrize(
    "content", [b"", b"no checkpoint", b"\x08\x00\x00\x00ODTC", b"\xff\xff\xff\x7fODTC" + bytes(64)]
)
def test_other_files(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(FileError, match="file"):
        read_checkpoint_file(tmp_path / "file")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="nothing"):
        read_checkpoint_file(tmp_path / "nothing")


def with_external_bytes(path: Path, offset: int) -> None:
    """A checkpoint whose only parameter, two float32 numbers, has its bytes in the file beside it."""
    builder = flatbuffers.Builder()
    builder.StartVector(8, 1, 8)
    builder.PrependInt64(2)
    dims, name = builder.EndVector(), builder.CreateString("w")
    builder.StartObject(7)
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    builder.PrependUOffsetTRelativeSlot(2, dims, 0)
    builder.PrependInt32Slot(3, TensorProto.FLOAT, 0)
    builder.PrependInt64Slot(6, offset, -1)
    tensor = builder.EndObject()
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(tensor)
    tensors = builder.EndVector()
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(0, tensors, 0)
    module = builder.EndObject()
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(1, module, 0)
    builder.Finish(builder.EndObject(), IDENTIFIER)
    path.write_bytes(bytes(builder.Output()))


def test_bytes_beside_the_checkpoint(tmp_path: Path) -> None:
    """As onnxruntime writes large ones."""
    with_external_bytes(tmp_path / "large", 4)
    with pytest.raises(FileError, match=r"cannot read .*large\.data"):
        read_checkpoint_file(tmp_path / "large")
    np.float32([1, 2, 3]).tofile(tmp_path / "large.data")
    assert read_checkpoint_file(tmp_path / "large").trainable["w"].tolist() == [2, 3]


@pytest.mark.parametrize(("offset", "message"), [(8, "'w' has 4 bytes"), (1 << 40, "has 0 bytes"), (-1, "nor an off")])
def test_bytes_that_are_not_beside_it(offset: int, message: str, tmp_path: Path) -> None:
    with_external_bytes(tmp_path / "large", offset)
    np.float32([1, 2, 3]).tofile(tmp_path / "large.data")
    with pytest.raises(FileError, match=message):
        read_checkpoint_file(tmp_path / "large")
