"""How much of a model is taken: fields are the keywords of the Python interface and the flags of the command."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """The largest model that is worked on, and how much of its external data is read."""

    max_bytes: int = field(
        default=2**31 - 1, metadata={"help": "bytes of the file; more than 2 GiB is no protobuf message"}
    )
    max_nodes: int = field(
        default=2**22, metadata={"help": "nodes, each call of a function counted with all that it calls"}
    )
    max_nesting: int = field(default=32, metadata={"help": "levels of subgraphs and of function calls"})
    max_external_bytes: int = field(
        default=2**36, metadata={"help": "bytes of external data that proofs read; sites that need more are refused"}
    )


DEFAULT_LIMITS = Limits()
