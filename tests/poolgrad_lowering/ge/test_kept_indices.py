# SPDX-License-Identifier: Apache-2.0

"""Max pools whose Indices are read, or that have dilations, in operators that GE's parser reads as ONNX means them."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering import export_atc, export_cann, verify
from poolgrad_lowering.ge.graph_mode import prepare_for_graph_mode
from poolgrad_lowering.ge.indices import indices_are_proven
from poolgrad_lowering.ge.placement import find_placement
from poolgrad_lowering.ge.values import value_types
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.index import ModelIndex
from tests.oracles import assert_same_bits
from tests.pool_graphs import parse
from tests.poolgrad_lowering.ge.test_rewrites import operators, run
from tests.runtime.device_models import GRADIENT, POOL

POOLS = {
    "no overlap": ("2,3,8,6", "kernel_shape = [2, 2], strides = [2, 2]"),
    "overlap and padding": ("2,3,7,6", "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]"),
    "dilations": ("2,3,9,10", "kernel_shape = [3, 2], dilations = [2, 3], pads = [2, 1, 2, 0], strides = [2, 1]"),
    "windows that end behind the input": ("1,2,8,9", "kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1"),
    "same padding": ("1,2,7,6", 'kernel_shape = [2, 3], strides = [2, 2], auto_pad = "SAME_LOWER"'),
    "one axis": ("2,3,11", "kernel_shape = [3], strides = [2], dilations = [2]"),
    "three axes": ("1,2,4,5,6", "kernel_shape = [2, 2, 3], strides = [2, 1, 2]"),
    "single elements": ("2,3,4,4", "kernel_shape = [1, 1]"),
}
IN_PLANES = """
    y, whole = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X)
    single, each = MaxPool<kernel_shape = [1, 1], strides = [1, 1], storage_order = 0>(X)
    start = Slice(each, zeros, ones, axes)
    index = Sub(whole, start)
