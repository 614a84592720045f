# SPDX-License-Identifier: Apache-2.0

"""Built graphs, small ones and steps, exported for ATC: GE computes their bits, or the report says why not."""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto

from models import catalogue
from models.artifact_runs import FOLDERS, RUNS
from models.catalogue import Entry
from poolgrad_lowering import export_atc, verify
from poolgrad_lowering.dialect.targets import find_target
from poolgrad_lowering.entry.exports import AtcExport
from tests.atc import hand_made
from tests.atc.shipped import library_of_wheel
from tests.harness.ge.checking import convert, parse_and_run
from tests.harness.ge.compiling import ARM, NATIVE, Machine
from tests.harness.ge.driver import AnyPlugin, Plugin
from tests.harness.ge.faults import GeError
from tests.harness.ge.parser import GeOperator, parse
from tests.harness.ge.prototypes import PROTOTYPES, RELEASES, Soc
from tests.harness.ge.python_plugin import PythonPlugin
from tests.harness.sessions.standard_steps import standard_step
from tests.heads import head

TARGETS: dict[str, Soc] = {"atlas-a2": "ascend910b", "atlas-a3": "ascend910_93", "ascend950": "ascend950"}
ENTRIES = [
    entry
    for entry in (*catalogue.entries(), *catalogue.spellings(), *catalogue.external())
    if entry.file.with_suffix(".npz").exists()
]
SINCE_THE_OLDEST = {name for name, found in PROTOTYPES.items() if found.since == RELEASES[0]}
JOINT = [entry for entry in catalogue.entries("torch") if 16 <= entry.opset <= 18]
"""PyTorch's graphs of a forward and a backward pass, in the opsets that ATC converts."""


@functools.cache
def exported(file: Path, target: str) -> tuple[ModelProto, AtcExport]:
    original = onnx.load(file)
    return original, export_atc(original, target=target)


@pytest.mark.parametrize("target", ["atlas-a2", pytest.param("atlas-a3", marks=pytest.mark.atc), "ascend950"])
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_ge_takes_an_export_and_computes_the_originals_bits_or_the_report_says_why_not(
    shipped: AnyPlugin, entry: Entry, target: str
) -> None:
    original, export = exported(entry.file, target)
    release = export.report.conversion.cann
    if export.report.converts:
        parse_and_run(original, export.model, entry.feeds(), shipped, TARGETS[target], release=release)
    else:
        with pytest.raises(GeError):
            parse_and_run(original, export.model, entry.feeds(), shipped, TARGETS[target], release=release)


@pytest.mark.parametrize("target", TARGETS)
def test_nearly_all_joint_graphs_of_pytorch_convert(target: str) -> None:
    left = {entry.name for entry in JOINT if not exported(entry.file, target)[1].report.converts}
    assert left == set()
    assert len(JOINT) >= 28


@pytest.mark.parametrize("target", TARGETS)
def test_an_older_release_than_the_report_says_takes_no_export(target: str) -> None:
    exports = [export for entry in JOINT if (export := exported(entry.file, target)[1]).report.converts]
    newer = [export for export in exports if export.report.conversion.cann != RELEASES[0]]
    of_operators = [export for export in newer if not _operators(export) <= SINCE_THE_OLDEST]
    for export in of_operators:
        with pytest.raises(GeError, match="E10501"):
            parse(export.model, PythonPlugin(), RELEASES[0])
    assert of_operators
    oldest = find_target(target).cann
    assert all(export.report.conversion.cann == oldest for export in exports if _operators(export) <= SINCE_THE_OLDEST)


def _operators(export: AtcExport) -> set[str]:
    return {node.op_type for node in export.model.graph.node if node.domain == "npu"}


def test_the_library_leaves_in_ge_what_the_plugin_in_python_does(library: Plugin) -> None:
    compare_with_python(library)


@pytest.mark.atc
@pytest.mark.parametrize(("machine", "built_for"), [(platform.machine(), NATIVE), ("aarch64", ARM)])
def test_the_library_of_a_wheel_leaves_the_same(machine: str, built_for: Machine, tmp_path: Path) -> None:
    with Plugin(library_of_wheel(machine, tmp_path), built_for) as opened:
        compare_with_python(opened)


def compare_with_python(plugin: AnyPlugin) -> None:
    compared = 0
    for target in TARGETS:
        for entry in JOINT:
            export = exported(entry.file, target)[1]
            if export.report.converts:
                found, expected = (parse(export.model, each).operators for each in (plugin, PythonPlugin()))
                assert list(map(left, found)) == list(map(left, expected))
                compared += sum(bool(operator.type) for operator in found)
    assert compared >= len(JOINT)


def left(operator: GeOperator) -> object:
    return operator.type, dict(operator.attributes), list(operator.inputs), list(operator.outputs)


HEADER = head(16) + ""
POOL = "MaxPool <kernel_shape=[3,3], strides=[2,2]> (x)"
GRAPHS = {
    "Indices that nobody reads": ("E11010", f"g (float[1,2,9,9] x) => (float[?] y) {{ y, i = {POOL} }}"),
    "a node with the name of an input": ("E13009", "g (float[2] x) => (float[2] y) { [x] y = Neg (x) }"),
    "a name that GE makes itself": ("E13009", "g (float[2] x) => (float[2] y) { z = Neg (x) [Neg_0] y = Abs (z) }"),
}


@pytest.mark.parametrize(("code", "text"), GRAPHS.values(), ids=GRAPHS)
def test_the_export_of_a_graph_that_ge_refuses(plugin: AnyPlugin, code: str, text: str) -> None:
    model = onnx.parser.parse_model(f"{HEADER} {text}")
    feeds = hand_made.feeds_of(model)
    with pytest.raises(GeError, match=code):
        convert(model, feeds, plugin, "ascend910b")
    export = export_atc(model)
    assert export.report.converts
    parse_and_run(model, export.model, feeds, plugin, "ascend910b")


STEP_TARGETS: dict[str, Soc] = {"atlas-a2": "ascend910b", "ascend950": "ascend950"}


@pytest.mark.parametrize("target", STEP_TARGETS)
@pytest.mark.parametrize("name", RUNS)
def test_a_step_converts(name: str, target: str, shipped: AnyPlugin, tmp_path: Path) -> None:
    step, feeds = standard_step(name, target, tmp_path / "step")
    fixed = of_fixed_sizes(step, feeds)
    export = export_atc(fixed, target=target)
    assert [found.code for found in export.report.obstacles] == []
    assert verify(fixed, export.model).proven
    parse_and_run(fixed, export.model, feeds, shipped, STEP_TARGETS[target], release=export.report.conversion.cann)


def of_fixed_sizes(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The step for the batches that it is trained with."""
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param:
                dim.dim_value = feeds[value.name].shape[axis]
    return model


@pytest.mark.parametrize("name", RUNS)
def test_without_definitions_it_does_not(name: str) -> None:
    export = export_atc(onnx.load(FOLDERS / name / "training_model.onnx"))
    assert "unregistered-operator" in {found.code for found in export.report.obstacles}
