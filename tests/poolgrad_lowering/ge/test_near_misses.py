# SPDX-License-Identifier: Apache-2.0

"""Graphs of the tests beside this one with each small change: what onnxruntime runs has the bits of its exports."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, ValueInfoProto
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    NotImplemented,  # noqa: A004 - its name in onnxruntime
    RuntimeException,
)

from poolgrad_lowering import export_atc, export_cann, verify
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.ge.values import DRAWN
from poolgrad_lowering.model.diagnostics.errors import PoolgradError
from tests.near_misses.edits import edited, edits
from tests.oracles import assert_same_bits
from tests.pool_graphs import Array, parse
from tests.poolgrad_lowering.ge import (
    test_kept_indices,
    test_masks,
    test_obstacles,
    test_rewrites,
    test_scalars,
    test_shape_operands,
    test_training_statistics,
    test_untouched,
)
from tests.poolgrad_lowering.ge.test_rewrites import run as run_in_place

PART = 20
"""The default run tries one of so many changes."""
DOES_NOT_RUN = (Fail, InvalidArgument, InvalidGraph, NotImplemented, RuntimeError, RuntimeException)
IN_ANOTHER_ORDER = ("training", "the logarithm of a sum")
"""Graphs whose exports add in another order: their results may differ by roundings of a few sums in float32."""
UNPROVEN = frozenset(
    """
