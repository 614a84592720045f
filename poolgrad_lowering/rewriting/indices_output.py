"""The edit of forward pools that have no Indices output and whose gradient needs one.

The MaxPool stays the same node and gets its second output: `Y` is pooled as before, but for NaN and for windows of
nothing but −inf, which onnxruntime's kernel with Indices treats in another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from poolgrad_lowering.ir.scopes import Node, Value
from poolgrad_lowering.rewriting.node_writer import new_name
from poolgrad_lowering.verdicts import Lowered


def add_indices_outputs(sites: Sequence[Lowered], taken: set[str]) -> list[Lowered]:
    """Give every pool whose gradient has an unnamed argmax its Indices output, and the sites its name.

    `taken` are all names of the model; the new ones are added.
    """
    return [_recorded(site, taken) for site in sites]


def _recorded(site: Lowered, taken: set[str]) -> Lowered:
    gradient = site.gradient
    if gradient.argmax.name or gradient.pool is None:
        return site
    indices = gradient.pool.output(1) or _add_output(gradient.pool, taken)
    return replace(site, gradient=replace(gradient, argmax=indices))


def _add_output(pool: Node, taken: set[str]) -> Value:
    """Name the second output of a node, which may have written it as absent."""
    pooled = pool.proto.output[0]
    name = new_name(f"{pooled}/indices", taken)
    pool.name_outputs([pooled, name])
    return Value(pool.scope, name)
