# SPDX-License-Identifier: Apache-2.0

"""The first column of tables for people: the layer of each row, where layers are known."""

from __future__ import annotations

from collections.abc import Sequence


def with_layers(
    layers: Sequence[str | None], header: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return header and rows with a column for `layers`, one of each row, in front; as they are if all are None."""
    if not any(layers):
        return header, rows
    return ("layer", *header), [(layer or "", *row) for layer, row in zip(layers, rows, strict=True)]
