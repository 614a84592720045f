# SPDX-License-Identifier: Apache-2.0

"""Writes the nodes that replace gradients and forward pools, each with its provenance as metadata."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from onnx import NodeProto

from poolgrad_lowering.compiler.families.registry import family_of
from poolgrad_lowering.compiler.families.verdicts import Joined, Lowered
from poolgrad_lowering.compiler.rewriting.region import UseCounts, dead_region, first_outputs
from poolgrad_lowering.compiler.rewriting.rewrite import Replacement
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir import metadata
from poolgrad_lowering.model.ir.scopes import Node

_FORWARD = "forward"
"""The name of the form in the metadata of a lowered forward pool."""


def emit(facts: Facts, joined: Joined, taken: set[str]) -> list[Replacement]:
    """Return the replacements of all sites, then those of the lowered forward pools. The model is not changed.

    `taken` are all names of the model; the new names are added.
    """
    sites, pools = joined.sites, joined.pools
    written = [(site, family_of(site.gradient).emit(facts, site, taken)) for site in sites]
    written_pools = [(pool, family_of(pool.gradient).emit_pool(pool, taken)) for pool in pools]
    used = [value for site in sites for value in site.gradient.operands] + first_outputs(joined.added_outputs)
    # A use of y keeps a lowered pool out of the regions of gradients: it is the root of its own region.
    use_counts = UseCounts([*used, *[value for pool in pools for value in (pool.x, pool.y)]])
    replaced = [_replaced_site(site, nodes, use_counts) for site, nodes in written]
    for pool, nodes in written_pools:
        region = dead_region(pool.pool, use_counts)
        one = Replacement(pool.pool, nodes, region, pool.gradient.element_type, pool.place)
        _record(one.dialect_node, region.nodes, pool.pool, _FORWARD)
        replaced.append(one)
    return replaced


def _replaced_site(site: Lowered[Any], nodes: list[NodeProto], use_counts: UseCounts) -> Replacement:
    root, pool = site.gradient.dx.value.producer, site.gradient.pool
    if root is None:
        raise AssertionError(f"no node produces the result '{site.gradient.dx.value.name}' of a gradient")
    one = Replacement(root, nodes, dead_region(root, use_counts), site.gradient.element_type, root, site.site)
    node, dead = one.dialect_node, one.region.nodes
    _record(node, dead, site.anchor, site.form)
    node.metadata_props.add(key=metadata.SITE, value=site.site)
    if metadata.layer_of(node) is None:  # the first layer of its origins
        origins = [*([] if pool is None else [pool]), *dead]
        named = next((each.proto for each in origins if metadata.layer_of(each.proto) is not None), NodeProto())
        node.metadata_props.extend(entry for entry in named.metadata_props if entry.key == metadata.NAME_SCOPES)
    return one


def _record(node: NodeProto, dead: Sequence[Node], origin: Node, form: str) -> None:
    """Give the dialect's node the metadata of `origin`, the name of the form and the names of the dead nodes."""
    entries, own = node.metadata_props, (metadata.PATTERN, metadata.REPLACED, metadata.SITE)
    entries.extend([entry for entry in origin.proto.metadata_props[:] if entry.key not in own])
    entries.add(key=metadata.PATTERN, value=form)
    entries.add(key=metadata.REPLACED, value=json.dumps([one.label for one in dead]))
