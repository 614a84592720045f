# SPDX-License-Identifier: Apache-2.0

"""External data for proofs is read only in the model's folder, in bounded memory, and never twice."""

from __future__ import annotations

import io
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from poolgrad_lowering import Limits, inspect, lower, lower_file
from poolgrad_lowering.entry.files import inspect_file
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.io import external_data
from poolgrad_lowering.model.io.external_data import UnreadableError
from poolgrad_lowering.model.ir.index import ModelIndex
from tests.external_models import DATA, SIZE, ZEROS, anchor, external, move_out, onto_zeros, reader, saved
from tests.pool_graphs import parse
from tests.texts import Says

GIB = 1 << 30


def sparse(path: Path, size: int, **bytes_at: int) -> None:
    """Write a sparse file of zeros with other bytes at some positions: `last=7`."""
    with path.open("wb") as file:
        file.truncate(size)
        for position, value in bytes_at.items():
            file.seek({"first": 0, "last": size - 1}[position])
            file.write(bytes([value]))


# -- what is proven


@pytest.mark.parametrize("extent", [{}, {"offset": 0}, {"length": SIZE}, {"offset": 0, "length": SIZE}])
def test_zeros_in_a_file(tmp_path: Path, extent: dict[str, int]) -> None:
    model = onto_zeros(external("", [6, 16], **extent))
    path = saved(tmp_path, model, bytes(SIZE))
    assert anchor(model, tmp_path).status == "lowered"
    lowered = lower(model, base_dir=tmp_path).model
    assert not [tensor for tensor in lowered.graph.initializer if tensor.name == "zeros"]
    assert lower_file(path, path).lowered
    assert ModelProto.FromString(path.read_bytes()) == lowered
    assert (tmp_path / DATA).read_bytes() == bytes(SIZE)


