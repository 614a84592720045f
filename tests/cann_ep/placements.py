# SPDX-License-Identifier: Apache-2.0

"""What `poolgrad inspect` predicts of a session beside the CANN provider, next to what the session has."""

from __future__ import annotations

import onnx

from poolgrad_lowering.ge.graph_mode import inline_functions, rewrite_nodes
from poolgrad_lowering.ge.placement import Place, Placement
from poolgrad_lowering.ge.values import value_types
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.runtime import get_ep_name
from tests.harness.sessions.coverage import Coverage
from tests.harness.sessions.mixed_sessions import CANN

PROVIDERS = {Place.PROVIDER: get_ep_name(), Place.CANN: CANN, Place.CPU: "CPUExecutionProvider"}

MOST_ADDED = 6
"""Transposes and Unsqueezes that onnxruntime adds to a step of these tests where it moves Transposes."""


def predicted(model: onnx.ModelProto) -> Placement:
    """Where the nodes of a lowered model run; the model stays as it is."""
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    inline_functions(copied)
    return rewrite_nodes(copied, value_types(copied, Gate().index(copied), ExternalData()))[1]


def node_count(placement: Placement, place: Place) -> int:
    """The number of nodes of a place."""
    return sum(node.place is place for node in placement.nodes)


def copies_inside(model: onnx.ModelProto, session: Coverage) -> int:
    """The copies between host and device in a step, without those of its inputs and outputs."""
    read = {operand for node in model.graph.node for operand in node.input}
    outside = len([value for value in model.graph.input if value.name in read]) + len(model.graph.output)
    return session.copies.get("to device", 0) + session.copies.get("to host", 0) - outside


def assert_predicted(model: onnx.ModelProto, session: Coverage) -> None:
    """Require the parts, the copies, and the nodes of the provider and of the CPU that are predicted of a model.

    onnxruntime removes and joins nodes of the CANN provider in ways that are not followed, and adds some where it moves
    Transposes.
    """
    assert not session.error
    found = predicted(model)
    assert {
        "parts": session.sub_models,
        "copies": copies_inside(model, session),
        "on the CPU": session.nodes_on_the_cpu,
        "provider": session.nodes.get(PROVIDERS[Place.PROVIDER], 0),
    } == {
        "parts": found.report.sub_models,
        "copies": found.copies,
        "on the CPU": node_count(found, Place.CPU),
        "provider": node_count(found, Place.PROVIDER),
    }
    added = MOST_ADDED if any(node.op_type == "Transpose" for node in model.graph.node) else 0
    assert session.nodes.get(CANN, 0) <= node_count(found, Place.CANN) + added
