# SPDX-License-Identifier: Apache-2.0

"""In which ways a lowered model can run, and where its nodes run beside onnxruntime's CANN provider, as data."""

from __future__ import annotations

from typing import Any, NamedTuple


class Way(NamedTuple):
    """Whether a lowered model can run in one of four ways; `reason` says why not, and is empty if it can.

    `way` is "provider" (onnxruntime with the execution provider), "bodies" (onnxruntime alone, by function bodies),
    "atc" (converted by ATC, after `poolgrad export-atc`) or "cann" (onnxruntime with the execution provider and its
    CANN provider in graph mode). `doubt` says what CANN may refuse of a way that can run, and is empty otherwise.
    """

    way: str
    works: bool
    reason: str
    doubt: str = ""


PLACES = {"provider": "this package's provider", "cann": "onnxruntime's CANN provider", "cpu": "CPU"}
"""The names of the places of nodes, for people."""


class PlaceCount(NamedTuple):
    """The nodes of a place, and the bytes of the tensors that they read and write.

    `place` is a key of `PLACES`.
    """

    place: str
    nodes: int
    bytes: int

    @property
    def title(self) -> str:
        """The name of the place, for people."""
        return PLACES[self.place]


class PlacementReport(NamedTuple):
    """Where the nodes of the lowered main graph run beside onnxruntime's CANN provider in graph mode, as predicted.

    Nodes that onnxruntime computes when it makes the session are left out. `sub_models` are the parts of the graph that
    CANN's graph engine builds, `copies` the values that are copied between host and device in each step, without the
    graph's inputs and outputs, and `unknown_sizes` the values of unknown size, which are left out of the bytes.
    """

    places: tuple[PlaceCount, ...]
    sub_models: int
    copies: int
    unknown_sizes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction as plain data with the keys of the JSON report."""
        return {**self._asdict(), "places": [count._asdict() for count in self.places]}

    def share_of_bytes(self, count: PlaceCount) -> str:
        """Return the share of a place in the known bytes as text; a dash if it has nodes, and no size is known."""
        total = sum(each.bytes for each in self.places)
        return "–" if count.nodes and not count.bytes else f"{count.bytes / max(total, 1):.1%}"