@pytest.mark.parametrize("position", [0, SIZE // 2, SIZE - 1])
@pytest.mark.parametrize("value", [1, 0x80])
def test_one_byte_that_is_not_zero(tmp_path: Path, position: int, value: int) -> None:
    data = bytearray(SIZE)
    data[position] = value
    model = onto_zeros(ZEROS)
    saved(tmp_path, model, bytes(data))
    assert anchor(model, tmp_path).code == "base-not-zero"


def test_offset_and_length_name_the_bytes(tmp_path: Path) -> None:
    around = b"\1" * 5
    model = onto_zeros(external("", [6, 16], offset=5, length=SIZE))
    saved(tmp_path, model, around + bytes(SIZE) + around)
    assert anchor(model, tmp_path).status == "lowered"
    for offset in (4, 6):
        assert anchor(onto_zeros(external("", [6, 16], offset=offset)), tmp_path).code == "base-not-zero"


@pytest.mark.parametrize("dims", [[0, 16], [6, 0]])
def test_no_elements_need_no_bytes(tmp_path: Path, dims: list[int]) -> None:
    (tmp_path / DATA).write_bytes(b"")
    assert reader(tmp_path).is_zero(external("z", dims, offset=0))
    with pytest.raises(UnreadableError, match="has 0 bytes, and the tensor takes bytes 1 to 1"):
        reader(tmp_path).is_zero(external("z", dims, offset=1))


@pytest.mark.parametrize("place", ["graph", "subgraph", "function", "attribute"])
def test_every_constant_of_a_model(tmp_path: Path, place: str) -> None:
    """Zeros, shapes and slice bounds are read from every place where they can be stored."""
    model = {"graph": whole, "subgraph": in_subgraph, "function": in_function, "attribute": as_constants}[place]()
    expected = [(found.status, found.op, found.attributes) for found in inspect(model).anchors]
    assert [status for status, *_ in expected] == ["lowered"]
    moved = move_out(model, tmp_path)
    assert [
        (found.status, found.op, found.attributes) for found in inspect(moved, base_dir=tmp_path).anchors
    ] == expected
    assert [found.code for found in inspect(moved).anchors] == ["external-data"]


def whole() -> ModelProto:
    return onto_zeros(numpy_helper.from_array(np.zeros((6, 16), np.float32)))


def in_subgraph() -> ModelProto:
    model = whole()
    inner = model.graph
    model = parse("g (bool c, float[2,3,4,4] X, float[2,3,2,2] dY) => (float[2,3,4,4] R) {}", opset=18)
    other = parse("g () => (float[2,3,4,4] E) { E = Identity(X) }").graph
    del inner.input[:]
    model.graph.node.append(helper.make_node("If", ["c"], ["R"], then_branch=inner, else_branch=other))
    return model


def in_function() -> ModelProto:
    constants = as_constants()
    nodes, imports = constants.graph.node, [helper.make_opsetid("", 18)]
    model = parse(
        "g (float[2,3,4,4] X, float[2,3,2,2] dY) => (float[2,3,4,4] R) { R = l.f(X, dY) }", opset=18, imports='"l": 1'
    )
    model.functions.append(helper.make_function("l", "f", ["X", "dY"], ["dX"], nodes, imports))
    return model


def as_constants() -> ModelProto:
    """The model with its initializers replaced by Constant nodes."""
    model = whole()
    constants = [helper.make_node("Constant", [], [t.name], value=t) for t in model.graph.initializer]
    nodes = [*constants, *model.graph.node]
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def test_a_table_in_a_file(tmp_path: Path) -> None:
    table = np.arange(24, dtype=np.int64).reshape(2, 3, 4)
    (tmp_path / DATA).write_bytes(table.tobytes())
    model = parse("g (float[2] X) => (Y) { Y = Relu(X) u = Identity(t) }")
    model.graph.initializer.append(external("t", [2, 3, 4], kind=TensorProto.INT64))
    index = ModelIndex(model)
    value = index.scopes[0].resolve("u")
    assert value is not None
    found = Facts(index, reader(tmp_path)).table(value)
    assert found is not None
    assert np.array_equal(found, table)


def test_a_table_of_many_blocks(tmp_path: Path) -> None:
    table = np.arange(300_000, dtype=np.int64)
    (tmp_path / DATA).write_bytes(b"\0" * 3 + table.tobytes())
    tensor = external("t", [300_000], kind=TensorProto.INT64, offset=3)
    assert np.array_equal(numpy_helper.to_array(reader(tmp_path).inlined(tensor)), table)


@pytest.mark.parametrize("kind", [TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.INT4, TensorProto.BOOL])
def test_element_types_that_numpy_lacks(tmp_path: Path, kind: int) -> None:
    (tmp_path / DATA).write_bytes(bytes(8) + b"\1" * 8)
    assert reader(tmp_path).is_zero(external("z", [3], kind=kind))
    assert not reader(tmp_path).is_zero(external("z", [3], kind=kind, offset=7))


# -- what it costs


@pytest.mark.parametrize(("last", "size"), [pytest.param(0, 4 * GIB, marks=pytest.mark.long), (1, GIB)])
def test_gigabytes_of_zeros_in_bounded_memory(tmp_path: Path, last: int, size: int) -> None:
    """All bytes are zero, or all except the last one."""
    sparse(tmp_path / DATA, size, last=last)
    tracemalloc.start()
    try:
        assert reader(tmp_path).is_zero(external("z", [size // 4])) is not bool(last)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


def test_reading_stops_at_the_first_other_byte(tmp_path: Path) -> None:
    size = 64 << 20
    sparse(tmp_path / DATA, size, first=1)
    data = reader(tmp_path, max_external_bytes=size)
    assert not data.is_zero(external("z", [size // 4]))
    assert data.is_zero(external("z", [(size - (1 << 19)) // 4], offset=1 << 19))  # one block less is left to read
    with pytest.raises(UnreadableError, match="raise the limit"):
        data.is_zero(external("z", [1], offset=1 << 19))


def test_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_data, "_MOST_KEPT", 12)
    (tmp_path / DATA).write_bytes(bytes(16) + b"\1" * 16)
    data = reader(tmp_path)
    for offset in range(8):
        assert data.is_zero(external("zeros", [2], offset=offset))  # of zeros nothing is kept
    assert not data.is_zero(external("ones", [2], offset=16))
    with pytest.raises(UnreadableError, match="12 bytes of external tensors are in memory already"):
        data.inlined(external("ones", [2], offset=24))
    assert data.inlined(external("one", [1], offset=24)).raw_data == b"\1" * 4


def counting_opens(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    opened: list[str] = []
    original = os.open

    def counted(path: str, flags: int, *rest: int, dir_fd: int | None = None) -> int:
        if not flags & os.O_DIRECTORY:
            opened.append(os.fspath(path))
        return original(path, flags, *rest, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", counted)
    return opened


def shared_by_two(zeros: TensorProto) -> ModelProto:
    """A model with two sites that scatter onto the same stored zeros."""
    model = onto_zeros(zeros)
    second = onto_zeros(zeros).graph
    shared = {value.name for value in second.input} | {tensor.name for tensor in second.initializer}
    for node in second.node:
        node.input[:] = [name if name in shared else f"{name}_2" for name in node.input]
        node.output[:] = [f"{name}_2" for name in node.output]
    model.graph.node.extend(second.node)
    model.graph.output.append(helper.make_tensor_value_info("dX_2", TensorProto.FLOAT, [2, 3, 4, 4]))
    return model


def test_where_no_folder_can_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: the file is opened by its path, and links out of the folder are still rejected."""
    monkeypatch.setattr(external_data, "_OPENS_IN_FOLDERS", False)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / DATA).write_bytes(bytes(8))
    data = reader(tmp_path / "models")
    assert data.is_zero(external("zeros", [2]))
    (tmp_path / "outside").write_bytes(bytes(8))
    (tmp_path / "models" / "link").symlink_to(tmp_path / "outside")
    tensor = external("linked", [2])
    tensor.external_data[0].value = "link"
    with pytest.raises(UnreadableError, match="links lead out of the folder"):
        data.is_zero(tensor)


@pytest.mark.parametrize("elements", [6 * 16, 1 << 20])
def test_a_tensor_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elements: int) -> None:
    (tmp_path / DATA).write_bytes(bytes(4 * elements))
    data, tensor = reader(tmp_path), external("z", [elements])
    opened = counting_opens(monkeypatch)
    assert data.is_zero(tensor)
    assert data.is_zero(tensor)
    assert not numpy_helper.to_array(data.inlined(tensor)).any()
    assert opened == [DATA]


def test_sites_that_share_a_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = shared_by_two(ZEROS)
    saved(tmp_path, model, bytes(SIZE))
    opened = counting_opens(monkeypatch)
    result = lower(model, base_dir=tmp_path)
    assert len(result.report.lowered) == 2
    assert opened == [DATA]
    assert "zeros" not in {tensor.name for tensor in result.model.graph.initializer}


@pytest.mark.refusal("external-data")
def test_sites_that_share_a_tensor_that_is_not_there(tmp_path: Path) -> None:
    report = inspect(shared_by_two(ZEROS), base_dir=tmp_path)
    assert [found.code for found in report.anchors] == ["external-data"] * 2
    assert len({found.reason for found in report.anchors}) == 1


@pytest.mark.refusal("external-data")
def test_a_limit_of_what_is_read(tmp_path: Path, says: Says) -> None:
    model = onto_zeros(ZEROS)
    saved(tmp_path, model, bytes(SIZE))
    assert anchor(model, tmp_path, limits=Limits(max_external_bytes=SIZE)).status == "lowered"
    found = anchor(model, tmp_path, limits=Limits(max_external_bytes=SIZE - 1))
    assert found.code == "external-data"
    says(found.reason)


def test_what_no_proof_needs_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = whole()
    model.graph.initializer.append(external("weight", [1 << 20]))
    (tmp_path / DATA).write_bytes(bytes(4 << 20))
    opened = counting_opens(monkeypatch)
    assert anchor(model, tmp_path).status == "lowered"
    assert not opened


# -- what is refused


REASONS: dict[str, tuple[Callable[[Path], object], str]] = {
    "absent": (Path.unlink, "cannot be read from '{}': No such file or directory; put the file beside the model"),
    "short": (lambda path: path.write_bytes(bytes(SIZE - 1)), f"has {SIZE - 1} bytes, and the tensor takes bytes 0 to"),
    "empty": (lambda path: path.write_bytes(b""), "has 0 bytes, and the tensor takes bytes 0 to"),
    "folder": (lambda path: (path.unlink(), path.mkdir()), "cannot be read from '{}': Is a directory"),
    "pipe": (lambda path: (path.unlink(), os.mkfifo(path)), "cannot be read from '{}': it is not a regular file"),
}


@pytest.mark.refusal("external-data")
@pytest.mark.parametrize("case", REASONS)
def test_data_that_is_not_there(tmp_path: Path, case: str) -> None:
    spoil, reason = REASONS[case]
    model = onto_zeros(ZEROS)
    path = saved(tmp_path, model, bytes(SIZE))
    spoil(tmp_path / DATA)
    [found] = inspect_file(path).anchors
    assert (found.status, found.code) == ("refused", "external-data")
    assert (found.reason or "").startswith(f"'zeros': external data '{DATA}' {reason.format(tmp_path)}")
    [warning] = inspect_file(path).warnings
    assert warning.file == DATA
    assert warning.tensor == "main, 'zeros'"


@pytest.mark.refusal("external-data")
def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onto_zeros(ZEROS)
    saved(tmp_path, model, bytes(SIZE))

    class Failing(io.FileIO):
        def readinto(self, _: object) -> int:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(external_data, "regular_file", Failing)
    assert anchor(model, tmp_path).reason == f"'zeros': external data '{DATA}' cannot be read: Input/output error"


def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / DATA).write_bytes(bytes(SIZE))

    class Cut(io.FileIO):
        def readinto(self, buffer: object) -> int:
            (tmp_path / DATA).write_bytes(b"")
            return super().readinto(buffer)

    monkeypatch.setattr(external_data, "regular_file", Cut)
    with pytest.raises(UnreadableError, match=f"has 0 bytes, and the tensor takes bytes 0 to {SIZE}"):
        reader(tmp_path).is_zero(ZEROS)


def test_unreadable_data_is_reported_for_dependent_values(tmp_path: Path) -> None:
    """The reason is found in linear time, although each value depends on the previous one twice."""
    chain = " ".join(f"r{number + 1} = Add(r{number}, r{number})" for number in range(40))
    model = parse(f"g (float[n] X) => (r40) {{ r0 = Reshape(X, s) {chain} }}")
    model.graph.initializer.append(external("s", [2], kind=TensorProto.INT64))
    index = ModelIndex(model)
    facts = Facts(index, reader(tmp_path))
    last, middle = (index.scopes[0].resolve(name) for name in ("r40", "r20"))
    assert last is not None
    assert middle is not None
    for value in (last, middle, last):
        with facts.watched() as reads:
            facts.shape(value)
        assert reads.error.startswith(f"'s': external data '{DATA}' cannot be read")


@pytest.mark.refusal("external-data")
def test_a_declared_shape_does_not_replace_the_stored_one(tmp_path: Path) -> None:
    """The target of a Reshape says what its shape is, and it cannot be read; another refusal takes precedence."""
    model = whole()
    [shape] = [tensor for tensor in model.graph.initializer if tensor.name == "whole"]
    shape.CopyFrom(external("whole", [4], kind=TensorProto.INT64))
    assert anchor(model, tmp_path).code == "external-data"


@pytest.mark.refusal("external-data")
def test_a_site_is_not_refused_for_the_data_of_another(tmp_path: Path) -> None:
    model = shared_by_two(ZEROS)
    ones = numpy_helper.from_array(np.ones((6, 16), np.float32), "ones")
    model.graph.initializer.append(ones)
    second = [node for node in model.graph.node if node.op_type == "ScatterElements"][1]
    second.input[0] = "ones"
    assert [found.code for found in inspect(model, base_dir=tmp_path).anchors] == ["external-data", "base-not-zero"]


def test_other_refusals_keep_their_code(tmp_path: Path) -> None:
    """A refusal that does not depend on the zeros takes precedence."""
    model = onto_zeros(ZEROS)
    [scatter] = [node for node in model.graph.node if node.op_type == "ScatterElements"]
    [reduction] = [attribute for attribute in scatter.attribute if attribute.name == "reduction"]
    reduction.s = b"max"
    assert anchor(model, tmp_path).code == "reduction"


def test_a_declared_shape_proves_nothing_where_a_stored_one_cannot_be_read(tmp_path: Path) -> None:
    model = parse("g (float[2,3,4,4] X) => (float[6,16] Y) { Y = Reshape(X, s) }")
    model.graph.initializer.append(external("s", [2], kind=TensorProto.INT64))
    index = ModelIndex(model)
    value = index.scopes[0].resolve("Y")
    assert value is not None
    shape = Facts(index, reader(tmp_path)).shape(value)
    assert shape is None or [size.static for size in shape] == [None, None]


# -- warnings


def test_references_without_data_are_warnings(tmp_path: Path) -> None:
    model = whole()
    for number, (location, offset) in enumerate([("a.bin", 0), ("b.bin", 0), ("b.bin", 8), ("c.bin", 4), ("a.bin", 8)]):
        model.graph.initializer.append(external(f"w{number}", [2], location, offset=offset))
    path = saved(tmp_path, model)
    (tmp_path / "b.bin").write_bytes(bytes(15))
    (tmp_path / "c.bin").write_bytes(bytes(12))
    report = lower_file(path, tmp_path / "out.onnx")
    assert [found.status for found in report.anchors] == ["lowered"]
    assert report.to_dict()["warnings"] == [
        {
            "file": "a.bin",
            "tensor": "main, 'w0'",
            "reason": "external data 'a.bin' is not there: No such file or directory",
        },
        {
            "file": "b.bin",
            "tensor": "main, 'w2'",
            "reason": "external data 'b.bin' has 15 bytes, but a tensor ends at 16",
        },
    ]
    assert inspect(model).warnings == ()
    assert inspect(model, base_dir=tmp_path).warnings == report.warnings


def test_no_warnings_where_all_data_is_there(tmp_path: Path) -> None:
    path = saved(tmp_path, onto_zeros(ZEROS), bytes(SIZE))
    assert inspect_file(path).warnings == ()
