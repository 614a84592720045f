# SPDX-License-Identifier: Apache-2.0

"""Selects the kinds of data that are excluded for a site, because its two sides may give different bits for them.

Each is documented in `docs/verify.md`. For all other data the comparison is exact.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import TensorProto

from poolgrad_lowering.verification.graph import roles
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.protos import text_of
from poolgrad_lowering.verification.graph.types import TensorType
from poolgrad_lowering.verification.running.data import NO_INFINITE_POOLED, NO_NAN_POOLED, NO_NEGATIVE_ZERO, ONLY_WHOLE
from poolgrad_lowering.verification.sites.cut import Cut

_HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_WITHOUT_REDUCTION = (None, "none")


def excluded_data(cut: Cut, types: Mapping[str, TensorType], *, on_provider: bool) -> tuple[str, ...]:
    """Return the kinds of data that are excluded for this site."""
    reasons = {
        NO_NAN_POOLED: on_provider or any(map(_is_framework_pool, cut.region.removed)),
        NO_INFINITE_POOLED: on_provider or _is_decomposed(cut),
        NO_NEGATIVE_ZERO: any(map(_overwrites, cut.region.removed)),
        ONLY_WHOLE: any(_adds_in_halves(node, types) for node in cut.region.removed),
    }
    return tuple(kind for kind, left_out in reasons.items() if left_out)


def _is_decomposed(cut: Cut) -> bool:
    """Whether the pool is an ArgMax over elements and −inf padding, which it can select if all elements are −inf."""
    op_types = {node.op[1] for node in cut.original}
    return "ArgMax" in op_types and not op_types.isdisjoint({"Pad", "Where"})


def _is_framework_pool(node: FlatNode) -> bool:
    """Whether the node pools as PyTorch or TensorFlow do, which treat NaN differently from ONNX."""
    return roles.is_tensorflow_gradient(node) or (roles.pooled(node) is not None and node.op != ("", "MaxPool"))


def _overwrites(node: FlatNode) -> bool:
    domain, op_type = node.op
    if domain == "" and op_type in ("Scatter", "ScatterElements", "ScatterND"):
        return text_of(node.proto, "reduction") in _WITHOUT_REDUCTION
    return roles.aten_operator(node) == "value_selecting_reduction_backward"


def _adds_in_halves(node: FlatNode, types: Mapping[str, TensorType]) -> bool:
    domain, op_type = node.op
    if domain != "" or op_type not in ("ScatterElements", "ScatterND"):
        return False
    if text_of(node.proto, "reduction") in _WITHOUT_REDUCTION:
        return False
    known = [types[value].element for value in (*node.outputs, *node.inputs) if value in types]
    return any(element in _HALVES for element in known)
