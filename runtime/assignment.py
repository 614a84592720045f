# SPDX-License-Identifier: Apache-2.0

"""The assignment of a session's nodes to execution providers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from poolgrad_lowering.model.diagnostics.errors import SessionError

if TYPE_CHECKING:
    import onnx
    import onnxruntime

_CPU = "CPUExecutionProvider"

# The session entry that makes onnxruntime record the assignment; `create_session` sets it.
RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"


class AssignedNode(NamedTuple):
    """A node of a session's graph after onnxruntime's partitioning, and its execution provider."""

    provider: str
    domain: str
    op_type: str
    name: str


def assignment(session: onnxruntime.InferenceSession) -> list[AssignedNode]:
    """Return the nodes of a session from `create_session`, including subgraphs, with their providers.

    Raises `SessionError` if the session did not record the assignment.
    """
    try:
        subgraphs = session.get_provider_graph_assignment_info()
    except Exception as error:
        raise SessionError(f'the session did not record its assignment; set "{RECORD_ASSIGNMENT}" to "1"') from error
    return [
        AssignedNode(subgraph.ep_name, node.domain, node.op_type, node.name)
        for subgraph in subgraphs
        for node in subgraph.get_nodes()
    ]


def crossings(session: onnxruntime.InferenceSession, model: onnx.ModelProto) -> list[AssignedNode]:
    """Return the nodes on the CPU that use or produce a value of a node on another provider, in the model's order.

    Each such value is copied between host and device in every Run if the other provider keeps its values in device
    memory. `model` is the session's model. Nodes of its main graph are found by name; nodes without a name and nodes
    that onnxruntime added are not found. Raises `SessionError` as `assignment` does.
    """
    assigned = {node.name: node for node in assignment(session) if node.name}
    producers = {value: assigned.get(node.name) for node in model.graph.node for value in node.output if value}
    found: dict[str, AssignedNode] = {}
    for node in model.graph.node:
        consumer = assigned.get(node.name)
        for value in node.input:
            producer = producers.get(value)
            if consumer is None or producer is None or (consumer.provider == _CPU) == (producer.provider == _CPU):
                continue
            on_cpu = consumer if consumer.provider == _CPU else producer
            found[on_cpu.name] = on_cpu
    return [found[node.name] for node in model.graph.node if node.name in found]
