# SPDX-License-Identifier: Apache-2.0

"""Chooses the forward pools that are lowered together with their gradients.

A pool is a node with Indices, or a ReduceMax and an ArgMax over the same windows. It is lowered if the target supports
exactly its windows and only lowered gradients use its Indices, or others only their shape. Its operator computes the
argmax that the gradients use, and the nodes that converted the Indices become dead.

A MaxPool without the Indices that a gradient needs gets that output if it stays. `Y` is the same as before, except for
NaN and for windows that contain only −inf, which onnxruntime's kernel with Indices treats differently.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families.gradient import Operand, View
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.legality import select_forward_op
from poolgrad_lowering.compiler.families.verdicts import Joined, Lowered, LoweredOp, LoweredPool
from poolgrad_lowering.compiler.rewriting.bodies import FunctionBodies
from poolgrad_lowering.compiler.rewriting.region import UseCounts, dead_region, first_outputs
from poolgrad_lowering.dialect.op import Maximum
from poolgrad_lowering.dialect.targets import Target
from poolgrad_lowering.model.diagnostics.codes import Code, Refusal, Refuse, attempt
from poolgrad_lowering.model.ir.dims import Shape, fits_reshape
from poolgrad_lowering.model.ir.graphs import fresh
from poolgrad_lowering.model.ir.scopes import Node, Value

Site = Lowered[MaxPoolGradient]
Pool = LoweredPool[MaxPoolGradient]


def join(
    sites: Sequence[Site], used: Sequence[Value], target: Target | None, bodies: FunctionBodies, taken: set[str]
) -> Joined:
    """See `Family`: pools that a gradient needs the Indices of get that output, unless they are lowered."""
    named, pools = name_indices(sites, taken), list[Pool]()
    if target is not None:
        named, pools = choose_forward_pools(named, used, target, bodies, taken)
    return Joined(named, pools, missing_outputs(named))


def name_indices(sites: Sequence[Site], taken: set[str]) -> list[Site]:
    """Return the sites with a name for each argmax that has none; sites of one pool share it.

    The model is not changed. `taken` are all names of the model; the new names are added to it.
    """
    named: dict[Node, Operand] = {}
    found = []
    for site in sites:
        gradient, pool = site.gradient, site.gradient.recording_pool
        if gradient.argmax is None and pool is not None:
            if pool not in named:
                named[pool] = Operand(Value(pool.scope, fresh(f"{pool.proto.output[0]}/indices", taken)))
            gradient = replace(gradient, argmax=named[pool])
        found.append(replace(site, gradient=gradient))
    return found


def missing_outputs(sites: Sequence[Site]) -> dict[Node, str]:
    """Return the pools that are not lowered and need an Indices output, with the name of that output."""
    return {
        pool: site.gradient.known_argmax.value.name
        for site in sites
        if (pool := site.gradient.recording_pool) is not None
        if pool.output(1) is None and not isinstance(site.forward, LoweredOp)
    }


class _Pool(NamedTuple):
    """A node that computes the pooled tensor, the indices that it or an ArgMax records, and the first gradient."""

    node: Node
    y: Value
    recorded: Value
    gradient: MaxPoolGradient


def y_view(gradient: MaxPoolGradient) -> Shape | None:
    """Return the shape of a ReduceMax's result where it is not the pooled one."""
    shape = None if gradient.reduction is None else gradient.reduction.y_shape
    return None if shape == gradient.pooled_shape else shape


def choose_forward_pools(
    sites: Sequence[Site], used: Sequence[Value], target: Target, bodies: FunctionBodies, taken: set[str]
) -> tuple[list[Site], list[Pool]]:
    """Return the sites, with `forward` set and with the argmax of their lowered pools, and the lowered pools.

    The pool of a site whose `forward` is already a refusal stays. `used` are values that lowered nodes of other
    families will use. The names of new values are added to `taken`.
    """
    pools, selected = _pools(sites), dict[Hashable, LoweredOp]()
    verdicts = {recorder: attempt(_select, pool, target, bodies, selected) for recorder, pool in pools.items()}
    measured = _refuse_used_indices(sites, used, pools, verdicts)
    if _refuse_by_plan(sites, verdicts):  # the nodes around a pool that stays may use another pool's Indices
        measured = _refuse_used_indices(sites, used, pools, verdicts)
    lowered = {
        recorder: _lowered_pool(pools[recorder], op, taken, keeps_name=recorder in measured)
        for recorder, op in verdicts.items()
        if isinstance(op, LoweredOp)
    }
    return [_with_forward(site, verdicts, lowered) for site in sites], list(lowered.values())


def _pools(sites: Iterable[Site]) -> dict[Node, _Pool]:
    """Return the pools that could be lowered, by the node that records their indices."""
    pools: dict[Node, _Pool] = {}
    owners: dict[Node, Node] = {}  # one ReduceMax can give the maxima of several ArgMax nodes
    for site in sites:
        recorder, pool = _recorder(site.gradient), _pool(site.gradient)
        if recorder is not None and pool is not None and owners.setdefault(pool.node, recorder) is recorder:
            pools.setdefault(recorder, pool)
    return pools


def _pool(gradient: MaxPoolGradient) -> _Pool | None:
    """The pool of a gradient, where it reads the gradient's x."""
    node, reduction = gradient.pool, gradient.reduction
    if node is None or (reduction is None and node.input(0) != gradient.x.value):
        return None
    # The rewrite adds an output for Indices that is missing.
    own = node.output(1) or gradient.known_argmax.value
    y, recorded = node.output(0), own if reduction is None else reduction.recorder.output(0)
    return None if y is None or recorded is None else _Pool(node, y, recorded, gradient)


