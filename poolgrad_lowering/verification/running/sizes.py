# SPDX-License-Identifier: Apache-2.0

"""Chooses numbers for the symbolic sizes of a site's inputs.

Symbols of the pooled tensors are chosen; those of incoming gradients are computed by running the forward pools.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
from onnx import ModelProto

from poolgrad_lowering.verification.graph import roles
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.types import AxisSize, TensorType
from poolgrad_lowering.verification.graph.windows import StridedWindow
from poolgrad_lowering.verification.result import UnprovenError
from poolgrad_lowering.verification.running.evaluator import reference_runner
from poolgrad_lowering.verification.running.side import independent, side_model
from poolgrad_lowering.verification.sites.cut import Cut, Role

ConcreteShape = tuple[int, ...]

BATCHES = (1, 2, 3, 16)
"""The values of a symbol on the first axis, one for each choice."""
EXTENTS = (6, 9, 17, 34)
"""The values of the first symbol on other axes; each further symbol gets one more, so that no two are equal.

For windows that are larger, there are more: see `choices`.
"""


def symbols(types: Mapping[str, TensorType], cut: Cut) -> dict[str, int]:
    """Return the symbols to choose, each with the first axis on which it occurs."""
    found: dict[str, int] = {}
    for value, role in cut.inputs.items():
        if role is not Role.GRADIENT:
            for axis, dim in enumerate(named_dims(value, types)):
                if isinstance(dim, str):
                    found.setdefault(dim, axis)
    return found


def named_dims(value: str, types: Mapping[str, TensorType]) -> tuple[int | str, ...]:
    """Return a value's sizes, unknown ones as unique symbols. Raises `UnprovenError` if the rank is not known."""
    known = types.get(value)
    if known is None or known.dims is None:
        raise UnprovenError(f"the shape of '{value}' is not known")
    return tuple(f"{value}[{axis}]" if dim is None else dim for axis, dim in enumerate(known.dims))


def choices(names: Mapping[str, int], windows: Iterable[StridedWindow]) -> list[dict[str, int]]:
    """Return the choices of sizes for the symbols, from small to large; one empty choice if there are no symbols.

    Besides `EXTENTS` there are sizes at the edges of large windows of either side, with a batch of 1.
    """
    if not names:
        return [{}]
    edges = {size for window in windows for size in _edges(window) if size >= EXTENTS[2]}
    more = {edge + near for edge in edges for near in range(-len(names), 2)} - {*EXTENTS}
    batches = dict(zip(EXTENTS, BATCHES, strict=True))
    return [
        {
            name: batches.get(extent, 1) if axis == 0 else extent + number
            for number, (name, axis) in enumerate(names.items())
        }
        for extent in sorted({*EXTENTS, *more})
    ]


def _edges(window: StridedWindow) -> tuple[int, int]:
    """Return the sizes from which on there is a second window, and one more if their number is rounded up.

    At one of the two or just below it, windows of another extent, stride or rounding are fewer or more.
    """
    last = -(-(window.extent + window.begin - 1) // window.stride)
    return window.extent + window.stride - window.begin - window.end, last * window.stride - window.begin + 1


def shapes(
    cut: Cut, sources: Sequence[ModelProto], types: Mapping[str, TensorType], chosen: Mapping[str, int]
) -> dict[str, ConcreteShape]:
    """Return the shape of each input for the chosen sizes. `sources` are the original and the lowered model.

    Raises `UnprovenError` if a gradient's shape cannot be computed, and the evaluator's errors if the sizes do not fit
    the site.
    """
    bound, known = dict(chosen), dict[str, ConcreteShape]()
    for value in (value for value, role in cut.inputs.items() if role is not Role.GRADIENT):
        shape = _bind(named_dims(value, types), bound)
        if shape is None:
            raise UnprovenError(f"the shape of '{value}' is not known")
        known[value] = shape
    gradients = [value for value, role in cut.inputs.items() if role is Role.GRADIENT]
    dims = {value: types[value].dims if value in types else None for value in gradients}
    probed: dict[str, ConcreteShape] | None = None
    for value in gradients:
        shape = _bind(dims[value], bound)
        if shape is None:
            if probed is None:
                probed = _probe(cut, sources, types, known, gradients)
                _learn(bound, probed, types)
            shape = _bind(dims[value], bound) or _like_its_indices(cut, value, dims[value], probed)
        if shape is None:
            raise UnprovenError(f"the shape of the incoming gradient '{value}' is not known")
        known[value] = shape
    return known


def _bind(dims: Sequence[AxisSize] | None, bound: Mapping[str, int]) -> ConcreteShape | None:
    if dims is None:
        return None
    sizes = [dim if isinstance(dim, int) else bound.get(dim or "") for dim in dims]
    return tuple(size for size in sizes if size is not None) if None not in sizes else None


def _probe(
    cut: Cut,
    sources: Sequence[ModelProto],
    types: Mapping[str, TensorType],
    known: Mapping[str, ConcreteShape],
    gradients: Sequence[str],
) -> dict[str, ConcreteShape]:
    """Return the shapes of all values that do not depend on an incoming gradient, by running both sides on zeros."""
    feeds = {
        value: np.zeros(shape, onnx.helper.tensor_dtype_to_np_dtype(types[value].element))
        for value, shape in known.items()
    }
    found: dict[str, ConcreteShape] = dict(known)
    for source, nodes in zip(sources, (cut.original, cut.lowered), strict=True):
        forward = independent(nodes, gradients)
        made = [value for node in forward for value in node.outputs if value]
        results = reference_runner(side_model(source, cut, forward, types, made))(feeds)
        found.update((value, np.shape(result)) for value, result in results.items())
    return found


def _learn(bound: dict[str, int], probed: Mapping[str, ConcreteShape], types: Mapping[str, TensorType]) -> None:
    """Bind symbols in the declared shapes of values whose sizes are now known."""
    for value, shape in probed.items():
        dims = types[value].dims if value in types else None
        if dims is not None and len(dims) == len(shape):
            for dim, size in zip(dims, shape, strict=True):
                if isinstance(dim, str):
                    bound.setdefault(dim, size)


def _like_its_indices(
    cut: Cut, value: str, dims: Sequence[AxisSize] | None, probed: Mapping[str, ConcreteShape]
) -> ConcreteShape | None:
    """Return the shape of the indices of a gradient, in a layout that matches its known sizes, or None."""
    for node in (*cut.region.removed, *cut.region.added):
        operand, other = roles.incoming_gradient(node), roles.same_shape(node)
        if operand is None or other is None or other not in probed or _base(cut, operand) != value:
            continue
        shape = probed[other]
        layouts = [shape] if operand == value else [shape, (shape[0], *shape[2:], *shape[1:2])]
        for layout in layouts:
            if dims is None or _fits(layout, dims):
                return layout
    return None


def _fits(shape: ConcreteShape, dims: Sequence[AxisSize]) -> bool:
    return len(shape) == len(dims) and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(dims, shape, strict=True)
    )


def _base(cut: Cut, value: str) -> str:
    producers: dict[str, FlatNode] = {v: node for node in (*cut.original, *cut.lowered) for v in node.outputs}
    behind = {value}
    while value not in cut.inputs and value in producers and roles.is_view(producers[value]):
        value = producers[value].inputs[0]
        if value in behind:
            break
        behind.add(value)
    return value


def element_count(known: Mapping[str, ConcreteShape]) -> int:
    """Return the total number of elements of all inputs."""
    return sum(map(math.prod, known.values()))
