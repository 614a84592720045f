# SPDX-License-Identifier: Apache-2.0

"""Chooses numbers for the symbolic sizes of a site's inputs.

Symbols of the pooled tensors are chosen; those of incoming gradients are computed by running the forward pools, or for
average pools from the windows of the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
from onnx import ModelProto

from poolgrad_lowering.verification.arrays import AnyArray, NamedArrays
from poolgrad_lowering.verification.graph import roles
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.protos import attribute_values
from poolgrad_lowering.verification.graph.types import AxisSize, TensorTypes, factors_of, known_sizes, rank_of
from poolgrad_lowering.verification.graph.windows import Constants, StridedWindow, known_integers, windows_of
from poolgrad_lowering.verification.operators.pool import window_count
from poolgrad_lowering.verification.result import UnprovenError
from poolgrad_lowering.verification.running.evaluator import independent, reference_runner, side_model
from poolgrad_lowering.verification.sites.cut import Cut, Role

ConcreteShape = tuple[int, ...]

BATCHES = (1, 2, 3, 16)
"""The values of a symbol on the first axis, one for each choice."""
EXTENTS = (6, 9, 17, 34)
"""The values of the first symbol on other axes; each further symbol gets one more, so that no two are equal.

For windows that are larger, there are more: see `choices`.
"""


def _symbols(types: TensorTypes, cut: Cut) -> dict[str, int]:
    """Return the symbols to choose, each with the first axis on which it occurs.

    Those of incoming gradients follow from them, unless a site has no other input: one of an average pool may read
    nothing else.
    """
    found: dict[str, int] = {}
    others = [value for value, role in cut.inputs.items() if role is not Role.GRADIENT]
    for value in others or cut.inputs:
        for axis, dim in enumerate(_named_dims(value, types)):
            if isinstance(dim, str):
                found.setdefault(dim, axis)
    return found


def _named_dims(value: str, types: TensorTypes) -> tuple[int | str, ...]:
    """Return a value's sizes, unknown ones as unique symbols. Raises `UnprovenError` if the rank is not known."""
    known = types.get(value)
    if known is None or known.dims is None:
        raise UnprovenError(f"the shape of '{value}' is not known")
    return tuple(f"{value}[{axis}]" if dim is None else dim for axis, dim in enumerate(known.dims))


def choices(cut: Cut, types: TensorTypes) -> list[dict[str, int]]:
    """Return the choices of sizes for the symbols, from small to large; one empty choice if there are no symbols.

    Besides `EXTENTS` there are sizes at the edges of large windows of either side, with a batch of 1. A symbol that is
    bound to sizes takes turns among them. Where a symbol is a product such as 4*N, there are also sizes that are it.
    """
    names, constants = _symbols(types, cut), known_integers(cut.original, cut.constants)
    if not names:
        return [{}]
    bound = _bound_sizes(cut, types, constants)
    windows = {window for node in (*cut.original, *cut.lowered) for window in windows_of(node, constants)}
    edges = {size for window in windows for size in _edges(window) if size >= EXTENTS[2]}
    more = {edge + near for edge in edges for near in range(-len(names), 2)} - {*EXTENTS}
    batches = dict(zip(EXTENTS, BATCHES, strict=True))
    found = []
    for turn, extent in enumerate(sorted({*EXTENTS, *more})):
        chosen = {name: extent + number for number, name in enumerate(names)}
        chosen |= {name: batches.get(extent, 1) for name, axis in names.items() if axis == 0}
        chosen |= {name: sizes[turn % len(sizes)] for name, sizes in bound.items() if name in names}
        found.append(chosen)
    return sorted([*found, *_products(names)], key=lambda chosen: sum(chosen.values()))


def _products(names: Iterable[str]) -> list[dict[str, int]]:
    """Return sizes such that 4*N is four times N, and is twice 2*N; none if no symbol is a product."""
    factors = {name: factors_of(name) for name in names}
    if all(len(each) == 1 for each in factors.values()):
        return []
    symbols = sorted({factor for each in factors.values() for factor in each if isinstance(factor, str)})
    found = []
    for first in BATCHES:
        sizes = {symbol: first + number for number, symbol in enumerate(symbols)}
        numbers = {name: [int(sizes.get(str(of), of or 0)) for of in each] for name, each in factors.items()}
        found.append({name: math.prod(each) for name, each in numbers.items()})
    return found