def _recorder(gradient: MaxPoolGradient) -> Node | None:
    """The node that records a gradient's indices, the pool or an ArgMax."""
    return gradient.pool if gradient.reduction is None else gradient.reduction.recorder


def _select(pool: _Pool, target: Target, bodies: FunctionBodies, selected: dict[Hashable, LoweredOp]) -> LoweredOp:
    """Return the operator for a pool, and require its body. Raises `Refuse` if the pool stays.

    `selected` are the operators of earlier pools, by all that they depend on.
    """
    gradient, reduction = pool.gradient, pool.gradient.reduction
    key = gradient.selected_by, None if reduction is None else (reduction.order,)
    if key not in selected:
        selected[key] = select_forward_op(gradient, target)
    op = selected[key]
    if reduction is not None and (reduction.y_shape is None or not fits_reshape(y_view(gradient) or ())):
        raise Refuse(Code.UNKNOWN_SHAPE, "several sizes of '{}' are not known", pool.y.name)
    maximum = Maximum.SELECTED if reduction is None or reduction.order is None else reduction.order
    bodies.require(op.name, gradient.element_type, pool.node.scope, maximum)
    return op


def _refuse_used_indices(
    sites: Sequence[Site], used: Sequence[Value], pools: Mapping[Node, _Pool], verdicts: dict[Node, LoweredOp | Refusal]
) -> set[Node]:
    """Refuse the pools whose Indices have a use outside the lowered gradients, other than of their shape.

    Returns the recorders of the remaining pools whose Indices have uses of their shape. A pool that stays keeps the
    operands of its gradients alive, which may use another pool's Indices; so the search is repeated until no pool is
    added.
    """
    while True:
        lowered = {recorder: pool for recorder, pool in pools.items() if isinstance(verdicts[recorder], LoweredOp)}
        use_counts = UseCounts([*used, *_used_after(sites, lowered)])
        for site in sites:
            producer = site.gradient.dx.value.producer
            if producer is not None:
                dead_region(producer, use_counts)
        read = {recorder: pool for recorder, pool in lowered.items() if use_counts.left(pool.recorded)}
        found = {recorder: pool for recorder, pool in read.items() if not _is_measured(pool, use_counts)}
        if not found:
            return set(read)
        what = "the Indices of '{}' are used outside the lowered gradients"
        verdicts.update(
            {recorder: Refusal(Code.FORWARD_READERS, what, (pool.node.label,)) for recorder, pool in found.items()}
        )


def _refuse_by_plan(sites: Sequence[Site], verdicts: dict[Node, LoweredOp | Refusal]) -> bool:
    """Refuse the lowerable pools of sites whose `forward` is a refusal; return whether there are any."""
    refused = {
        recorder: site.forward
        for site in sites
        if isinstance(site.forward, Refusal)
        if (recorder := _recorder(site.gradient)) is not None and isinstance(verdicts.get(recorder), LoweredOp)
    }
    verdicts.update(refused)
    return bool(refused)


def _is_measured(pool: _Pool, use_counts: UseCounts) -> bool:
    """Whether all remaining uses of a pool's Indices are of their shape, which is that of the argmax.

    The shape of what an ArgMax records is another one, or may be.
    """
    recorded = pool.recorded
    if pool.gradient.reduction is not None:
        return False
    readers = [use.scope.node(use.position) for use in recorded.uses if use.position >= 0]
    measures = sum(node.is_a("Shape", "Size") and node not in use_counts.removed for node in readers)
    return measures == use_counts.left(recorded)


def _used_after(sites: Sequence[Site], lowered: Mapping[Node, _Pool]) -> Iterable[Value]:
    """Yield the model's values that lowered nodes will use: x, grad, and the indices of pools that stay."""
    for site in sites:
        yield site.gradient.x.value
        yield site.gradient.grad.value
        if _recorder(site.gradient) not in lowered:
            yield site.gradient.known_argmax.value
    yield from first_outputs(missing_outputs(sites))  # a pool that is lowered reads x, which is used anyway


def _lowered_pool(pool: _Pool, op: LoweredOp, taken: set[str], *, keeps_name: bool) -> Pool:
    new = None if keeps_name else fresh(f"{pool.y.name}/argmax", taken)
    argmax = pool.recorded if new is None else Value(pool.node.scope, new)
    x, is_flat = pool.gradient.x.value, pool.gradient.x.view is View.FLAT
    viewed = Value(pool.node.scope, fresh(f"{pool.y.name}/x", taken)) if is_flat else x
    place = min(pool.node, _recorder(pool.gradient) or pool.node, key=lambda node: node.position)
    return Pool(pool.node, op, pool.gradient, x, viewed, pool.y, argmax, place)


def _with_forward(site: Site, verdicts: Mapping[Node, LoweredOp | Refusal], lowered: Mapping[Node, Pool]) -> Site:
    recorder = _recorder(site.gradient)
    if recorder is None or recorder not in verdicts:
        what = "no single node computes the pooled tensor and the indices of '{}'"
        return replace(site, forward=Refusal(Code.FORWARD_SOURCE, what, (site.gradient.dx.value.name,)))
    verdict = verdicts[recorder]
    if recorder not in lowered:
        return replace(site, forward=verdict)
    pool, own = lowered[recorder], site.gradient
    x = Operand(pool.viewed) if own.x_shape == pool.gradient.x_shape else own.x
    gradient = replace(own, x=x, argmax=Operand(pool.argmax), numbering=Numbering.PLANE)
    return replace(site, gradient=gradient, forward=verdict)
