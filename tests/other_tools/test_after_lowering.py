# SPDX-License-Identifier: Apache-2.0

"""What other packages' tools do to a lowered model: each row of the page's table, for each lowered model."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import ModelProto
from packaging.version import Version

from poolgrad_lowering import inspect, lower, verify
from poolgrad_lowering.model.diagnostics.note_codes import NoteCode
from poolgrad_lowering.runtime import SessionError, assignment, create_session, get_ep_name
from tests.oracles import assert_same_bits
from tests.other_tools.after_lowering import TOOLS, VERSIONS, Outcome, Tool, Verified, models

pytestmark = pytest.mark.tools

Array = npt.NDArray[Any]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Tools log and warn a lot."""
    onnxruntime.set_default_logger_severity(4)
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)
    onnxruntime.set_default_logger_severity(2)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: f"{tool.package}: {tool.call}")
def test_the_table(tool: Tool, tmp_path: Path) -> None:
    verdicts = []
    for number, (name, (original, lowered)) in enumerate(models().items()):
        outcome = tool.but.get(name, tool.outcome)
        folder = tmp_path / str(number)
        left = applied(tool, lowered, folder / "lowered")
        assert (left is None) is (outcome is Outcome.FAILS or name in tool.refuses), name
        if left is None:
            assert (applied(tool, original, folder / "original") is None) is (name in tool.refuses), name
            continue
        check_nodes(left, lowered, outcome)
        check_bits(left, reference(tool, original, lowered, folder / "reference"), outcome)
        check_session(left, outcome)
        if outcome is Outcome.INLINED and (tool.package, name) != ("onnxruntime", "float16"):  # two nodes of one name
            check_lowered_again(left, lowered, adaptive=name == "adaptive")
        warned = [NoteCode(note.code) for note in inspect(left).notes if note.warning]
        assert warned == ([] if outcome is Outcome.KEPT else [outcome.value]), name
        found = verify(original, left, whole_model=False)
        if outcome is not Outcome.KEPT and found.proven:  # by the nodes of the bodies, and it says so
            assert outcome is Outcome.INLINED, name
            assert all(site.expanded for site in found.sites), name
        verdicts.append(verdict(found) if outcome is Outcome.KEPT else Verified.UNPROVEN)
    assert max(verdicts, key=list(Verified).index) is tool.verified


def applied(tool: Tool, model: ModelProto, folder: Path) -> ModelProto | None:
    """What the tool makes of a copy of the model, or None if it fails."""
    folder.mkdir(parents=True)
    copy = ModelProto()
    copy.CopyFrom(model)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tool.apply(copy, folder)
    except Exception:
        return None


def reference(tool: Tool, original: ModelProto, lowered: ModelProto, folder: Path) -> ModelProto:
    """The model whose bits the tool's result has."""
    changed = applied(tool, original, folder) if tool.changes_values else None
    return lowered if changed is None else lower(changed).model


def check_nodes(left: ModelProto, lowered: ModelProto, outcome: Outcome) -> None:
    before, after = operators(lowered), operators(left)
    bodies = [sorted(function.name for function in model.functions) for model in (lowered, left)]
    assert len(after) == (0 if outcome is Outcome.INLINED else len(before))
    assert (before == after) is (outcome not in (Outcome.INLINED, Outcome.RENAMED))
    assert len(bodies[1]) == (0 if outcome in (Outcome.INLINED, Outcome.STRIPPED) else len(bodies[0]))
    assert (bodies[0] == bodies[1]) is (outcome in (Outcome.KEPT, Outcome.MISTYPED))


def operators(model: ModelProto) -> list[str]:
    return sorted(node.op_type for node in model.graph.node if node.domain == "npu")


def check_bits(left: ModelProto, expected: ModelProto, outcome: Outcome) -> None:
    """On the CPU, by bodies alone. Tools rename inputs, and put constants among them, but keep their order."""
    if not outcome.runs_on_cpu:
        with pytest.raises(Exception, match="ONNXRuntimeError"):
            run(left)
        return
    for one, other in zip(run(left), run(expected), strict=True):
        assert_same_bits(one, other)


def run(model: ModelProto) -> list[Array]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    stored = {tensor.name for tensor in model.graph.initializer}
    feeds = {
        value.name: rng.integers(0, 5, [dim.dim_value for dim in value.type.tensor_type.shape.dim]).astype(
            onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        )
        for value in model.graph.input
        if value.name not in stored
    }
    return session.run(None, feeds)


def check_session(left: ModelProto, outcome: Outcome) -> None:
    """The provider runs every node of the dialect, or the cause and the way out are told."""
    if outcome is Outcome.KEPT:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            session = create_session(left, backend="host")
        claimed = sorted(node.op_type for node in assignment(session) if node.provider == get_ep_name())
        assert claimed == operators(left)
    elif outcome.runs_on_cpu:
        with pytest.warns(RuntimeWarning, match="Run that tool on the original, then lower"):
            create_session(left, backend="host")
    else:
        with pytest.raises(SessionError, match="Run that tool on the original, then lower"):
            create_session(left, backend="host")


def check_lowered_again(left: ModelProto, lowered: ModelProto, *, adaptive: bool) -> None:
    """Gradients of MaxPool are found in their inlined bodies, those of adaptive pools are not."""
    again = lower(left).model
    gradients = [[name for name in operators(model) if "Grad" in name] for model in (again, lowered)]
    assert len(gradients[0]) == (0 if adaptive else len(gradients[1]))
    check_bits(again, lowered, Outcome.KEPT)


def verdict(found: Any) -> Verified:
    if found.proven:
        return Verified.PROVEN
    proven = bool(found.sites) and all(site.status == "proven" for site in found.sites)
    return Verified.SITES if proven else Verified.UNPROVEN


@pytest.mark.parametrize("level", ["ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
def test_operators_of_onnxruntime_itself(level: str, tmp_path: Path) -> None:
    [tool] = [tool for tool in TOOLS if level in tool.call]
    left = applied(tool, models()["LeNet"][1], tmp_path / "left")
    assert left is not None
    assert "com.microsoft" in {node.domain for node in left.graph.node}
    assert "com.microsoft" in tool.remark


@pytest.mark.parametrize("package", VERSIONS)
def test_the_releases_are_those_of_the_page_or_newer(package: str) -> None:
    assert Version(version(package)) >= Version(VERSIONS[package])