def _bound_sizes(cut: Cut, types: TensorTypes, constants: Constants) -> dict[str, list[int]]:
    """Return the sizes that symbols of pooled tensors can have where those of the gradients are known."""
    found: dict[str, list[int]] = {}
    for node in (*cut.original, *cut.lowered):
        x, gradient = roles.pooled(node) or "", roles.incoming_gradient(node) or ""
        rank = rank_of(x, types)
        if rank is None or rank != rank_of(gradient, types):
            continue
        sizes, counts = _named_dims(x, types), _named_dims(gradient, types)
        dx = next(iter(node.outputs), "")
        made = _named_dims(dx, types) if rank == rank_of(dx, types) else sizes
        first = 1 if roles.has_channels_last(node) else 2
        windows = dict(enumerate(windows_of(node, constants)[2 - rank :], first))
        others = {0, rank - 1 if first == 1 else 1}
        for axis, (dim, count, size) in enumerate(zip(sizes, counts, made, strict=True)):
            if isinstance(dim, str) and isinstance(size, int):
                possible = [size]
            elif isinstance(dim, str) and isinstance(count, int) and count and axis in {*windows, *others}:
                possible = [count] if axis in others else _pooled_to(node, windows[axis], count, constants)
            else:
                continue
            found[dim] = [each for each in possible if each in found.get(dim, possible)]
    return {symbol: sizes for symbol, sizes in found.items() if sizes}


def _pooled_to(node: FlatNode, window: StridedWindow, count: int, constants: Constants) -> list[int]:
    """Return the sizes of an axis on which a node has so many windows."""
    near = range(max(1, window.extent - window.begin - window.end), count * window.stride + window.extent)
    return [size for size in near if _count(node, window, size, constants) == count]


