"""Forward pools that have no Indices output although their gradient needs one: its name, and the edit that adds it.

The MaxPool stays the same node and gets a second output. `Y` is pooled as before, but for NaN and for windows of
nothing but −inf, which onnxruntime's kernel with Indices treats in another way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from poolgrad_lowering.ir.scopes import Node, Value
from poolgrad_lowering.legality.gradients import LoweredOp
from poolgrad_lowering.rewriting.node_writer import new_name
from poolgrad_lowering.verdicts import Lowered


def name_indices(sites: Sequence[Lowered], taken: set[str]) -> list[Lowered]:
    """The sites, with a name for each argmax that has none; sites of one pool share it. The model is not changed.

    `taken` are all names of the model; the new ones are added.
    """
    named: dict[Node, Value] = {}
    return [_named(site, named, taken) for site in sites]


def missing_outputs(sites: Sequence[Lowered]) -> dict[Node, str]:
    """The pools that stay and need an Indices output, with its name."""
    return {
        pool: site.gradient.argmax.name
        for site in sites
        if (pool := site.gradient.pool) is not None
        if pool.is_a("MaxPool") and pool.output(1) is None and not isinstance(site.forward, LoweredOp)
    }


def pooled_by(pools: Iterable[Node]) -> list[Value]:
    """The pooled tensors of some pools: as long as these are read, the pools stay."""
    return [pooled for pool in pools if (pooled := pool.output(0)) is not None]


def add_outputs(missing: Mapping[Node, str]) -> None:
    """Give each pool its second output, in the model; it may have written one as absent."""
    for pool, name in missing.items():
        pooled = pool.proto.output[0]
        del pool.proto.output[:]
        pool.proto.output.extend((pooled, name))
        pool.scope.write_back(pool.position)


def _named(site: Lowered, named: dict[Node, Value], taken: set[str]) -> Lowered:
    gradient, pool = site.gradient, site.gradient.pool
    if gradient.argmax.name or pool is None:
        return site
    if pool not in named:
        named[pool] = Value(pool.scope, new_name(f"{pool.proto.output[0]}/indices", taken))
    return replace(site, gradient=replace(gradient, argmax=named[pool]))
