"""The choice of forward pools that move to the NPU together with their gradients.

A pool may move where the target can look at exactly its windows and nobody but lowered gradients reads its Indices.
Its operator gives the argmax that the gradients take, and everything that made one from the Indices dies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from poolgrad_lowering.analysis.provenance import Numbering
from poolgrad_lowering.diagnostics.codes import Code, Refusal, refuse
from poolgrad_lowering.gradient import PoolGradient
from poolgrad_lowering.ir.scopes import Node, Use, Value
from poolgrad_lowering.legality.gradients import LoweredOp
from poolgrad_lowering.legality.pools import select_forward_op
from poolgrad_lowering.legality.targets import Target
from poolgrad_lowering.rewriting.bodies import Bodies
from poolgrad_lowering.rewriting.indices_output import missing_outputs, pooled_by
from poolgrad_lowering.rewriting.node_writer import new_name
from poolgrad_lowering.rewriting.region import Readers, dying_region
from poolgrad_lowering.verdicts import Lowered


@dataclass(frozen=True)
class ForwardSite:
    """A pool that moves: the node, its new operator, the value it reads, those it makes (`argmax` is new), x's type."""

    pool: Node
    op: LoweredOp
    x: Value
    y: Value
    argmax: Value
    element_type: int


@dataclass(frozen=True)
class _Pool:
    """A node that computes pooled tensor and indices, with the first of the gradients that are lowered with it."""

    node: Node
    y: Value
    recorded: Value
    gradient: PoolGradient


def choose_forwards(
    sites: Sequence[Lowered], target: Target, bodies: Bodies, taken: set[str]
) -> tuple[list[Lowered], list[ForwardSite]]:
    """The sites with the argmax of the pools that move, and those pools.

    Each site says in `forward` what became of its pool; one that comes with a refusal there keeps its pool. Names of
    new values are added to `taken`.
    """
    pools = _pools(sites)
    verdicts = {place: _verdict(pool, target, bodies) for place, pool in pools.items()}
    _keep_read(sites, pools, verdicts)
    if _keep_withheld(sites, verdicts):
        _keep_read(sites, pools, verdicts)  # a pool that stays may read another one's Indices
    moved = {
        place: _forward_site(pools[place], op, taken) for place, op in verdicts.items() if isinstance(op, LoweredOp)
    }
    return [_with_forward(site, verdicts, moved) for site in sites], list(moved.values())


def _pools(sites: Iterable[Lowered]) -> dict[Use, _Pool]:
    """The pools that could move, by their place."""
    pools: dict[Use, _Pool] = {}
    for site in sites:
        gradient, node, place = site.gradient, site.gradient.pool, _place(site.gradient)
        if node is None or place is None:
            continue
        y, recorded = node.output(0), node.output(1) or gradient.argmax  # the latter is yet to be added
        if y is not None and node.input(0) == gradient.x:
            pools.setdefault(place, _Pool(node, y, recorded, gradient))
    return pools


def _place(gradient: PoolGradient) -> Use | None:
    return None if gradient.pool is None else Use(gradient.pool.scope, gradient.pool.position)


def _verdict(pool: _Pool, target: Target, bodies: Bodies) -> LoweredOp | Refusal:
    op = select_forward_op(pool.gradient, target)
    if isinstance(op, Refusal):
        return op
    return bodies.require(op.name, pool.gradient.element_type, pool.node.scope) or op


def _keep_read(sites: Sequence[Lowered], pools: Mapping[Use, _Pool], verdicts: dict[Use, LoweredOp | Refusal]) -> None:
    """Refuse the pools whose Indices something else reads."""
    movable = {place: pool for place, pool in pools.items() if isinstance(verdicts[place], LoweredOp)}
    for place in _still_read(sites, movable):
        label = pools[place].node.label
        verdicts[place] = refuse(Code.FORWARD_READERS, "something else reads the Indices of '{}'", label)


def _keep_withheld(sites: Sequence[Lowered], verdicts: dict[Use, LoweredOp | Refusal]) -> bool:
    """Refuse the pools that could move and that a site withholds; whether there are any."""
    withheld = {
        place: site.forward
        for site in sites
        if isinstance(site.forward, Refusal)
        if (place := _place(site.gradient)) is not None and isinstance(verdicts.get(place), LoweredOp)
    }
    verdicts.update(withheld)
    return bool(withheld)


def _still_read(sites: Sequence[Lowered], movable: Mapping[Use, _Pool]) -> set[Use]:
    """The places of the pools whose Indices keep a reader when all sites are taken out.

    A pool that stays keeps alive what its gradients read, another pool's Indices perhaps: repeated until none is added.
    """
    staying: set[Use] = set()
    while True:
        moving = {place: pool for place, pool in movable.items() if place not in staying}
        readers = Readers(_read_after(sites, moving))
        for site in sites:
            maker = site.gradient.dx.producer
            if maker is not None:
                dying_region(maker, readers)
        found = {place for place, pool in moving.items() if readers.left(pool.recorded)}
        if not found:
            return staying
        staying |= found


def _read_after(sites: Sequence[Lowered], moving: Mapping[Use, _Pool]) -> Iterable[Value]:
    """What the lowered nodes will read of the model's values: x, grad, and the indices of pools that stay."""
    for site in sites:
        yield site.gradient.x
        yield site.gradient.grad
        if _place(site.gradient) not in moving:
            yield site.gradient.argmax
    yield from pooled_by(missing_outputs([site for site in sites if _place(site.gradient) not in moving]))


def _forward_site(pool: _Pool, op: LoweredOp, taken: set[str]) -> ForwardSite:
    argmax = Value(pool.node.scope, new_name(f"{pool.y.name}/argmax", taken))
    return ForwardSite(pool.node, op, pool.gradient.x, pool.y, argmax, pool.gradient.element_type)


def _with_forward(
    site: Lowered, verdicts: Mapping[Use, LoweredOp | Refusal], moved: Mapping[Use, ForwardSite]
) -> Lowered:
    place = _place(site.gradient)
    verdict = verdicts.get(place) if place is not None else None
    if place is None or verdict is None:
        return replace(site, forward=_no_source(site.gradient))
    if place not in moved:
        return replace(site, forward=verdict)
    gradient = replace(site.gradient, argmax=moved[place].argmax, numbering=Numbering.PLANE, argmax_is_flat=False)
    return replace(site, gradient=gradient, forward=verdict)


def _no_source(gradient: PoolGradient) -> Refusal:
    return refuse(
        Code.FORWARD_SOURCE, "no node computes both the pooled tensor and the indices of '{}'", gradient.dx.name
    )
