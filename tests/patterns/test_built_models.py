# SPDX-License-Identifier: Apache-2.0

"""The built training graphs: every gradient is found, nothing else is touched, the right pools move, and bits stay."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest
from onnx import ModelProto, NodeProto

from models import catalogue
from models.catalogue import Entry
from poolgrad_lowering import lower
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.dialect.ops import MAX_POOL_3D
from poolgrad_lowering.dialect.targets import TARGETS as PRODUCTS
from poolgrad_lowering.dialect.targets import find_target
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.patterns.lowering_checks import TARGETS, Array, check_same_results, check_well_formed, known_runners

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


ENTRIES = [pytest.param(entry, id=entry.name) for entry in catalogue.entries()]

STAY = {  # pools of lowered gradients that stay on every target; all others move
    "ort_module/whole_row": Code.FORWARD_WINDOWS,  # the pooled size is symbolic
    "ort/returned_indices": Code.FORWARD_READERS,
    "ort/same_lower": Code.FORWARD_WINDOWS,
    "ort/unequal_pads": Code.FORWARD_WINDOWS,
}
DILATED = ("ort/dilated", "ort/video_ceil_dilated", "torch/dilated")
MOVES_AN_AXIS = ("Reshape", "Squeeze", "Unsqueeze")
POOLS = {"MaxPool", "ATen", "adaptive_max_pool2d", "ReduceMax", "ArgMax"}
PLUMBING = {"Add", "Mul", "Slice", "Sub", "Mod", "Cast", "Constant", "Shape", "Gather", "ReduceProd", *MOVES_AN_AXIS}


def staying(entry: Entry, target: str) -> list[str]:
    """The codes of the pools that stay."""
    if entry.name in DILATED and not find_target(target).operators[MAX_POOL_3D].dilation:
        return [Code.FORWARD_WINDOWS.value]
    if entry.name not in STAY:
        return []
    return [STAY[entry.name].value]


def pools(model: ModelProto) -> list[NodeProto]:
    return [node for node in model.graph.node if node.domain == DOMAIN and "Grad" not in node.op_type]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_pools_move_with_their_gradients(entry: Entry, target: str) -> None:
    result = lower(onnx.load(entry.file), target=target)
    expected = staying(entry, target)
    assert [anchor.forward_code for anchor in result.report.lowered if anchor.forward_code] == expected
    assert len(pools(result.model)) == entry.site_count - len(expected)
    moved = Counter(node.op_type for node in pools(result.model))
    assert moved == Counter(anchor.forward_op for anchor in result.report.lowered if anchor.forward_op)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_what_made_an_argmax_of_the_indices_goes_with_them(entry: Entry, target: str) -> None:
    """Against the same model with its pools left: pools and views come, only they and their index arithmetic go."""
    model = onnx.load(entry.file)
    stays, moves = (lower(model, target=target, forward=forward).model for forward in (False, True))
    came, went = difference(moves, stays), difference(stays, moves)
    assert {node.op_type for node in came if node.domain != DOMAIN} <= {"Constant", "Reshape"}
    assert {node.op_type for node in went if node.domain != DOMAIN} <= PLUMBING | POOLS
    argmaxes = {node.output[1] for node in pools(moves)}
    gradients = [node for node in moves.graph.node if node.domain == DOMAIN and "Grad" in node.op_type]
    assert sum(node.input[2] in argmaxes for node in gradients) == entry.site_count - len(staying(entry, target))
    if entry.sites and not staying(entry, target) and not entry.refused:
        assert not [node for node in moves.graph.node if node.op_type in {*POOLS, "Mod"}]
    check_well_formed(model, moves, target)


def difference(one: ModelProto, other: ModelProto) -> list[NodeProto]:
    """The nodes of the first model that the second one does not have; their order is the same."""
    known = {node.SerializeToString() for node in other.graph.node}
    common = [node.SerializeToString() for node in one.graph.node if node.SerializeToString() in known]
    mine = set(common)
    assert common == [data for node in other.graph.node if (data := node.SerializeToString()) in mine]
    return [node for node in one.graph.node if node.SerializeToString() not in known]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("entry", TORCH)
def test_the_same_bits_with_and_without(entry: Entry, target: str) -> None:
    pytest.importorskip("onnxruntime")
    model, feeds = onnx.load(entry.file), entry.feeds()
    for forward in (False, True):
        check_same_results(model, lower(model, target=target, forward=forward).model, feeds, runners=[run_ort])
