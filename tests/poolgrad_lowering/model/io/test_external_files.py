# SPDX-License-Identifier: Apache-2.0

"""External data files are copied on request, and never out of a folder or over another file."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering import Fault, FileError, InvalidModelError, lower_file
from poolgrad_lowering.entry.files import inspect_file
from tests.external_models import external, onto_zeros
from tests.external_models import saved as saved_model
from tests.pool_graphs import torch_gradient

DATA = bytes(range(8))


def saved(folder: Path, *locations: str) -> Path:
    """Save a model in a new folder with tensors in these files, which exist."""
    model = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
    folder.mkdir(parents=True, exist_ok=True)
    for number, location in enumerate(locations):
        tensor = TensorProto(
            name=f"W{number}", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL
        )
        tensor.external_data.add(key="location", value=location)
        model.graph.initializer.append(tensor)
        (folder / location).parent.mkdir(parents=True, exist_ok=True)
        (folder / location).write_bytes(DATA)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_copied_where_asked(tmp_path: Path) -> None:
    source, out = saved(tmp_path / "in", "w.bin", "more/w.bin", "w.bin"), tmp_path / "out"
    out.mkdir()
    with pytest.raises(FileError, match=r"--copy-external, copy_external=True"):
        lower_file(source, out / "m.onnx")
    assert not files(out)
    assert lower_file(source, out / "m.onnx", copy_external=True).lowered
    assert files(out).keys() == {"m.onnx", "w.bin", "more/w.bin"}
    assert files(out)["w.bin"] == files(out)["more/w.bin"] == DATA
    assert len(ModelProto.FromString(files(out)["m.onnx"]).graph.initializer) >= 3
    lower_file(source, out / "m.onnx", copy_external=True)  # equal files may be there
    lower_file(source, source, copy_external=True)


def test_another_file_is_not_replaced(tmp_path: Path) -> None:
    source, out = saved(tmp_path / "in", "a.bin", "b.bin"), tmp_path / "out"
    out.mkdir()
    (out / "b.bin").write_bytes(b"of another model")
    with pytest.raises(FileError, match=r"b\.bin' exists with other content: remove it"):
        lower_file(source, out / "m.onnx", copy_external=True)
    assert files(out) == {"b.bin": b"of another model"}


@pytest.mark.parametrize("what", ["nothing", "folder", "pipe"])
def test_what_cannot_be_copied(tmp_path: Path, what: str) -> None:
    source, out = saved(tmp_path / "in", "w.bin"), tmp_path / "out"
    out.mkdir()
    (source.parent / "w.bin").unlink()
    if what == "folder":
        (source.parent / "w.bin").mkdir()
    elif what == "pipe":
        os.mkfifo(source.parent / "w.bin")
    with pytest.raises(FileError, match=r"cannot copy '.*/in/w\.bin', in which the model keeps tensors"):
        lower_file(source, out / "m.onnx", copy_external=True)
    assert not files(out)
    assert lower_file(source, source).lowered  # data is not needed


def test_links_out_of_the_output_folder(tmp_path: Path) -> None:
    source, out = saved(tmp_path / "in", "more/w.bin"), tmp_path / "out"
    out.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (out / "more").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match="links lead out"):
        lower_file(source, out / "m.onnx", copy_external=True)
    assert not files(tmp_path / "elsewhere")


@pytest.mark.fault("external-location")
@pytest.mark.parametrize("link", ["file", "folder"])
def test_links_out_of_the_model_folder(tmp_path: Path, link: str) -> None:
    source = saved(tmp_path / "in", "more/w.bin")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "w.bin").write_bytes(b"not yours")
    (source.parent / "more" / "w.bin").unlink()
    if link == "file":
        (source.parent / "more" / "w.bin").symlink_to(tmp_path / "secret" / "w.bin")
    else:
        (source.parent / "more").rmdir()
        (source.parent / "more").symlink_to(tmp_path / "secret")
    for call in (lambda: lower_file(source, source), lambda: inspect_file(source)):
        with pytest.raises(InvalidModelError, match=r"'W0'.*a link to") as caught:
            call()
        assert caught.value.fault == Fault.EXTERNAL_LOCATION


def test_a_store_of_models(tmp_path: Path) -> None:
    """Data is copied if the model and its data are links into one folder."""
    source = saved(tmp_path / "store", "w.bin")
    (tmp_path / "models").mkdir()
    for name in ("m.onnx", "w.bin"):
        (tmp_path / "models" / name).symlink_to(source.parent / name)
    assert inspect_file(tmp_path / "models" / "m.onnx").lowered


@pytest.mark.parametrize("option", ["destination", "report_path"])
def test_output_over_the_data(tmp_path: Path, option: str) -> None:
    source = saved(tmp_path, "w.bin")
    paths = {"destination": tmp_path / "out.onnx"} | {option: tmp_path / "w.bin"}
    with pytest.raises(FileError, match="keeps tensors in it"):
        lower_file(source, **paths)  # type: ignore[arg-type]
    assert files(tmp_path).keys() == {"m.onnx", "w.bin"}
    assert files(tmp_path)["w.bin"] == DATA


# -- copies of files from which tensors died

ZEROS = bytes(6 * 16 * 4)


def with_weights(folder: Path, *weights: tuple[int, bytes], zeros: int = 0, location: str = "m.onnx.data") -> Path:
    """A model with zeros and weights at offsets of one file, whose other bytes are 0xff."""
    model = onto_zeros(external("", [6, 16], location, offset=zeros))
    data = bytearray(b"\xff") * max([zeros + len(ZEROS), *(offset + len(weight) for offset, weight in weights)])
    for number, (offset, weight) in enumerate(((zeros, ZEROS), *weights)):
        data[offset : offset + len(weight)] = weight
        if number:
            extent = {"offset": offset, "length": len(weight)}
            tensor = external(f"w{number}", [len(weight)], location, kind=TensorProto.UINT8, **extent)
            model.graph.initializer.append(tensor)
    return saved_model(folder, model, bytes(data), location)


def stored(path: Path) -> dict[str, tuple[str, int, bytes]]:
    """Location, offset and bytes of the external tensors of a model, as onnx reads them."""
    where = onnx.load(path, load_external_data=False).graph.initializer
    loaded = onnx.load(path).graph.initializer
    return {
        tensor.name: (entries["location"], int(entries.get("offset", 0)), loaded[number].raw_data)
        for number, tensor in enumerate(where)
        if (entries := {entry.key: entry.value for entry in tensor.external_data})
    }


def lowered_elsewhere(source: Path, name: str = "m.onnx") -> Path:
    """Lower a model into a new folder with its data, and return its path."""
    out = source.parent.parent / "out"
    out.mkdir(exist_ok=True)
    assert lower_file(source, out / name, copy_external=True).lowered
    return out / name


def test_a_file_of_dead_zeros_does_not_go_along(tmp_path: Path) -> None:
    source = with_weights(tmp_path / "in")
    written = lowered_elsewhere(source)
    assert files(written.parent).keys() == {"m.onnx"}
    assert files(source.parent).keys() == {"m.onnx", "m.onnx.data"}
    lower_file(source, written)  # nothing is left to copy


def test_a_copy_holds_what_is_left(tmp_path: Path) -> None:
    source = with_weights(tmp_path / "in", (0, b"abc"), (400, b"defg"), (404, b"hi"), zeros=8)
    before = files(source.parent)
    written = lowered_elsewhere(source)
    assert stored(written) == {
        "w1": ("m.onnx.data", 0, b"abc"),
        "w2": ("m.onnx.data", 16, b"defg"),
        "w3": ("m.onnx.data", 20, b"hi"),
    }
    assert files(written.parent)["m.onnx.data"] == b"abc" + bytes(13) + b"defghi"
    assert files(source.parent) == before
    again = lowered_elsewhere(source)
    assert again == written


def test_the_report_has_the_size_of_what_is_written(tmp_path: Path) -> None:
    source = with_weights(tmp_path / "in", (1 << 20, b"abc"))
    (tmp_path / "out").mkdir()
    written = tmp_path / "out" / "m.onnx"
    report = lower_file(source, written, copy_external=True)
    assert report.bytes_after == written.stat().st_size


def test_other_models_may_use_the_file_too(tmp_path: Path) -> None:
    """A partial copy has the model's own name, because other models may use the whole file."""
    source = with_weights(tmp_path / "in", (400, b"abc"), location="more/weights.bin")
    other = saved(tmp_path / "other", "more/weights.bin")
    (other.parent / "more" / "weights.bin").write_bytes((source.parent / "more" / "weights.bin").read_bytes())
    written = lowered_elsewhere(source, "new.onnx")
    lower_file(other, written.parent / "other.onnx", copy_external=True)
    assert files(written.parent).keys() == {"new.onnx", "other.onnx", "more/new.onnx.weights.bin", "more/weights.bin"}
    assert stored(written) == {"w1": ("more/new.onnx.weights.bin", 0, b"abc")}


