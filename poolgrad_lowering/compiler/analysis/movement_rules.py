# SPDX-License-Identifier: Apache-2.0

"""Rules for operators that move elements, evaluated on positions instead of values.

Every element of the starting tensor is its own position (≥ 0); `NOWHERE` represents −inf, the value of padding.
"""

from __future__ import annotations

import numpy as np

from poolgrad_lowering.compiler.analysis.constant_values import constant_value
from poolgrad_lowering.compiler.analysis.evaluation import Array, Evaluation, Rule, are_within, is_affordable
from poolgrad_lowering.model.facts.shape_rules import static_integers
from poolgrad_lowering.model.ir.attributes import integer, integers, text
from poolgrad_lowering.model.ir.scopes import Node

NOWHERE = -1


def _transpose(known: Evaluation, node: Node) -> Array | None:
    data, order = known.value(node.input(0)), integers(node, "perm")
    if data is None or order is None or sorted(order) != list(range(data.ndim)):
        return None
    return np.transpose(data, order)


def _pad(known: Evaluation, node: Node) -> Array | None:
    """ONNX's Pad with −inf on all axes, with pads that are an input (opset 11 and later)."""
    data, pads = known.value(node.input(0)), static_integers(known.facts, node, 1)
    if data is None or not pads or node.input(3) is not None or text(node, "mode") != "constant":
        return None
    if len(pads) != 2 * data.ndim or min(pads) < 0 or not _is_minus_infinity(known, node, 1):
        return None
    margins = list(zip(pads[: data.ndim], pads[data.ndim :], strict=True))
    affordable = is_affordable(sum(margin, size) for margin, size in zip(margins, data.shape, strict=True))
    return np.pad(data, margins, constant_values=NOWHERE) if affordable else None


def _gather(known: Evaluation, node: Node) -> Array | None:
    data, positions, axis = (
        known.value(node.input(0)),
        constant_value(known.facts, node.input(1)),
        integer(node, "axis"),
    )
    if data is None or positions is None or axis is None or not -data.ndim <= axis < data.ndim:
        return None
    affordable = is_affordable((data.size // max(data.shape[axis], 1), positions.size))
    return np.take(data, positions, axis) if affordable and are_within(positions, data.shape[axis]) else None


def _gather_nd(known: Evaluation, node: Node) -> Array | None:
    data, positions = known.value(node.input(0)), constant_value(known.facts, node.input(1))
    if data is None or positions is None or not positions.ndim or integer(node, "batch_dims"):
        return None
    coordinates = [positions[..., axis] for axis in range(positions.shape[-1])]
    depth = len(coordinates)
    if not 0 < depth <= data.ndim or not is_affordable(positions.shape[:-1] + data.shape[depth:]):
        return None
    inside = all(are_within(part, extent) for part, extent in zip(coordinates, data.shape, strict=False))
    return data[tuple(coordinates)] if inside else None


def _where(known: Evaluation, node: Node) -> Array | None:
    """ONNX's Where with a constant mask that selects the data or −inf."""
    mask, data = constant_value(known.facts, node.input(0)), known.value(node.input(1))
    if mask is None or data is None or mask.dtype != np.bool_ or not _is_minus_infinity(known, node, data.ndim):
        return None
    fits = mask.ndim <= data.ndim and all(
        extent in (1, size) for extent, size in zip(mask.shape[::-1], data.shape[::-1], strict=False)
    )
    return np.where(mask, data, NOWHERE) if fits else None


def _is_minus_infinity(known: Evaluation, node: Node, rank: int) -> bool:
    """Whether the third input is one −inf, of a rank that adds no axis to a tensor of this rank."""
    fill = constant_value(known.facts, node.input(2))
    if fill is None or fill.size != 1 or fill.ndim > rank:
        return False
    return fill.dtype.kind == "f" and bool(np.isneginf(fill).all())


MOVEMENT_RULES: dict[str, Rule] = {
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Pad": _pad,
    "Transpose": _transpose,
    "Where": _where,
}
