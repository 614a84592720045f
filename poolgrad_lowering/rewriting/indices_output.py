# SPDX-License-Identifier: Apache-2.0

"""Adds the Indices output that a gradient needs to a forward MaxPool without one.

The MaxPool stays and gets a second output. `Y` is the same as before, except for NaN and for windows that contain only
−inf, which onnxruntime's kernel with Indices treats differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from poolgrad_lowering.families.max_pool.legality.gradients import LoweredOp
from poolgrad_lowering.families.verdicts import Lowered
from poolgrad_lowering.gradient import Operand
from poolgrad_lowering.ir.scopes import Node, Value
from poolgrad_lowering.rewriting.node_writer import new_name


def name_indices(sites: Sequence[Lowered], taken: set[str]) -> list[Lowered]:
    """Return the sites with a name for each argmax that has none; sites of one pool share it.

    The model is not changed. `taken` are all names of the model; the new names are added to it.
    """
    named: dict[Node, Value] = {}
    return [_named(site, named, taken) for site in sites]


def missing_outputs(sites: Sequence[Lowered]) -> dict[Node, str]:
    """Return the pools that are not lowered and need an Indices output, with the name of that output."""
    return {
        pool: site.gradient.indices.value.name
        for site in sites
        if (pool := site.gradient.pool) is not None
        if pool.output(1) is None and not isinstance(site.forward, LoweredOp)
    }


def pooled_by(pools: Iterable[Node]) -> list[Value]:
    """Return the first outputs of some pools; a use of them keeps the pools alive."""
    return [pooled for pool in pools if (pooled := pool.output(0)) is not None]


def add_outputs(missing: Mapping[Node, str]) -> None:
    """Add the second output to each pool in the model; it replaces one that is written as an empty name."""
    for pool, name in missing.items():
        pooled = pool.proto.output[0]
        del pool.proto.output[:]
        pool.proto.output.extend((pooled, name))


def _named(site: Lowered, named: dict[Node, Value], taken: set[str]) -> Lowered:
    gradient, pool = site.gradient, site.gradient.pool
    if gradient.argmax is not None or pool is None:
        return site
    if pool not in named:
        named[pool] = Value(pool.scope, new_name(f"{pool.proto.output[0]}/indices", taken))
    return replace(site, gradient=replace(gradient, argmax=Operand(named[pool])))
