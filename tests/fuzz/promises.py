# SPDX-License-Identifier: Apache-2.0

"""What is promised of any bytes, as checks: each says how it went, and lets nothing through that is not promised."""

from __future__ import annotations

import json
from pathlib import Path

from onnx import ModelProto

from poolgrad_lowering import InvalidModelError, PoolgradError, inspect, lower, lower_file, verify
from poolgrad_lowering.dialect.targets import TARGETS
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.model_file import parse_model
from poolgrad_lowering.report.report import Report
from poolgrad_lowering.verification.result import failure_text

Outcome = str
"""How an input went: the fault, "untouched", or "lowered"."""


def check_model(data: bytes) -> Outcome:
    """A sound result with a report that JSON can hold, or an error of ours; the target depends on the data."""
    target = sorted(TARGETS)[len(data) % len(TARGETS)]
    try:
        model = parse_model(data, Path("model.onnx"))
        before = model.SerializeToString()
        result = lower(model, target=target)
    except InvalidModelError as error:
        return _described(error)
    assert model.SerializeToString() == before
    _check_report(result.report)
    if not result.report.lowered:
        assert result.model.SerializeToString() == before
        return "untouched"
    inspect(result.model, target=target)  # passes the gate; done it is only where shapes do not contradict each other
    return "lowered"


def check_pair(data: bytes) -> Outcome:
    """A verdict on two models, which are in the data as `packed` puts them there, or an error of ours."""
    try:
        models = [parse_model(part, Path("model.onnx")) for part in unpacked(data)]
        for model in models:
            Gate().index(model)
        found = verify(models[0], models[1], runs=1, whole_model=False)
    except InvalidModelError as error:
        return _described(error)
    assert json.loads(found.to_json().encode())["proven"] == found.proven
    assert failure_text(found).isprintable()
    return "proven" if found.proven else "not proven"


def packed(first: bytes, second: bytes) -> bytes:
    """Two inputs as one."""
    return len(first).to_bytes(4, "little") + first + second


def unpacked(data: bytes) -> tuple[bytes, bytes]:
    """What was packed; any bytes are two inputs."""
    end = 4 + int.from_bytes(data[:4], "little")
    return data[4:end], data[end:]


def check_file(data: bytes, folder: Path) -> Outcome:
    """A whole file or none."""
    source, destination = folder / "in.onnx", folder / "out.onnx"
    source.write_bytes(data)
    destination.unlink(missing_ok=True)
    try:
        lower_file(source, destination)
    except PoolgradError as error:
        assert not destination.exists()
        assert [path.name for path in folder.iterdir()] == [source.name]
        return _described(error)
    assert ModelProto.FromString(destination.read_bytes()).HasField("graph")
    return "written"


def _described(error: PoolgradError) -> Outcome:
    """The fault, of an error whose message is one line of printable text."""
    assert str(error).isprintable()
    return error.fault.value if isinstance(error, InvalidModelError) else type(error).__name__


def _check_report(report: Report) -> None:
    """The report is its JSON and can be written as UTF-8, and its sums are right."""
    assert json.loads(report.to_json().encode()) == report.to_dict()
    assert len(report.lowered) + sum(report.refused_by_code.values()) + len(report.unrelated) == len(report.anchors)
