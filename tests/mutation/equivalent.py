"""Mutants that compute what the original does, by name, each with the reason."""

from __future__ import annotations

_ONLY_A_BOUND = "it only ends the walk along an endless chain; no model comes near it"
_ONLY_A_NAME = "the value of an enumeration that is only compared with itself"

EQUIVALENT: dict[str, str] = {
    "poolgrad_lowering.views: 64 → 65": _ONLY_A_BOUND,
    "poolgrad_lowering.provenance: 64 → 65": _ONLY_A_BOUND,
    "poolgrad_lowering.provenance.Numbering: 'tensor' → 'tensor_'": _ONLY_A_NAME,
    "poolgrad_lowering.provenance.Numbering: 'plane' → 'plane_'": _ONLY_A_NAME,
    "poolgrad_lowering.provenance.Numbering: 'axis' → 'axis_'": _ONLY_A_NAME,
}