"""
BOUNDS = "<int64[2] zeros = {0, 0}, int64[2] ones = {1, 1}, int64[2] axes = {2, 3}>"


def ties(*shape: int) -> np.ndarray:
    """A tensor with few different numbers, so that most windows have several maxima; −inf and both zeros are there."""
    return np.random.default_rng(5).choice(np.array([-np.inf, -1, -0.0, 0.0, 2], np.float32), shape)


def nested(op_type: str, times: int) -> str:
    """Nodes, each of which reads the one before it, from a table of zeros to the indices."""
    names = ["zero", *(f"v{number}" for number in range(1, times)), "argmax"]
    read = "({0}, {0})" if op_type == "Add" else "({0})"
    return " ".join(f"{new} = {op_type}{read.format(old)}" for old, new in itertools.pairwise(names))


def sizes_of(text: str) -> list[int]:
    return [int(size) for size in text.split(",")]


def pooled(sizes: str, attributes: str, element: str = "float") -> ModelProto:
    return parse(f"g ({element}[{sizes}] X) => (Y, I) {{ Y, I = MaxPool<{attributes}>(X) }}", opset=18)


@pytest.mark.parametrize("x", ["X", "float[2,3,8,6] X"])
def test_a_pool_of_an_unknown_or_another_shape_stays(x: str) -> None:
    model = parse(f"g ({x}) => (Y, I) {{ Y, I = MaxPool<kernel_shape = [2]>(X) }}", opset=18)
    assert operators(export_cann(model).model) == ["MaxPool"]


@pytest.mark.parametrize("auto_pad", ["VALID", "SAME_LOWER"])
@pytest.mark.parametrize("name", ["strides", "dilations"])
def test_a_pool_with_an_attribute_of_another_length_stays(name: str, auto_pad: str) -> None:
    model = pooled("1,2,6,6", f'kernel_shape = [2,2], {name} = [2], auto_pad = "{auto_pad}"')
    assert operators(export_cann(model).model) == ["MaxPool"]


def test_a_pool_whose_rounding_runtimes_may_read_in_different_ways_stays() -> None:
    model = pooled("1,2,8,9", "kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 2")
    assert operators(export_cann(model).model) == ["MaxPool"]


@pytest.mark.parametrize("element", ["float", "float16"])
@pytest.mark.parametrize(("sizes", "attributes"), POOLS.values(), ids=POOLS)
def test_a_pool_of_gathered_windows_has_the_results_of_the_pool(sizes: str, attributes: str, element: str) -> None:
    model = pooled(sizes, attributes, element)
    for exported in (export_cann(model), export_atc(model)):
        assert exported.report.obstacles == ()
        assert "MaxPool" not in operators(exported.model)
        onnx.shape_inference.infer_shapes(exported.model, check_type=True, strict_mode=True)
        x = ties(*sizes_of(sizes)).astype({"float": np.float32, "float16": np.float16}[element])
        for found, wanted in zip(run(exported.model, {"X": x}), run(model, {"X": x}), strict=True):
            assert_same_bits(found, wanted)
        assert verify(model, exported.model).differences == ()


def test_a_batch_that_is_not_known_is_counted_on_the_device() -> None:
    model = pooled("N,3,8,6", POOLS["no overlap"][1])
    export = export_cann(model)
    assert export.report.obstacles == ()
    assert "CumSum" in operators(export.model)
    for batch in (1, 4):
        x = ties(batch, 3, 8, 6)
        for found, wanted in zip(run(export.model, {"X": x}), run(model, {"X": x}), strict=True):
            assert_same_bits(found, wanted)
    assert verify(model, export.model).differences == ()


WINDOWS = ["Reshape", "Gather", "Reshape", "ArgMax", "GatherElements", "Reshape"]
COUNTED = ["Slice", "Reshape", "Less", "Cast", "Add", "CumSum", "Mul", "Add"]
IN_PLANE = ["Add", "Gather", "Reshape"]
SHIFTED = ["Add", "Gather", "Add", "Reshape"]
CHANGES: dict[str, tuple[dict[str, str], list[str]]] = {
    "as it is": ({}, [*WINDOWS, *IN_PLANE, "Reshape"]),
    "a batch that is counted": ({"[2,3,": "[N,3,"}, [*WINDOWS, "Add", "Gather", *COUNTED, "Reshape", "Reshape"]),
    "a step": ({"axes)": "axes, ones)"}, [*WINDOWS, *IN_PLANE, "Reshape"]),
    "pads of zero": ({"storage_order = 0": "pads = [0, 0, 0, 0]"}, [*WINDOWS, *IN_PLANE, "Reshape"]),
    "single elements that are read": (
        {"(index": "(single, index"}, [*WINDOWS, "Add", "Gather", "MaxPool", "Reshape", "Reshape"]),
    "indices in the whole tensor": ({"(index": "(whole, index"}, [*WINDOWS, *SHIFTED, "Reshape", "Reshape"]),
    "another node that reads them": (
        {"(index": "(other, index", "index =": "other = Neg(whole) index ="},
        [*WINDOWS, *SHIFTED, "Reshape", "Neg", "Reshape"]),
    "a node that reads the first ones": (
        {"(index": "(other, index", "index =": "other = Neg(start) index ="}, [*WINDOWS, *IN_PLANE, "Neg", "Reshape"]),
    "a node that reads the single ones": (
        {"(index": "(other, index", "index =": "other = Neg(each) index ="},
        [*WINDOWS, "Add", "Gather", *WINDOWS, *SHIFTED, "Reshape", "Neg", "Reshape"]),
    "a sum": ({"Sub": "Add"}, [*WINDOWS, *SHIFTED, "Reshape", "Add"]),
    "a difference from given indices": (
        {"] X": "] X, int64[2,3,4,3] given", "Sub(whole, start)": "Sub(whole, given)"},
        [*WINDOWS, *SHIFTED, "Reshape", "Sub"]),
    "a difference from the others": (
        {"Sub(whole, start)": "Sub(start, whole)"}, [*WINDOWS, *SHIFTED, "Reshape", "Sub"]),
    "the first ones of windows": ({"(each, zeros": "(whole, zeros"}, [*WINDOWS, *SHIFTED, "MaxPool", "Slice", "Sub"]),
    "other axes": ({"{2, 3}": "{3, 2}"}, [*WINDOWS, *SHIFTED, *WINDOWS, *SHIFTED, "Slice", "Sub"]),
    "single elements in another order": (
        {"storage_order = 0": "storage_order = 1"}, [*WINDOWS, *SHIFTED, "MaxPool", "Slice", "Sub"]),
    "fewer elements": (
        {"[1, 1], storage": "[2, 2], storage"}, [*WINDOWS, *SHIFTED, *WINDOWS, *SHIFTED, "Slice", "Sub"]),
    "the first maxima": (
        {"(index": "(start, index", "(each, zeros": "(single, zeros", "Sub(whole, start)": "Neg(whole)"},
        [*WINDOWS, *SHIFTED, "MaxPool", "Slice", "Neg"]),
    "any number of channels": ({"[2,3,": "[2,C,"}, ["MaxPool", "MaxPool", "Slice", "Sub"]),
    "any height": ({",8,": ",H,"}, ["MaxPool", "MaxPool", "Slice", "Sub"]),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), CHANGES.values(), ids=CHANGES)
def test_positions_in_planes_need_no_positions_of_planes(changes: dict[str, str], expected: list[str]) -> None:
    text = f"g (float[2,3,8,6] X) => (index, y) {BOUNDS} {{ {IN_PLANES} }}"
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    model = parse(text, opset=18)
    export = export_cann(model)
    x = ties(2, 3, 8, 6)
    feeds = {"X": x} | ({"given": np.ones((2, 3, 4, 3), np.int64)} if "given" in text else {})
    for found, wanted in zip(run(export.model, feeds), run(model, feeds), strict=True):
        assert_same_bits(found, wanted)
    assert verify(model, export.model).differences == ()
    assert operators(export.model) == expected


@pytest.mark.parametrize(("sizes", "window"), [("1,1,4096,4096", 3), ("1,1,4611686018427387904,2", 1)])
def test_windows_that_would_fill_a_memory_stay(sizes: str, window: int) -> None:
    found = export_cann(pooled(sizes, f"kernel_shape = [{window}, {window}], strides = [1, 1], pads = [0, 0, 1, 0]"))
    assert operators(found.model) == ["MaxPool"]
    assert [obstacle.code for obstacle in found.report.obstacles] == ["kept-indices"]


@pytest.mark.parametrize("sizes", ["2147483647,4,6,6", "2,3,21474836470,21474836470"])
def test_planes_that_would_fill_a_memory_stay(sizes: str) -> None:
    found = export_cann(pooled(sizes, "kernel_shape = [1, 1], strides = [2147483647, 2147483647]"))
    assert operators(found.model) == ["MaxPool"]
    assert [obstacle.code for obstacle in found.report.obstacles] == ["kept-indices"]


def test_the_first_index_of_each_plane_by_itself() -> None:
    model = parse(f"g (float[2,3,8,6] X) => (y, whole, start) {BOUNDS} {{ {IN_PLANES} }}", opset=18)
    export = export_cann(model)
    assert export.report.obstacles == ()
    x = ties(2, 3, 8, 6)
    for found, wanted in zip(run(export.model, {"X": x}), run(model, {"X": x}), strict=True):
        assert_same_bits(found, wanted)
    assert verify(model, export.model).differences == ()


def test_a_pool_whose_indices_onnxruntimes_gradient_reads_stays() -> None:
    windows = "kernel_shape = [2, 2], strides = [2, 2]"
    text = f"Y, I = MaxPool<{windows}>(X) Z = MaxPoolGrad<{windows}>(G, I)"
    model = parse(f"g (float[1,2,6,6] X, float[1,2,3,3] G) => (Y, Z) {{ {text} }}")
    prepare_for_graph_mode(model, ExternalData())
    assert operators(model) == ["MaxPool", "MaxPoolGrad"]


def test_verify_sees_another_table() -> None:
    model = pooled(*POOLS["no overlap"])
    export = export_cann(model).model
    [table] = [tensor for tensor in export.graph.initializer if tensor.name.endswith("/table")]
    numbers = onnx.numpy_helper.to_array(table).copy()
    numbers[1] += 1
    table.CopyFrom(onnx.numpy_helper.from_array(numbers, table.name))
    assert not verify(model, export).proven


PROVEN = {
    "a table": ("argmax = Identity(last)", True),
    "a table of one number": ("argmax = Add(five, same)", True),
    "a sum": ("argmax = Add(table, five)", True),
    "a sum just outside of the plane": ("argmax = Add(last, one)", False),
    "a sum with a negative number": ("argmax = Add(table, minus)", False),
    "a sum with an input": ("argmax = Add(table, given)", False),
    "a difference": ("argmax = Sub(table, five)", False),
    "an input": ("argmax = Identity(given)", False),
    "floats": ("argmax = Cast<to = 6>(floats)", False),
    "a cast": ("w = Cast<to = 7>(last) argmax = Cast<to = 6>(w)", True),
    "a cast that may wrap": ("w = Cast<to = 3>(last) argmax = Cast<to = 6>(w)", False),
    "an operator of the name of a view": ("argmax = npu.Identity(last)", False),
    "places along the first axis": ("A = ArgMax<keepdims = 0>(scores) argmax = Cast<to = 6>(A)", True),
    "places along an axis": ("A = ArgMax<axis = -1, keepdims = 0>(scores) argmax = Cast<to = 6>(A)", False),
    "places along no axis": ("A = ArgMax<axis = 5, keepdims = 0>(scores) argmax = Cast<to = 6>(A)", False),
    "a sum of five sums": (nested("Add", 5), True),
    "a sum of many sums": (nested("Add", 8), False),
    "some views": (nested("Identity", 40), True),
    "many views": (nested("Identity", 70), False),
    "a pool of x": (f"y, argmax = {POOL} (x)", True),
    "a pool of another value": (f"o = Neg(x) y, argmax = {POOL} (o)", False),
    "an operator of the name of a pool": (f"y, argmax = {POOL} (x)".replace("npu.", "acme."), False),
    "another operator of the domain": ("y, argmax = npu.Other (x)", False),
    "a plane of unknown size": ("argmax = Identity(last)", False),
}


@pytest.mark.parametrize("name", PROVEN)
def test_indices_are_proven_to_be_in_their_plane(name: str) -> None:
    node, is_proven = PROVEN[name]
    text = f"""
    g (float[1,1,4,4] x, float[1,1,2,2] dy, int32[1,1,2,2] given, float[16,1,1,2,17] scores) => (dx) <
        int32[1,1,2,2] table = {{0, 2, 8, 10}}, int32[1,1,2,2] last = {{0, 2, 8, 15}}, int32 five = {{5}},
        float[1,1,2,2] floats = {{0.0, 2.0, 8.0, 10.0}}, int32[1,1,2,2] zero = {{0, 0, 0, 0}}, int32 one = {{1}},
        int32[1,1,2,2] same = {{3, 3, 3, 3}}, int32 minus = {{-1}}
    > {{ {node} dx = {GRADIENT} (x, dy, argmax) }}"""
    text = text.replace("[1,1,4,4]", "[1,1,H,4]") if "unknown" in name else text
    model = parse(text, imports='"npu": 1, "acme": 1', opset=18)
    assert prepare_for_graph_mode(model, ExternalData()).has_proven_indices is is_proven


def test_an_operator_of_the_name_of_a_gradient_reads_no_indices() -> None:
    node = GRADIENT.replace("npu.", "acme.")
    text = f"g (float[1,1,4,4] x, float[1,1,2,2] dy, int32[1,1,2,2] given) => (dx) {{ dx = {node} (x, dy, given) }}"
    assert prepare_for_graph_mode(parse(text, imports='"acme": 1'), ExternalData()).has_proven_indices


def test_a_table_that_is_not_read_is_not_proven() -> None:
    text = f"""g (float[1,1,4,4] x, float[1,1,2,2] dy) => (dx) <int32[1,1,2,2] table = {{0, 2, 8, 10}}> {{
        dx = {GRADIENT} (x, dy, table)
    }}"""
    model = parse(text, imports='"npu": 1', opset=18)
    types = value_types(model, ModelIndex(model), ExternalData())
    assert indices_are_proven(model, types)
    types.constants["table"].data_location = TensorProto.EXTERNAL
    assert not indices_are_proven(model, types)


@pytest.mark.parametrize(("other", "copies"), [("table", 0), ("given", 2)])
def test_indices_that_are_checked_are_copied(other: str, copies: int) -> None:
    """The check is of a whole session; a pool's own indices never need it."""
    text = f"""
    g (float[1,1,4,4] x, float[1,1,2,2] dy, int32[1,1,2,2] given) => (a, b, c)
    <int32[1,1,2,2] table = {{0, 2, 8, 10}}> {{
        y, argmax = {POOL} (x) a = {GRADIENT} (x, dy, argmax)
        b = {GRADIENT} (x, dy, table) c = {GRADIENT} (x, dy, {other})
    }}"""
    model = parse(text, imports='"npu": 1', opset=18)
    types = value_types(model, ModelIndex(model), ExternalData())
    assert find_placement(model, types).copies == copies


IN_BRANCH = f"""If(c) <then_branch = t () => (a) {{ a = {GRADIENT} (x, dy, given) }},
    else_branch = e () => (b) {{ b = Neg(x) }}>"""
IN_FUNCTION = f"""<domain: "own", opset_import: ["": 18, "npu": 1]> f (x, dy, given) => (dx) {{
    dx = {GRADIENT} (x, dy, given) }}"""


@pytest.mark.parametrize(
    ("node", "functions"), [(IN_BRANCH, ""), ("own.f(x, dy, given)", IN_FUNCTION), ("own.f(x, dy, given)", "Neg")]
)
def test_indices_in_a_branch_or_a_function_are_not_proven(node: str, functions: str) -> None:
    text = f"""g (bool c, float[1,1,4,4] x, float[1,1,2,2] dy, int32[1,1,2,2] given) => (dx) {{ dx = {node} }}"""
    is_read = functions != "Neg"
    body = functions if is_read else IN_FUNCTION.replace(f"{GRADIENT} (x, dy, given)", "Neg(x)")
    model = parse(text, imports='"npu": 1, "own": 1', opset=18, functions=body)
    types = value_types(model, ModelIndex(model), ExternalData())
    assert indices_are_proven(model, types) is not is_read
