"""Models changed at random, field by field and byte by byte: a sound result or an error of ours, nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutation import corrupted, mutated
from onnx import ModelProto

from poolgrad_lowering import InvalidModelError, PoolgradError, inspect, lower, lower_file

BUILT = sorted((Path(__file__).parent.parent.parent / "models" / "built").rglob("*.onnx"))
MODELS = st.sampled_from(BUILT).map(Path.read_bytes)
SEEDS = st.integers(0, 2**32)
CHANGES = st.integers(1, 6)
FEW = settings(
    max_examples=80, derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
MANY = settings(FEW, max_examples=5000, derandomize=False)


def check_fields(data: bytes, seed: int, changes: int) -> None:
    model = mutated(data, seed, changes)
    before = model.SerializeToString()
    try:
        result = lower(model)
    except InvalidModelError:
        return
    assert model.SerializeToString() == before
    assert result.report.lowered or result.model.SerializeToString() == before
    again = inspect(result.model)  # what comes out passes the gate, and is done
    assert not again.lowered


def check_bytes(data: bytes, seed: int, changes: int, folder: Path) -> None:
    source, destination = folder / "in.onnx", folder / "out.onnx"
    source.write_bytes(corrupted(data, seed, changes))
    destination.unlink(missing_ok=True)
    try:
        lower_file(source, destination)
    except PoolgradError:
        assert not destination.exists()
    else:
        assert ModelProto.FromString(destination.read_bytes()).HasField("graph")


@FEW
@given(MODELS, SEEDS, CHANGES)
def test_fields(data: bytes, seed: int, changes: int) -> None:
    check_fields(data, seed, changes)


@FEW
@given(MODELS, SEEDS, CHANGES)
def test_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, seed: int, changes: int) -> None:
    check_bytes(data, seed, changes, tmp_path_factory.getbasetemp())


@pytest.mark.long
@MANY
@given(MODELS, SEEDS, CHANGES)
def test_fields_very_often(data: bytes, seed: int, changes: int) -> None:
    check_fields(data, seed, changes)


@pytest.mark.long
@MANY
@given(MODELS, SEEDS, CHANGES)
def test_bytes_very_often(tmp_path_factory: pytest.TempPathFactory, data: bytes, seed: int, changes: int) -> None:
    check_bytes(data, seed, changes, tmp_path_factory.getbasetemp())