def test_a_copy_is_named_after_the_model(tmp_path: Path) -> None:
    source = with_weights(tmp_path / "in", (400, b"abc"))
    assert stored(lowered_elsewhere(source, "new.onnx")) == {"w1": ("new.onnx.data", 0, b"abc")}


def test_a_file_that_loses_nothing_is_copied_as_it_is(tmp_path: Path) -> None:
    source = with_weights(tmp_path / "in", (400, b"abc"))
    model = onnx.load(source, load_external_data=False)
    model.graph.initializer.append(external("w", [6, 16], offset=0))  # of the same bytes as the zeros
    saved_model(source.parent, model)
    written = lowered_elsewhere(source)
    assert files(written.parent)["m.onnx.data"] == files(source.parent)["m.onnx.data"]


def test_references_that_overlap_the_dead_zeros(tmp_path: Path) -> None:
    source = with_weights(tmp_path / "in", (380, bytes(4) + b"abc"), (382, bytes(2)))
    written = lowered_elsewhere(source)
    assert stored(written) == {"w1": ("m.onnx.data", 0, bytes(4) + b"abc"), "w2": ("m.onnx.data", 2, bytes(2))}


def test_references_within_another_one(tmp_path: Path) -> None:
    source = with_weights(tmp_path / "in", (400, b"abcdefgh"), (401, b"b"), (404, b"e"))
    written = lowered_elsewhere(source)
    assert [offset for _, offset, _ in stored(written).values()] == [0, 1, 4]
    assert files(written.parent)["m.onnx.data"] == b"abcdefgh"


