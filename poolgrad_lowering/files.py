"""Models as files: read whole or not at all, written whole or not at all. External data is never opened."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from poolgrad_lowering.errors import FileError, InvalidModelError
from poolgrad_lowering.lowering import lower_in_place
from poolgrad_lowering.report import Report
from poolgrad_lowering.targets import DEFAULT_TARGET, find_target

PathLike = str | os.PathLike[str]

_HOLDERS = (
    AttributeProto.TENSOR,
    AttributeProto.TENSORS,
    AttributeProto.SPARSE_TENSOR,
    AttributeProto.GRAPH,
    AttributeProto.GRAPHS,
)


def lower_file(
    source: PathLike,
    destination: PathLike,
    *,
    target: str = DEFAULT_TARGET,
    forward: bool = True,
    strict: bool = False,
    verify: bool = False,
) -> Report:
    """Lower the model in `source` and write it to `destination`, which may be the same file.

    Without sites the bytes of the source are written as they are. With `strict`, nothing is written if an anchor was
    refused; with `verify`, nothing if the lowered model is not proven to compute what the source does, which raises
    `VerificationError`. Raises `FileError`, `InvalidModelError` and `UnknownTargetError`; the destination then is what
    it was.
    """
    found = find_target(target)
    source, destination = Path(source), Path(destination)
    data = read_bytes(source)
    model = parse_model(data, source)
    _require_reachable_data(model, source, destination)
    report = lower_in_place(model, found, forward=forward)
    if strict and report.refused:
        return report
    if verify and report.lowered:
        _require_verified(data, model, source)
    write_bytes(destination, model.SerializeToString() if report.lowered else data)
    return report


def inspect_file(source: PathLike, *, target: str = DEFAULT_TARGET, forward: bool = True) -> Report:
    """What `lower_file` would do. Raises as it does; writes nothing."""
    found = find_target(target)
    return lower_in_place(parse_model(read_bytes(Path(source)), Path(source)), found, forward=forward)


def read_bytes(path: Path) -> bytes:
    """The file's bytes. Raises `FileError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"cannot read '{path}': {error.strerror or error}") from error


def parse_model(data: bytes, path: Path) -> ModelProto:
    """The model in some bytes read from `path`. Raises `InvalidModelError`."""
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise InvalidModelError(f"'{path}' is not an ONNX model: it does not parse as ModelProto") from error
    if not model.HasField("graph") or not model.opset_import:
        raise InvalidModelError(
            f"'{path}' is not an ONNX model: it has no graph or imports no operator set. "
            "Give a file that an ONNX exporter wrote (binary .onnx)."
        )
    return model


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole: beside the target, synced, then renamed; a link stays one. Raises `FileError`."""
    target = Path(os.path.realpath(path))
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(_mode_for(target))
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FileError(f"cannot write '{path}': {error.strerror or error}") from error


def _mode_for(path: Path) -> int:
    """The permissions of the file that is replaced, or those a new file gets."""
    if path.exists():
        return path.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _require_reachable_data(model: ModelProto, source: Path, destination: Path) -> None:
    """External data is referenced relative to the model's folder, so the output must stay in it.

    The folder is that of the path as given: runtimes look there, also where the model itself is a link.
    """
    folder, written = source.parent.resolve(), destination.parent.resolve()
    if folder == written:
        return
    graphs = (model.graph, *(graph for info in model.training_info for graph in (info.initialization, info.algorithm)))
    nodes = (node for function in model.functions for node in function.node)
    tensors = chain(*map(_tensors, graphs), *map(_held_tensors, nodes))
    if any(tensor.data_location == TensorProto.EXTERNAL for tensor in tensors):
        raise FileError(
            f"'{source}' keeps tensors in external files, which are named relative to its folder: "
            f"write the output into '{folder}', not '{written}'"
        )


def _require_verified(data: bytes, lowered: ModelProto, source: Path) -> None:
    from poolgrad_lowering.verification.files import require_verified  # noqa: PLC0415 - loads onnx's evaluator

    require_verified(parse_model(data, source), lowered, source.parent)


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _held_tensors(node)


def _held_tensors(node: NodeProto) -> Iterator[TensorProto]:
    for attribute in node.attribute:
        if attribute.type not in _HOLDERS:
            continue
        yield from (attribute.t, *attribute.tensors, attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
        for graph in (attribute.g, *attribute.graphs):
            yield from _tensors(graph)
