"""Which execution provider runs which node of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from poolgrad_lowering.runtime.errors import SessionError

if TYPE_CHECKING:
    import onnx
    import onnxruntime

_CPU = "CPUExecutionProvider"

# The session entry that has onnxruntime keep the assignment; `create_session` sets it.
RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"


class AssignedNode(NamedTuple):
    """A node of a session's graph after onnxruntime's partitioning, and its execution provider."""

    provider: str
    domain: str
    op_type: str
    name: str


def assignment(session: onnxruntime.InferenceSession) -> list[AssignedNode]:
    """Return the nodes of a session made by `create_session`, subgraphs included, with their providers.

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
    """Return the nodes on the CPU that read or make a value of a node on another provider, in the model's order.

    Each such value is copied between host and device in every Run, where the other provider keeps its values in device
    memory. `model` is the one that the session was made of; nodes of its main graph are found by their names, so those
    without a name and those that onnxruntime made are not among them. Raises what `assignment` raises.
    """
    assigned = {node.name: node for node in assignment(session) if node.name}
    makers = {value: assigned.get(node.name) for node in model.graph.node for value in node.output if value}
    found: dict[str, AssignedNode] = {}
    for node in model.graph.node:
        reader = assigned.get(node.name)
        for value in node.input:
            maker = makers.get(value)
            if reader is None or maker is None or (reader.provider == _CPU) == (maker.provider == _CPU):
                continue
            on_cpu = reader if reader.provider == _CPU else maker
            found[on_cpu.name] = on_cpu
    return [found[node.name] for node in model.graph.node if node.name in found]
