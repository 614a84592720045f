# SPDX-License-Identifier: Apache-2.0

"""Mutants that compute what the original does, by name, each with the reason."""

from __future__ import annotations

_ONLY_A_NAME = "the value of an enumeration that is only compared with itself"
_ONLY_A_TYPE = "an int is made of the product, of integers and below 2^53; dtype is that of an empty one"

EQUIVALENT: dict[str, str] = {
    "poolgrad_lowering.rewriting.argmax._on_canvas: "
    "np.prod(canvas[axis + 1:], dtype=np.int64) → np.prod(canvas[axis + 1:])": _ONLY_A_TYPE,
    "poolgrad_lowering.rewriting.argmax._on_canvas: "
    "np.prod(sizes[axis:], dtype=np.int64) → np.prod(sizes[axis:])": _ONLY_A_TYPE,
    "poolgrad_lowering.analysis.provenance.Numbering: 'tensor' → 'tensor_'": _ONLY_A_NAME,
    "poolgrad_lowering.analysis.provenance.Numbering: 'plane' → 'plane_'": _ONLY_A_NAME,
    "poolgrad_lowering.analysis.provenance.Numbering: 'axis' → 'axis_'": _ONLY_A_NAME,
}