@pytest.mark.parametrize(("offset", "expected"), [(4096, 4096), (12288, 4096), (1 << 20, 1 << 16), (400, 16)])
def test_offsets_stay_aligned(tmp_path: Path, offset: int, expected: int) -> None:
    source = with_weights(tmp_path / "in", (0, b"abc"), (offset, b"def"), zeros=4)
    assert stored(lowered_elsewhere(source)) == {
        "w1": ("m.onnx.data", 0, b"abc"),
        "w2": ("m.onnx.data", expected, b"def"),
    }


def test_tensors_everywhere_follow_their_file(tmp_path: Path) -> None:
    """References in attributes, subgraphs, functions and sparse tensors are updated; other nodes keep their bytes."""
    source = with_weights(tmp_path / "in", (400, b"abcdefgh"))
    model = onnx.load(source, load_external_data=False)
    tensors = [external("", [2], kind=TensorProto.UINT8, offset=400 + 2 * number) for number in range(4)]
    attribute, inner, local = (
        onnx.helper.make_node("Constant", [], [f"c{n}"], value=t) for n, t in enumerate(tensors[:3])
    )
    graph = onnx.GraphProto(name="yes", node=[inner], output=[onnx.ValueInfoProto(name="c1")])
    choice = onnx.helper.make_node("If", ["b"], ["chosen"], then_branch=graph, else_branch=graph)
    model.graph.input.append(onnx.helper.make_tensor_value_info("b", TensorProto.BOOL, []))
    model.graph.node.extend([attribute, choice, onnx.helper.make_node("f", [], ["called"], domain="l")])
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("c0", "chosen", "called"))
    model.opset_import.append(onnx.helper.make_opsetid("l", 1))
    model.functions.append(onnx.helper.make_function("l", "f", [], ["c2"], [local], [onnx.helper.make_opsetid("", 18)]))
    sparse = model.graph.sparse_initializer.add(dims=[8])
    sparse.values.CopyFrom(tensors[3])
    sparse.values.name = "sparse"
    sparse.indices.CopyFrom(onnx.numpy_helper.from_array(np.array([1, 2])))
    saved_model(source.parent, model)
    found = onnx.load(lowered_elsewhere(source), load_external_data=False)
    nodes = {node.output[0]: node for node in found.graph.node}
    moved = [
        nodes["c0"].attribute[0].t,
        nodes["chosen"].attribute[0].g.node[0].attribute[0].t,
        next(function for function in found.functions if function.domain == "l").node[0].attribute[0].t,
        found.graph.sparse_initializer[0].values,
    ]
    offsets = [int({entry.key: entry.value for entry in tensor.external_data}["offset"]) for tensor in moved]
    assert offsets == [0, 2, 4, 6]
    assert files(tmp_path / "out")["m.onnx.data"] == b"abcdefgh"


