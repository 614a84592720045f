# SPDX-License-Identifier: Apache-2.0

"""Predicts where onnxruntime runs each node of a model that `graph_mode` rewrote.

There are three places: this package's provider, onnxruntime's CANN provider in graph mode, and the CPU. The order is
that of `order`. A run of the CANN provider's nodes in it, without a node of another place between them, is one
sub-model: one graph that GE builds.

What onnxruntime does before it assigns nodes is followed where most models have it. A node of constants is computed
once, when the session is made, and so is a Shape whose input has a known shape; neither runs in a step, nor does what
only such a Shape reads. An Identity is removed, equal nodes are joined, one Reshape after the other is joined, a
product of matrices and what is added to it are a Gemm, and a CastLike is a Cast.

Other rewrites are not followed: onnxruntime joins nodes of equal constants, removes others without effect, moves
Transposes and makes them part of a Gemm, infers more shapes than onnx does, and writes operators without a kernel by
their definitions. So a session may have fewer nodes of the CANN provider than predicted, or more after a Transpose
moved, and another order of them, which moves the cuts. What is on the CPU may turn out constant. A node with a subgraph
runs on the CPU; what is in it is not counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from enum import Enum
from itertools import chain
from typing import NamedTuple

from onnx import ModelProto, NodeProto, helper

from poolgrad_lowering.dialect.op import DOMAIN, Part
from poolgrad_lowering.dialect.ops import PROVIDER_OPERATORS
from poolgrad_lowering.ge.indices import count_checked
from poolgrad_lowering.ge.records import PlaceCount, PlacementReport
from poolgrad_lowering.ge.registered import is_taken
from poolgrad_lowering.ge.values import BOUND_OPERANDS, DRAWN, ValueTypes, attributes_of, is_known_shape, operands_of
from poolgrad_lowering.model.diagnostics.text import operator_text
from poolgrad_lowering.model.ir.dims import Dim
from poolgrad_lowering.model.ir.graphs import HOLDERS, inner_graphs, is_standard, names_read
from poolgrad_lowering.model.ir.order import operands_of_names, session_order
from poolgrad_lowering.model.ir.tensors import element_bytes


class Place(Enum):
    """Where a node runs. The values are those of the report."""

    PROVIDER = "provider"
    CANN = "cann"
    CPU = "cpu"


class PlacedNode(NamedTuple):
    """A node that runs in a step: its name, or its first output if it has none, its operator and its place.

    `sub_model` is the number of its sub-model, from 0 on, if it is the CANN provider's. `known_bytes` is the size of
    the tensors that it reads and writes, without those of unknown size.
    """

    name: str
    operator: str
    place: Place
    sub_model: int | None
    known_bytes: int


class Placement(NamedTuple):
    """The nodes of the main graph that run in a step, in the order in which onnxruntime runs them.

    `copies` is the number of values that are made on the host and read on the device, or the reverse: in each step they
    are copied; and of sizes that the provider reads back, and of indices that it checks. The graph's inputs are not
    counted, nor are its outputs when they are fetched. `unknown_sizes` is the number of values of unknown size.
    `far_bounds` are nodes of sub-models, each with its operand of `BOUND_OPERANDS` that needs numbers from outside of
    the sub-model; `far_selections` those with an operand of another sub-model whose shape numbers decide.
    """

    nodes: tuple[PlacedNode, ...]
    copies: int
    unknown_sizes: int
    far_bounds: tuple[tuple[PlacedNode, str], ...]
    far_selections: tuple[tuple[PlacedNode, str], ...]

    @property
    def report(self) -> PlacementReport:
        """The totals."""
        sizes = {place: [node.known_bytes for node in self.nodes if node.place is place] for place in Place}
        places = tuple(PlaceCount(place.value, len(found), sum(found)) for place, found in sizes.items())
        sub_models = {node.sub_model for node in self.nodes} - {None}
        return PlacementReport(places, len(sub_models), self.copies, self.unknown_sizes)


class _Row(NamedTuple):
    """A node, and the names that it reads and makes, without empty ones. `read` includes what its subgraphs read."""

    node: NodeProto
    read: Sequence[str]
    made: Sequence[str]
    place: Place


def find_placement(model: ModelProto, types: ValueTypes) -> Placement:
    """Return where the nodes run of a model that was rewritten for graph mode; `types` is what is known of values."""
    results = {value.name for value in model.graph.output}
    measured: list[str] = []
    rows = list(_rows_that_run(model.graph.node, types, results, measured))
    rows = _with_gemms(_without_measured(rows, measured, results), types, results)
    rows = _without_joined(rows, types, results)
    order = _order(rows)
    names = set(chain.from_iterable(chain(row.read, row.made) for row in rows))
    sizes = {name: _size(name, types) for name in names}
    rows = [rows[position] for position in order]
    fed = {value.name for value in model.graph.input} - types.constants.keys()
    nodes = tuple(_placed(rows, {name: size or 0 for name, size in sizes.items()}))
    return Placement(
        nodes=nodes,
        copies=_count_copies(rows) + _count_sizes(rows) + count_checked(model, types),
        unknown_sizes=sum(size is None for size in sizes.values()),
        far_bounds=tuple(_far_bounds(rows, nodes, fed)),
        far_selections=tuple(_far_selections(rows, nodes, fed, types)),
    )


def _rows_that_run(
    nodes: Iterable[NodeProto], types: ValueTypes, results: Set[str], measured: list[str]
) -> Iterator[_Row]:
    """Yield the nodes that run in a step: not those that onnxruntime removes or computes when it makes the session.

    Adds the values to `measured` of which only the shape is read, by a Shape that does not run.
    """
    constants = set(types.constants)
    sources: dict[str, str] = {}  # of the results of Identity nodes, and of nodes that are equal to an earlier one
    seen: dict[tuple[object, ...], Sequence[str]] = {}
    for node in nodes:
        has_graphs = node.op_type in HOLDERS or node.domain
        read, made = _named(names_read([node]) if has_graphs else node.input), _named(node.output)
        if sources:
            read = [sources.get(name, name) for name in read]
        if node.op_type == "Identity" and is_standard(node) and read and made and made[0] not in results:
            sources[made[0]] = read[0]
            continue
        has_constants = constants.issuperset(read)
        if (has_constants or node.op_type == "Shape") and _is_computed_once(node, types, has_constants=has_constants):
            constants.update(made)
            if not has_constants:
                measured += read
            continue
        operands = [sources.get(name, name) for name in node.input]
        key = (node.op_type, *operands, len(made), *sorted(each.SerializeToString() for each in node.attribute))
        is_plain = is_standard(node) and node.op_type not in DRAWN and not any(inner_graphs(node))
        if is_plain and key in seen and results.isdisjoint(made):
            sources.update(zip(made, seen[key], strict=True))
        else:
            seen[key] = made
            yield _Row(node, read, made, _place(node, has_constants=has_constants))


def _without_measured(rows: list[_Row], measured: list[str], results: Set[str]) -> list[_Row]:
    """Return the rows without those that only a Shape in `measured` needs."""
    if not measured:
        return rows
    times = Counter(chain.from_iterable(row.read for row in rows))
    maker = {row.made[0]: row for row in rows if len(row.made) == 1}
    removed: set[str] = set()
    while measured:
        name = measured.pop()
        if name in maker and name not in removed and not times[name] and name not in results:
            removed.add(name)
            times.subtract(maker[name].read)
            measured += maker[name].read
    return [row for row in rows if not (row.made and row.made[0] in removed)]


def _with_gemms(rows: list[_Row], types: ValueTypes, results: Set[str]) -> list[_Row]:
    """Return the rows with each product of two matrices as a part of the sum that alone reads it: onnxruntime's Gemm.

    Such a Gemm is a new node, behind all others.
    """
    times = Counter(chain.from_iterable(row.read for row in rows))
    products = {
        row.made[0]: row
        for row in rows
        if row.node.op_type == "MatMul" and row.made and times[row.made[0]] == 1 and row.made[0] not in results
    }
    gemms: dict[int, _Row] = {}
    joined: set[str] = set()
    for position, row in enumerate(rows):
        name = next((name for name in row.read if name in products), "") if row.node.op_type == "Add" else ""
        if not name:
            continue
        product, others = products[name], [other for other in row.read if other != name]
        if _is_gemm(product, others, types):
            node = helper.make_node("Gemm", [], [], name=product.node.name)
            gemms[position] = row._replace(node=node, read=[*product.read, *others])
            joined.add(name)
    kept = [row for at, row in enumerate(rows) if at not in gemms and joined.isdisjoint(row.made)]
    return _with_new(kept, gemms, rows)


def _is_gemm(product: _Row, added: Sequence[str], types: ValueTypes) -> bool:
    """Whether a product is one of two matrices, and what is added to it is as wide, and a matrix or a row."""
    if len(added) != 1 or any(len(types.shapes.get(operand, ())) != 2 for operand in product.read):
        return False
    shape, sizes = (types.shapes.get(name, ()) for name in (product.made[0], *added))
    fits = all(size in (1, own) for size, own in zip(reversed(sizes), reversed(shape), strict=False))
    return 1 <= len(sizes) <= 2 and sizes[-1] == shape[-1] and fits


def _without_joined(rows: list[_Row], types: ValueTypes, results: Set[str]) -> list[_Row]:
    """Return the rows without each Reshape that only the next one reads, if the shape after that is known.

    onnxruntime 1.24 joins no Reshape with allowzero to what follows, unless it is joined to one before it. A joined
    Reshape is a new node, behind all others, in the order in which the graph ran before.
    """
    reshapes = [row for row in rows if row.node.op_type == "Reshape" and row.place is Place.CANN and row.made]
    views = {row.made[0]: row.read[0] for row in reshapes}
    inner = {row.read[0] for row in reshapes if types.sizes(row.made[0]) is not None}
    candidates = (views.keys() & inner) - results
    if not candidates:
        return rows
    times = Counter(name for row in rows for name in row.read if name in candidates)
    joined: dict[str, str] = {}
    for row in reshapes:
        made, source = row.made[0], row.read[0]
        if times[made] == 1 and (source in joined or not attributes_of(row.node).get("allowzero")):
            joined[made] = source
    found, new = [], {}
    for position, row in enumerate(rows):
        source = row.read[0] if row.read else ""
        while source in joined:
            source = joined[source]
        if row.made and row.made[0] in joined:
            continue
        if row.read and source != row.read[0]:
            new[position] = row._replace(read=[source, *row.read[1:]])
        else:
            found.append(row)
    return _with_new(found, new, rows)


def _with_new(kept: list[_Row], new: Mapping[int, _Row], rows: Sequence[_Row]) -> list[_Row]:
    """Return the rows that are kept and, behind them, the new ones in the order of those whose position they have."""
    return kept + [new[position] for position in _order(rows) if position in new] if new else kept


def _order(rows: Sequence[_Row]) -> list[int]:
    return session_order(operands_of_names([row.read for row in rows], [row.made for row in rows]))


def _named(names: Iterable[str]) -> list[str]:
    found = list(names)
    return [name for name in found if name] if "" in found else found


def _is_computed_once(node: NodeProto, types: ValueTypes, *, has_constants: bool) -> bool:
    """Whether onnxruntime computes a node, which may read nothing but constants, when it makes the session."""
    if not is_standard(node) or node.op_type in DRAWN or node.op_type.startswith("Sequence"):
        return False
    return is_known_shape(node, types) or (has_constants and not any(inner_graphs(node)))


def _place(node: NodeProto, *, has_constants: bool) -> Place:
    if is_taken(node) or (node.op_type == "CastLike" and is_standard(node)):
        return Place.CPU if has_constants else Place.CANN
    return Place.PROVIDER if node.domain == DOMAIN and node.op_type in PROVIDER_OPERATORS else Place.CPU


def _placed(rows: Iterable[_Row], sizes: Mapping[str, int]) -> Iterator[PlacedNode]:
    """Yield the nodes of rows in the order in which they run."""
    last, sub_model = Place.CPU, -1
    for row in rows:
        sub_model += row.place is Place.CANN and last is not Place.CANN
        last = row.place
        yield PlacedNode(
            row.node.name or next(iter(row.made), ""),
            operator_text(row.node.domain, row.node.op_type),
            row.place,
            sub_model if row.place is Place.CANN else None,
            sum(map(sizes.__getitem__, {*row.read, *row.made})),
        )


def _far_bounds(rows: Sequence[_Row], nodes: Sequence[PlacedNode], fed: Set[str]) -> Iterator[tuple[PlacedNode, str]]:
    """Yield each node of a sub-model with its first operand of `BOUND_OPERANDS` that needs numbers from outside of it.

    `fed` are the inputs of the graph. Sizes of values are known in every sub-model that reads the values.
    """
    sources: dict[str, tuple[Sequence[str], int | None]] = dict.fromkeys(fed, ((), None))
    for row, node in zip(rows, nodes, strict=True):
        read = () if row.node.op_type in ("Shape", "Size") else row.read
        sources.update(dict.fromkeys(row.made, (read, node.sub_model)))
    for row, node in zip(rows, nodes, strict=True):
        if node.place is Place.CANN and row.node.op_type in BOUND_OPERANDS:
            bounds = [row.node.input[at] for at in BOUND_OPERANDS[row.node.op_type] if at < len(row.node.input)]
            far = [name for name in bounds if not _is_computed_inside(name, node.sub_model, sources)]
            if far:
                yield node, far[0]


def _far_selections(
    rows: Sequence[_Row], nodes: Sequence[PlacedNode], fed: Set[str], types: ValueTypes
) -> Iterator[tuple[PlacedNode, str]]:
    """Yield each node of a sub-model with its first operand of another one whose shape the numbers in a value decide.

    Names of sizes that inputs have are known wherever a sub-model is built.
    """
    known = {symbol for name in fed for symbol in _symbols(types.shapes.get(name, ()))}
    made: dict[str, int | None] = {}
    for row, node in zip(rows, nodes, strict=True):
        far = [name for name in row.read if name in made and made[name] != node.sub_model]
        if far and node.place is Place.CANN:
            yield node, far[0]
        if row.node.op_type in _SELECTING or not made.keys().isdisjoint(row.read):
            shapes = ((name, types.shapes.get(name)) for name in row.made)
            selected = (name for name, shape in shapes if shape is None or not known.issuperset(_symbols(shape)))
            made.update(dict.fromkeys(selected, node.sub_model))


_SELECTING = frozenset(("Compress", "NonMaxSuppression", "NonZero", "Unique"))
"""Operators whose operands' numbers decide the shapes of their results."""


