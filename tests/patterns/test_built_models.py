# SPDX-License-Identifier: Apache-2.0

"""The built training graphs: every gradient is found, nothing else is touched, and the results are the same bits."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest
from onnx import ModelProto, NodeProto

from models import catalogue
from models.catalogue import Entry
from poolgrad_lowering import lower
from poolgrad_lowering.dialect.targets import TARGETS as PRODUCTS
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.oracles import assert_same_bits, run_reference
from tests.patterns.lowering_checks import Array, known_runners

ALL = [pytest.param(entry, id=entry.name) for entry in catalogue.entries()]
TORCH = [pytest.param(entry, id=entry.name) for entry in catalogue.entries("torch") if entry.sites]
LEGACY = [pytest.param(entry, id=entry.name) for entry in catalogue.entries("torch_legacy") if entry.sites]
RECORDED = [
    pytest.param(entry, number, id=f"{entry.name}-{number}")
    for entry in catalogue.entries("ort")
    for number in range(len(entry.site_tensors()))
]
NO_OPERATORS = [name for name, product in PRODUCTS.items() if not product.operators]
assert NO_OPERATORS


@pytest.mark.parametrize("entry", ALL)
def test_other_nodes_keep_their_bytes_and_order(entry: Entry) -> None:
    model = onnx.load(entry.file)
    lowered = lower(model, forward=False).model
    before = [node.SerializeToString() for node in model.graph.node]
    kept = [data for node in lowered.graph.node if (data := node.SerializeToString()) in set(before)]
    assert kept == [data for data in before if data in set(kept)]
    added = [node for node in lowered.graph.node if node.SerializeToString() not in set(before)]
    assert sum(node.domain == "npu" for node in added) == entry.site_count
    assert entry.site_count or lowered.SerializeToString() == entry.file.read_bytes()


@pytest.mark.parametrize("target", NO_OPERATORS)
def test_products_without_operators_refuse_every_gradient(target: str) -> None:
    for entry in catalogue.entries():
        model = onnx.load(entry.file)
        result = lower(model, target=target)
        codes = Counter(anchor.code for anchor in result.report.refused)
        assert codes[Code.TARGET.value] == entry.site_count
        assert not result.report.lowered
        assert result.model.SerializeToString() == model.SerializeToString()


@pytest.mark.parametrize("target", ["atlas-a2", "ascend950"])
@pytest.mark.parametrize("entry", LEGACY)
def test_lowered_operators_compute_what_torch_computed(entry: Entry, target: str) -> None:
    """onnxruntime has no kernels for the operators; the recorded results are PyTorch's own."""
    found = run_reference(lower(onnx.load(entry.file), target=target).model, entry.feeds())
    for name, value in entry.expected().items():
        assert_same_bits(found[name], value)


@pytest.mark.parametrize("target", ["atlas-a2", "ascend950"])
@pytest.mark.parametrize(("entry", "number"), RECORDED)
def test_recorded_sites_compute_the_same_bits(entry: Entry, number: int, target: str) -> None:
    """What replaces the k-th MaxPoolGrad, alone, against what onnxruntime-training computed there."""
    model, tensors = onnx.load(entry.file), entry.site_tensors()[number]
    replaced = [node for node in model.graph.node if node.op_type == "MaxPoolGrad"][number]
    pool = next(node for node in model.graph.node if replaced.input[1] in node.output)
    names = {pool.input[0]: "X", replaced.input[0]: "dY", replaced.input[1]: "Indices"}
    site = cut_out(lower(model, target=target).model, names, replaced.output[0], tensors)
    feeds = {name: tensors[role] for name, role in names.items()}
    for run in known_runners(site):
        assert_same_bits(run(site, feeds)[replaced.output[0]], tensors["dX"])


def cut_out(model: ModelProto, names: dict[str, str], result: str, tensors: dict[str, Array]) -> ModelProto:
    """The part of a model that computes `result` from the values `names`, with its functions."""
    producers = {output: node for node in model.graph.node for output in node.output}
    needed: list[NodeProto] = []
    pending = [result]
    while pending:
        node = producers[pending.pop()]
        if node not in needed:
            needed.append(node)
            pending.extend(name for name in node.input if name not in names)
    values = {
        name: onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(tensors[role].dtype), tensors[role].shape
        )
        for name, role in {**names, result: "dX"}.items()
    }
    site = ModelProto()
    site.CopyFrom(model)
    site.graph.Clear()
    site.graph.name = "site"
    site.graph.node.extend(node for node in model.graph.node if node in needed)
    site.graph.input.extend(values[name] for name in names)
    site.graph.output.append(values[result])
    return site