def _edges(window: StridedWindow) -> tuple[int, int]:
    """Return the sizes from which on there is a second window, and one more if their number is rounded up.

    At one of the two or just below it, windows of another extent, stride or rounding are fewer or more.
    """
    last = -(-(window.extent + window.begin - 1) // window.stride)
    return window.extent + window.stride - window.begin - window.end, last * window.stride - window.begin + 1


def shapes(
    cut: Cut, sources: Sequence[ModelProto], types: TensorTypes, chosen: Mapping[str, int]
) -> dict[str, ConcreteShape]:
    """Return the shape of each input for the chosen sizes. `sources` are the original and the lowered model.

    Raises `UnprovenError` if a gradient's shape cannot be computed, and the evaluator's errors if the sizes do not fit
    the site.
    """
    bound, known = dict(chosen), dict[str, ConcreteShape]()
    for value in (value for value, role in cut.inputs.items() if role is not Role.GRADIENT):
        if (shape := _bind(_named_dims(value, types), bound)) is None:
            raise UnprovenError(f"the shape of '{value}' is not known")
        known[value] = shape
    gradients = [value for value, role in cut.inputs.items() if role is Role.GRADIENT]
    dims = {value: types[value].dims if value in types else None for value in gradients}
    probed: dict[str, AnyArray] | None = None
    for value in gradients:
        if (shape := _bind(dims[value], bound)) is None:
            if probed is None:
                probed = _probe(cut, sources, types, known, gradients)
                for name in (name for name in probed if name in types):  # declared symbols have the sizes found
                    declared, found = types[name].dims or (), probed[name].shape
                    for dim, size in zip(declared, found, strict=True) if len(declared) == len(found) else ():
                        if isinstance(dim, str):
                            bound.setdefault(dim, size)
            shape = _bind(dims[value], bound) or _by_its_nodes(cut, value, dims[value], probed)
        if shape is None:
            raise UnprovenError(f"the shape of the incoming gradient '{value}' is not known")
        known[value] = shape
    return known


def _bind(dims: Sequence[AxisSize] | None, bound: Mapping[str, int]) -> ConcreteShape | None:
    if dims is None:
        return None
    sizes = known_sizes([bound.get(dim, dim) if isinstance(dim, str) else dim for dim in dims])
    return None if sizes is None else tuple(sizes)


def _probe(
    cut: Cut,
    sources: Sequence[ModelProto],
    types: TensorTypes,
    known: Mapping[str, ConcreteShape],
    gradients: Sequence[str],
) -> dict[str, AnyArray]:
    """Return all values that do not depend on an incoming gradient, by running both sides on zeros."""
    dtypes = {value: onnx.helper.tensor_dtype_to_np_dtype(types[value].element) for value in known}
    feeds = {value: np.zeros(shape, dtypes[value]) for value, shape in known.items()}
    found: dict[str, AnyArray] = dict(feeds)
    for source, nodes in zip(sources, (cut.original, cut.lowered), strict=True):
        forward = independent(nodes, gradients)
        made = [value for node in forward for value in node.outputs if value]
        results = reference_runner(side_model(source, cut, forward, types, made))(feeds)
        found.update((value, np.asarray(result)) for value, result in results.items())
    return found


def _by_its_nodes(cut: Cut, value: str, dims: Sequence[AxisSize] | None, probed: NamedArrays) -> ConcreteShape | None:
    """Return the shape of a gradient by the nodes that read it, in a layout that matches its known sizes, or None.

    It is that of the indices, or follows from the windows of an average pool.
    """
    computed = {name: array.tolist() for name, array in probed.items() if array.dtype == np.int64 and array.ndim == 1}
    constants = computed | known_integers((*cut.original, *cut.lowered), cut.constants)
    producers = {made: node for node in (*cut.original, *cut.lowered) for made in node.outputs}
    for node in (*cut.original, *cut.lowered):
        operand, other = roles.incoming_gradient(node), roles.same_shape(node) or ""
        behind = [] if operand is None else roles.views(operand, producers)
        if next((each for each in behind if each in cut.inputs), None) != value:
            continue
        shape = probed[other].shape if other in probed else _by_its_windows(node, probed, constants)
        layouts = [] if shape is None else [shape]
        if shape is not None and operand != value:  # a view may have the channels first
            layouts.append((shape[0], *shape[2:], *shape[1:2]))
        for layout in layouts:
            pairs = zip(dims or (), layout, strict=False)
            fits = all(dim == size or not isinstance(dim, int) for dim, size in pairs)
            if dims is None or (len(dims) == len(layout) and fits):
                return layout
    return None


def _by_its_windows(node: FlatNode, probed: NamedArrays, constants: Constants) -> ConcreteShape | None:
    """Return the shape of the gradient that an average pool's gradient node reads, or None.

    The number of adaptive windows is nothing that x determines: it is chosen so that most windows overlap.
    """
    sizes = _pooled_sizes(node, probed, constants) if roles.is_average_gradient(node) else None
    if sizes is None:
        return None
    first, end = (1, len(sizes) - 1) if roles.has_channels_last(node) else (2, len(sizes))
    windows, spatial = windows_of(node, constants), sizes[first:end]
    pairs = zip(windows[-len(spatial) :], spatial, strict=bool(windows))
    counts = [_count(node, *pair, constants) for pair in pairs] or [(2 * size + 2) // 3 for size in spatial]
    return (*sizes[:first], *counts, *sizes[end:])


def _pooled_sizes(node: FlatNode, probed: NamedArrays, constants: Constants) -> ConcreteShape | None:
    """Return the shape of x: that of the operand x, the one in an operand, or in an attribute."""
    if (x := roles.pooled(node)) is not None:
        return probed[x].shape if x in probed else None
    shape = roles.shape_operand(node)
    if shape is not None:
        known = constants.get(shape) or (probed[shape].tolist() if shape in probed else None)
        return None if known is None else tuple(known)
    return tuple(attribute_values(node.proto).get("orig_input_shape", ())) or None


def _count(node: FlatNode, window: StridedWindow, size: int, constants: Constants) -> int:
    """Return the number of windows along an axis."""
    values = attribute_values(node.proto)
    if values.get("auto_pad", values.get("padding", b"")) in (b"SAME", b"SAME_LOWER", b"SAME_UPPER"):
        return -(-size // window.stride)
    ceil = constants.get(node.inputs[5], [0])[0] if roles.aten_operator(node) else values.get("ceil_mode", 0)
    return window_count(size, window.extent, window.stride, window.begin, window.end, ceil=bool(ceil))


def element_count(known: Mapping[str, ConcreteShape]) -> int:
    """Return the total number of elements of all inputs."""
    return sum(map(math.prod, known.values()))