def _symbols(shape: Sequence[int | str | None]) -> Iterator[str | None]:
    """Yield the names in the sizes of a shape; None for a size that has none, though it is no number."""
    for size in shape:
        yield from Dim.parse(size).symbols if isinstance(size, str) else [] if isinstance(size, int) else [None]


def _is_computed_inside(
    name: str, sub_model: int | None, sources: Mapping[str, tuple[Sequence[str], int | None]]
) -> bool:
    """Whether a value is computed in a sub-model alone; `sources` are what a value is computed from, and where."""
    waiting, seen = [name], set[str]()
    while waiting:
        name = waiting.pop()
        if name in sources and name not in seen:
            seen.add(name)
            read, where = sources[name]
            if where != sub_model:
                return False
            waiting += read
    return True


def _count_copies(rows: Sequence[_Row]) -> int:
    is_on_host = {name: row.place is Place.CPU for row in rows for name in row.made}
    copied: set[str] = set()
    for row in rows:
        is_host = row.place is Place.CPU
        copied.update(name for name in row.read if is_on_host.get(name, is_host) is not is_host)
    return len(copied)


def _count_sizes(rows: Sequence[_Row]) -> int:
    """Return how many gradients of average pools have sizes of x that a sub-model computes."""
    computed = {name for row in rows if row.place is Place.CANN for name in row.made}
    operators = (row.node for row in rows if row.place is Place.PROVIDER)
    return sum(operands_of(node).get(Part.SIZES) in computed for node in operators)


def _size(name: str, types: ValueTypes) -> int | None:
    """Return the size of a value in bytes; None if its type or its shape is not known."""
    sizes, width = types.sizes(name), element_bytes(types.elements.get(name))
    return None if sizes is None or width is None else math.prod(sizes) * width
