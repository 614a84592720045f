"""Which execution provider runs which node of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from poolgrad_lowering.runtime.errors import SessionError

if TYPE_CHECKING:
    import onnxruntime

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