def test_a_short_file_is_not_compacted(tmp_path: Path) -> None:
    source = with_weights(tmp_path / "in", (400, b"abc"))
    (source.parent / "m.onnx.data").write_bytes(bytes(402))
    (tmp_path / "out").mkdir()
    with pytest.raises(FileError, match="it has 402 bytes, but a tensor ends at 403; give the complete file"):
        lower_file(source, tmp_path / "out" / "m.onnx", copy_external=True)
    assert not files(tmp_path / "out")


def test_what_is_there_is_not_replaced(tmp_path: Path) -> None:
    source = with_weights(tmp_path / "in", (400, b"abc"))
    for content in (b"ab", b"abd", b"abcd"):
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out" / "m.onnx.data").write_bytes(content)
        with pytest.raises(FileError, match=r"m\.onnx\.data' exists with other content"):
            lower_file(source, tmp_path / "out" / "m.onnx", copy_external=True)
        assert files(tmp_path / "out") == {"m.onnx.data": content}


def test_the_model_is_not_written_over_its_data(tmp_path: Path) -> None:
    source = saved(tmp_path / "in", "w.bin")
    (tmp_path / "out").mkdir()
    with pytest.raises(FileError, match="the model keeps tensors in a file of this name"):
        lower_file(source, tmp_path / "out" / "w.bin", copy_external=True)
    assert not files(tmp_path / "out")


def test_gigabytes_are_copied_in_bounded_memory(tmp_path: Path) -> None:
    source = with_weights(tmp_path / "in", (400, b"abc"))
    model = onnx.load(source, load_external_data=False)
    size = 256 << 20
    model.graph.initializer.append(external("large", [size], kind=TensorProto.UINT8, offset=1 << 20))
    saved_model(source.parent, model)
    with (source.parent / "m.onnx.data").open("r+b") as data:
        data.truncate((1 << 20) + size)
    tracemalloc.start()
    try:
        written = lowered_elsewhere(source)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (written.parent / "m.onnx.data").stat().st_size == (1 << 16) + size
    assert peak < 16 << 20
