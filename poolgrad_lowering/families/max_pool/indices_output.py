# SPDX-License-Identifier: Apache-2.0

"""The Indices output that a gradient needs of a forward MaxPool without one.

The MaxPool stays and gets a second output. `Y` is the same as before, except for NaN and for windows that contain only
−inf, which onnxruntime's kernel with Indices treats differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from poolgrad_lowering.families.gradient import Operand
from poolgrad_lowering.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.families.verdicts import Lowered, LoweredOp
from poolgrad_lowering.ir.scopes import Node, Value
from poolgrad_lowering.rewriting.node_writer import new_name


def name_indices(sites: Sequence[Lowered[MaxPoolGradient]], taken: set[str]) -> list[Lowered[MaxPoolGradient]]:
    """Return the sites with a name for each argmax that has none; sites of one pool share it.

    The model is not changed. `taken` are all names of the model; the new names are added to it.
    """
    named: dict[Node, Value] = {}
    return [_named(site, named, taken) for site in sites]


def missing_outputs(sites: Sequence[Lowered[MaxPoolGradient]]) -> dict[Node, str]:
    """Return the pools that are not lowered and need an Indices output, with the name of that output."""
    return {
        pool: site.gradient.indices.value.name
        for site in sites
        if (pool := site.gradient.pool) is not None
        if pool.output(1) is None and not isinstance(site.forward, LoweredOp)
    }


def _named(site: Lowered[MaxPoolGradient], named: dict[Node, Value], taken: set[str]) -> Lowered[MaxPoolGradient]:
    gradient, pool = site.gradient, site.gradient.pool
    if gradient.argmax is not None or pool is None:
        return site
    if pool not in named:
        named[pool] = Value(pool.scope, new_name(f"{pool.proto.output[0]}/indices", taken))
    return replace(site, gradient=replace(gradient, argmax=Operand(named[pool])))
