# SPDX-License-Identifier: Apache-2.0

"""The forward pools of the built training graphs: which move, what goes with them, and that the bits are the same."""

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
from poolgrad_lowering.dialect.targets import find_target
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.oracles import run_ort
from tests.patterns.lowering_checks import TARGETS, check_same_results, check_well_formed

ENTRIES = [pytest.param(entry, id=entry.name) for entry in catalogue.entries()]
TORCH = [pytest.param(entry, id=entry.name) for entry in catalogue.entries("torch") if entry.sites]

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
