# SPDX-License-Identifier: Apache-2.0

"""Limits on a model's size: the fields are keywords of the Python interface and flags of the command."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """The largest model that is accepted, and how much of its external data is read."""

    max_bytes: int = field(
        default=2**31 - 1, metadata={"help": "bytes of the file; a protobuf message has at most 2 GiB"}
    )
    max_nodes: int = field(
        default=2**22, metadata={"help": "nodes; each call of a function counts all nodes of the inlined call"}
    )
    max_nesting: int = field(default=32, metadata={"help": "levels of subgraphs and of function calls"})
    max_external_bytes: int = field(
        default=2**36,
        metadata={"help": "bytes of external data that proofs read; a gradient that needs more is refused"},
    )


DEFAULT_LIMITS = Limits()
