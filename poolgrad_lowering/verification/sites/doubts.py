# SPDX-License-Identifier: Apache-2.0

"""Finds the reasons why a site is not proven although all its runs gave equal results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from onnx import ModelProto

from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.verification.graph import roles
from poolgrad_lowering.verification.graph.protos import default_opset
from poolgrad_lowering.verification.graph.types import TensorType
from poolgrad_lowering.verification.graph.windows import StridedWindow, known_integers, windows_of
from poolgrad_lowering.verification.sites.cut import Cut
from poolgrad_lowering.verification.sites.declared import is_own_body
from poolgrad_lowering.verification.sites.flow import flow_flaw

_MAXIMA = ("ArgMax", "ReduceMax", "TopK")
"""Operators by which pools are written out."""


def foreign_bodies(lowered: ModelProto) -> frozenset[str]:
    """Return the operators of the dialect whose function body in a model is not the one that this version makes."""
    opset = default_opset(lowered)
    bodies = [function for function in lowered.functions if function.domain == DOMAIN and function.name in OPS]
    return frozenset(body.name for body in bodies if not is_own_body(body, opset))


def doubt(cut: Cut, types: Mapping[str, TensorType], foreign: Collection[str]) -> str | None:
    """Return why a site is not proven although all runs gave the same results, or None.

    `foreign` are the operators whose body is not this version's.
    """
    strange = sorted({node.op[1] for node in cut.region.added if roles.is_dialect(node)}.intersection(foreign))
    if strange:
        return f"the function body of {strange[0]} differs from this version's; in these runs it gave the same results"
    return flow_flaw(cut.region, types) or _other_windows(cut)


def _other_windows(cut: Cut) -> str | None:
    """Return a text on the first gradient whose windows are not those of a pool of the original, or None.

    Results may be the same with others at the sizes that were tried. Nothing is said where a pool's windows are not
    known.
    """
    constants = known_integers(cut.original, cut.constants)
    pools = [windows_of(node, constants) for node in cut.original if roles.pooled(node) or node.op[1] in _MAXIMA]
    if not all(pools):
        return None
    for node in cut.region.added:
        own = windows_of(node, {}) if roles.is_dialect_gradient(node) else []
        if own and pools and not any(_fit(own, pool) for pool in pools):
            return f"the windows of '{node.label}' are not those of the pool"
    return None


def _fit(own: Sequence[StridedWindow], pool: Sequence[StridedWindow]) -> bool:
    """Whether windows of a gradient are those of a pool, or widened to have the same padding at both ends."""
    missing = len(own) - len(pool)
    return (
        missing >= 0
        and all(window == (1, 1, 0, 0) for window in own[:missing])
        and all(
            window.stride == of_pool.stride and window.extent in (of_pool.extent, of_pool.widest)
            for window, of_pool in zip(own[missing:], pool, strict=True)
        )
    )