a transposition of a scalar: node 0 (Transpose): output 0 is an output of the model
a loss that ignores no class: output 0 left out
shapes: sizes on other axes of the input, there and back: node 1 (Transpose): perm left out
shapes: sizes on other axes of the input, beside one that follows: node 6 (Reshape): output 0 is an output of the model
shapes: sizes beside repeats, as in onnxruntime's gradient of Tile: node 6 (Concat): output 0 is an output of the model
shapes: half of an axis that is rounded up, as torch.chunk writes it: node 3 (Slice): output 0 is an output of the model
shapes: sizes of windows, as in onnxruntime's gradient of a mean over them: node 1 (MaxPool): strides
""".strip().splitlines()
)
"""Beginnings of names of changes whose exports are right, and which `verify` does not follow."""


def triangle(name: str) -> ModelProto:
    text = test_masks.SYMBOLIC_TRIANGLES[name].replace("Y) {", "Y) <int64 k = {1}> {")
    return parse(text.replace("TYPE", "Identity").replace("UPPER", "1"))


def in_planes(batch: str) -> ModelProto:
    nodes = f"{test_kept_indices.BOUNDS} {{ {test_kept_indices.IN_PLANES} }}"
    return parse(f"g (float[{batch},3,4,6] X) => (index, y) {nodes}", opset=18)


GRAPHS: dict[str, ModelProto] = {
    name: row[0]
    for table in (
        *(test_rewrites.REWRITTEN, test_rewrites.LARGE_AVERAGES, test_rewrites.REWRITTEN_OF_GRAPH_MODE),
        *(test_untouched.STAY, test_obstacles.WRONG, test_obstacles.WEAK, test_obstacles.FINE, test_obstacles.MADE),
    )
    for name, row in table.items()
    if all(node.domain not in (DOMAIN, "ai.onnx") for node in row[0].graph.node)  # which onnx does not infer, or run
}
GRAPHS |= test_scalars.MODELS | {"two updates": test_scalars.TWO_UPDATES, "training": test_training_statistics.TRAINING}
GRAPHS |= {f"shapes: {name}": test_shape_operands.declared_model(name) for name in test_shape_operands.SHAPES}
GRAPHS |= {f"triangle: {name}": triangle(name) for name in test_masks.SYMBOLIC_TRIANGLES}
GRAPHS |= {f"in planes of {batch}": in_planes(batch) for batch in "2N"}
GRAPHS |= {
    f"pool of {batch}: {name}": test_kept_indices.pooled(batch + sizes[1:], attributes)
    for name, (sizes, attributes) in test_kept_indices.POOLS.items()
    for batch in "2N"
}


def run(model: ModelProto, feeds: dict[str, Array]) -> list[Array]:
    """onnxruntime writes running statistics into the arrays that it is fed."""
    return run_in_place(model, {name: array.copy() for name, array in feeds.items()})


def sizes_of(value: ValueInfoProto) -> list[int | str]:
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in value.type.tensor_type.shape.dim]


def inputs_of(model: ModelProto) -> dict[str, ValueInfoProto]:
    stored = {tensor.name for tensor in model.graph.initializer}
    return {value.name: value for value in model.graph.input if value.name not in stored}


def feeds_of(model: ModelProto, original: ModelProto, seed: int) -> dict[str, Array]:
    """Small integers, whose sums are exact in any order; each named size is another number.

    An input without a shape has that of the original, or of the value that it replaces there.
    """
    random, named, found = np.random.default_rng(seed), dict[str, int](), dict[str, Array]()
    for name, value in inputs_of(model).items():
        held = value if value.type.tensor_type.HasField("shape") else inputs_of(original).get(name)
        sizes = sizes_of(held) if held else np.shape(replaced(model, original, name, seed))
        shape = [named.setdefault(s, seed + 1 + len(named)) if isinstance(s, str) else s for s in sizes]
        element = value.type.tensor_type.elem_type
        least, end = BOUNDS.get(element, (-4, 5))
        found[name] = random.integers(least, end, shape).astype(onnx.helper.tensor_dtype_to_np_dtype(element))
    return found


BOUNDS: dict[int, tuple[int, int]] = {TensorProto.BOOL: (0, 2), TensorProto.INT32: (0, 3), TensorProto.INT64: (0, 3)}


def replaced(model: ModelProto, original: ModelProto, name: str, seed: int) -> Array:
    """The value in a run of the original that an input of the model replaces."""
    pairs = zip(model.graph.node, original.graph.node, strict=True)
    [value] = {old for one, other in pairs for new, old in zip(one.input, other.input, strict=False) if new == name}
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in original.graph.initializer}
    feeds = feeds_of(original, original, seed)
    if value in (known := stored | feeds):
        return known[value]
    watched = ModelProto()
    watched.CopyFrom(original)
    watched.graph.output.append(ValueInfoProto(name=value))
    return run(watched, feeds)[-1]


def keeps_its_declarations(model: ModelProto, feeds: dict[str, Array]) -> bool:
    """Whether every value has the sizes that the model declares, where `2*N` is twice what an input has as N."""
    watched = ModelProto()
    watched.CopyFrom(model)
    results = {value.name for value in model.graph.output}
    watched.graph.output.extend(value for value in model.graph.value_info if value.name not in results)
    found = feeds | dict(zip((value.name for value in watched.graph.output), run(watched, feeds), strict=True))
    values = [
        (sizes_of(value), np.shape(found[value.name]))
        for value in chain(model.graph.input, watched.graph.output)
        if value.name in found and value.type.tensor_type.HasField("shape")
    ]
    if any(len(sizes) != len(held) for sizes, held in values):
        return False
    pairs = [pair for sizes, held in values for pair in zip(sizes, held, strict=True) if pair[0] != ""]
    named = {str(size): number for size, number in reversed(pairs)}
    try:
        return all(eval(str(size), {}, named) == number for size, number in pairs)
    except NameError:  # a size of which only a multiple is there
        return False


def variants(name: str, part: int) -> Iterator[tuple[str, ModelProto]]:
    for what, edit in edits(GRAPHS[name]):
        if zlib.crc32(f"{name}: {what}".encode()) % part == 0:
            yield f"{name}: {what}", edited(GRAPHS[name], edit)


def faults(name: str, model: ModelProto, original: ModelProto) -> Iterator[str]:
    """What is wrong with the exports of a model; nothing if it does not run, or is not what it declares."""
    for seed in (1, 2):
        try:
            feeds = feeds_of(model, original, seed)
            expected = run(model, feeds)
            has_strings = any(np.array(each).dtype == object for each in expected)
            if has_strings or not keeps_its_declarations(model, feeds):
                return
        except DOES_NOT_RUN:
            return
        for export in (export_cann, export_atc):
            try:
                exported: Any = export(model)
            except PoolgradError:
                continue
            is_drawn = any(node.op_type in DRAWN for node in exported.model.graph.node)
            if is_drawn or (export is export_atc and not exported.report.converts):
                continue
            if fault := difference(exported.model, feeds, expected, is_exact=not name.startswith(IN_ANOTHER_ORDER)):
                yield f"{export.__name__}: {fault}"
            elif seed == 1 and exported.model != model and is_asked(name, model):
                found = verify(model, exported.model, runs=1)
                yield from (f"verify: {each.what}" for each in found.differences)
                yield from [f"verify: {found.whole_model.reason}"] if found.whole_model.status == "differs" else ()


def difference(exported: ModelProto, feeds: dict[str, Array], expected: list[Array], *, is_exact: bool) -> str:
    """How the results of an export differ; empty if they do not."""
    compare = assert_same_bits if is_exact else partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    try:
        for found, wanted in zip(run(exported, feeds), expected, strict=True):
            compare(np.array(found), np.array(wanted))
    except (AssertionError, *DOES_NOT_RUN) as error:
        return str(error)
    return ""


def is_asked(name: str, model: ModelProto) -> bool:
    """Whether `verify` has to prove an export: onnx takes no input without shape, and some proofs need declarations."""
    is_valid = all(value.type.tensor_type.HasField("shape") for value in model.graph.input)
    graph, _, change = name.removeprefix("shapes: ").partition(": ")
    is_declaration = graph in test_shape_operands.DECLARED and not change.startswith("node")
    return is_valid and not is_declaration and not name.startswith(tuple(UNPROVEN))


@pytest.mark.parametrize("part", [PART, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", GRAPHS)
def test_exports_of_near_misses_have_their_results(name: str, part: int) -> None:
    found = {what: list(faults(what, model, GRAPHS[name])) for what, model in variants(name, part)}
    assert {what: each for what, each in found.items() if each} == {}
