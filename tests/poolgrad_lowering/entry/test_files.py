# SPDX-License-Identifier: Apache-2.0

"""Files are read completely or not at all, and written completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from poolgrad_lowering import FileError, InvalidModelError, PoolgradError, UnknownTargetError, lower, lower_file
from poolgrad_lowering.entry.file_io import FileOptions
from poolgrad_lowering.entry.files import inspect_file
from tests.pool_graphs import GRADIENT, REFUSED, parse, saved

OLD = b"what was there before"
PLAIN = parse("g (float[2] X) => (float[2] Y) { Y = Relu(X) }")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_paths_are_text_too(tmp_path: Path) -> None:
    source = saved(tmp_path / "in.onnx")
    lower_file(str(source), str(tmp_path / "out.onnx"))
    assert inspect_file(str(source)).lowered


def test_input_and_output_may_be_one_file(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx")
    lower_file(path, path)
    assert contents(tmp_path) == {"m.onnx": lower(GRADIENT).model.SerializeToString()}


@pytest.mark.parametrize("model", [GRADIENT, REFUSED])
def test_strict(tmp_path: Path, model: ModelProto) -> None:
    source, destination = saved(tmp_path / "in.onnx", model), tmp_path / "out.onnx"
    report = lower_file(source, destination, strict=True)
    assert destination.exists() == (not report.refused)
    destination.write_bytes(OLD)
    lower_file(source, destination, strict=True)
    assert (destination.read_bytes() == OLD) == bool(report.refused)


# -- bad input

GARBAGE: dict[str, bytes] = {
    "empty": b"",
    "text": b"this is no model\n" * 20,
    "zeros": bytes(100),
    "truncated": GRADIENT.SerializeToString()[:-40],
    "without graph": ModelProto(ir_version=8).SerializeToString(),
    "without operator sets": ModelProto(ir_version=8, graph=PLAIN.graph).SerializeToString(),
    "tensor": helper.make_tensor("t", TensorProto.FLOAT, [2], [1.0, 2.0]).SerializeToString(),
    "text format": onnx.printer.to_text(PLAIN).encode(),
    "zip": b"PK\x03\x04" + bytes(30),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_what_is_no_model(tmp_path: Path, data: bytes) -> None:
    source, destination = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(data)
    destination.write_bytes(OLD)
    with pytest.raises(InvalidModelError, match=r"in\.onnx"):
        lower_file(source, destination)
    with pytest.raises(InvalidModelError, match=r"in\.onnx"):
        inspect_file(source)
    assert contents(tmp_path) == {"in.onnx": data, "out.onnx": OLD}


def test_every_truncation_is_an_error_of_ours_or_a_model(tmp_path: Path) -> None:
    data, source = GRADIENT.SerializeToString(), tmp_path / "in.onnx"
    for length in range(0, len(data), 7):
        source.write_bytes(data[:length])
        try:
            lower_file(source, tmp_path / "out.onnx")
        except PoolgradError:
            assert not (tmp_path / "out.onnx").exists()
        (tmp_path / "out.onnx").unlink(missing_ok=True)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    source = saved(tmp_path / "in.onnx")
    for bad in (tmp_path / "absent.onnx", tmp_path, source / "under_a_file"):
        with pytest.raises(FileError, match="cannot read") as caught:
            lower_file(bad, tmp_path / "out.onnx")
        assert str(bad) in str(caught.value)
    for bad in (tmp_path / "absent" / "out.onnx", tmp_path, source / "out.onnx"):
        with pytest.raises(FileError, match="cannot write") as caught:
            lower_file(source, bad)
        assert str(bad) in str(caught.value)
    assert contents(tmp_path) == {"in.onnx": GRADIENT.SerializeToString()}


def test_unknown_target_comes_before_the_file(tmp_path: Path) -> None:
    for call in (lower_file, lambda source, _, target: inspect_file(source, FileOptions(target=target))):
        with pytest.raises(UnknownTargetError):
            call(tmp_path / "absent.onnx", tmp_path / "out.onnx", target="x")  # type: ignore[operator]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    source, folder = saved(tmp_path / "in.onnx"), tmp_path / "locked"
    folder.mkdir(mode=0o500)
    with pytest.raises(FileError, match="Permission denied"):
        lower_file(source, folder / "out.onnx")


# -- external data


def external(name: str = "W") -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    return tensor


def holders() -> dict[str, ModelProto]:
    """A model with an external tensor in every place where ONNX allows one."""
    models = {
        name: ModelProto.FromString(GRADIENT.SerializeToString())
        for name in ("initializer", "constant", "subgraph", "tensors", "function", "sparse", "training")
    }
    constant = helper.make_node("Constant", [], ["W"], value=external())
    outside = helper.make_tensor_value_info("W", TensorProto.FLOAT, [2])
    branch = helper.make_graph([], "b", [], [outside], [external()])
    models["initializer"].graph.initializer.append(external())
    models["constant"].graph.node.append(constant)
    models["subgraph"].graph.node.append(helper.make_node("If", ["X"], ["Z"], then_branch=branch, else_branch=branch))
    models["tensors"].opset_import.add(domain="o", version=1)
    models["tensors"].graph.node.append(helper.make_node("f", [], [], domain="o", values=[external(), external()]))
    models["function"].functions.append(helper.make_function("o", "f", [], ["W"], [constant], GRADIENT.opset_import))
    indices = helper.make_tensor("", TensorProto.INT64, [2], [3, 5])
    models["sparse"].graph.sparse_initializer.append(helper.make_sparse_tensor(external(), indices, [9]))
    models["training"].training_info.add().algorithm.initializer.append(external())
    return models


@pytest.mark.parametrize("holder", holders())
def test_external_data_keeps_its_folder(tmp_path: Path, holder: str) -> None:
    source = saved(tmp_path / "in.onnx", holders()[holder])
    (tmp_path / "other").mkdir()
    with pytest.raises(FileError, match="external") as caught:
        lower_file(source, tmp_path / "other" / "out.onnx")
    assert str(tmp_path) in str(caught.value)
    assert not contents(tmp_path / "other")
    lower_file(source, tmp_path / "out.onnx")
    lowered = onnx.load(tmp_path / "out.onnx", load_external_data=False)
    assert lowered.SerializeToString().count(b"weights.bin") == holders()[holder].SerializeToString().count(
        b"weights.bin"
    )


def test_external_data_is_beside_the_path_as_given(tmp_path: Path) -> None:
    """If the model is a link, its data is read beside the link."""
    stored = saved(tmp_path / "store" / "0123", holders()["initializer"])
    link = tmp_path / "models" / "m.onnx"
    link.parent.mkdir()
    link.symlink_to(stored)
    lower_file(link, link.parent / "out.onnx")
    with pytest.raises(FileError, match="external"):
        lower_file(link, stored.parent / "out.onnx")
    (tmp_path / "alias").symlink_to(link.parent)
    lower_file(link, tmp_path / "alias" / "again.onnx")
    assert (link.parent / "again.onnx").exists()
