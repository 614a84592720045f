# SPDX-License-Identifier: Apache-2.0

"""Max pools whose Indices are read, or that have dilations, in operators that GE's parser reads as ONNX means them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import ModelProto

from poolgrad_lowering import export_atc, export_cann, verify
from poolgrad_lowering.ge.graph_mode import prepare_for_graph_mode
from poolgrad_lowering.model.io.external_data import ExternalData
from tests.oracles import assert_same_bits
from tests.pool_graphs import parse
from tests.poolgrad_lowering.ge.test_rewrites import operators, run

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
    """A tensor of few numbers, so that most windows have several maxima; −inf, both zeros and NaN are there."""
    return np.random.default_rng(5).choice(np.array([-np.inf, -1, -0.0, 0.0, 2, np.nan], np.float32), shape)


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


def test_verify_takes_pads_as_numbers_where_nothing_reads_indices() -> None:
    sizes, attributes = POOLS["same padding"]
    model = parse(f"g (float[{sizes}] X) => (Y) {{ Y, I = MaxPool<{attributes}>(X) }}", opset=18)
    export = export_cann(model)
    assert list(export.model.graph.node[0].output) == ["Y"]
    assert verify(model, export.model).proven
    export.model.graph.node[0].attribute[0].ints[0] += 1
    assert verify(model, export.model, whole_model=False).differences


def test_a_slice_of_what_a_node_without_inputs_makes_stays() -> None:
    model = parse(
        "g (float[2] X) => (Y) <int64[1] a = {0}, int64[1] b = {1}>"
        " { c = RandomUniform<shape = [2]>() d = Slice(c, a, b) Y = Add(X, d) }",
        opset=18,
    )
    assert "Slice" in operators(export_atc(model).model)


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


WINDOWS = ["Reshape", "Gather", "ArgMax", "GatherElements", "Reshape"]
TABLE = ["Slice", "Reshape", "Less", "Cast", "Add", "CumSum", "Slice", "Slice", "Mul", "Add", "Mul", "Add", "Add"]
IN_PLANE = ["Reshape", "Add", "Gather", "Reshape"]
SHIFTED = ["Reshape", "Add", "Gather", "Add", "Reshape"]
CHANGES: dict[str, tuple[dict[str, str], list[str]]] = {
    "as it is": ({}, [*WINDOWS, *IN_PLANE]),
    "a batch that is counted": ({"[2,3,": "[N,3,"}, [*WINDOWS, *IN_PLANE]),
    "a step": ({"axes)": "axes, ones)"}, [*WINDOWS, *IN_PLANE]),
    "pads of zero": ({"storage_order = 0": "pads = [0, 0, 0, 0]"}, [*WINDOWS, *IN_PLANE]),
    "single elements that are read": (
        {"(index": "(single, index"}, [*WINDOWS, *IN_PLANE[:-1], "MaxPool", "Reshape"]),
    "indices in the whole tensor": ({"(index": "(whole, index"}, [*WINDOWS, *SHIFTED, "Reshape"]),
    "another node that reads them": (
        {"(index": "(other, index", "index =": "other = Neg(whole) index ="},
        [*WINDOWS, *SHIFTED, "Neg", "Reshape"]),
    "a node that reads the first ones": (
        {"(index": "(other, index", "index =": "other = Neg(start) index ="}, [*WINDOWS, *IN_PLANE, "Neg", "Reshape"]),
    "a node that reads the single ones": (
        {"(index": "(other, index", "index =": "other = Neg(each) index ="},
        [*WINDOWS, *IN_PLANE[:-1], *WINDOWS[:3], *SHIFTED, "Neg", "Reshape"]),
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
    "any number of channels": ({"[2,3,": "[2,C,"}, [*WINDOWS, *IN_PLANE]),
    "any height": ({",8,": ",H,"}, [*TABLE, *WINDOWS, "Reshape", "Gather", "Add", "Reshape"]),
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


ANY_SIZE = {
    "no overlap": ("N,3,H,W", "kernel_shape = [2, 2], strides = [2, 2]"),
    "a known height": ("2,C,6,W", "kernel_shape = [3, 2], strides = [3, 2], pads = [0, 0, 0, 0]"),
    "overlap": ("2,3,H,W", 'kernel_shape = [3, 2], strides = [2, 1], auto_pad = "VALID"'),
    "dilations": ("N,C,H,W", "kernel_shape = [2, 3], dilations = [3, 2]"),
    "one axis": ("N,C,W", "kernel_shape = [3], strides = [3]"),
    "three axes": ("N,2,H,4,W", "kernel_shape = [2, 1, 3], strides = [2, 1, 3]"),
}


def in_planes(sizes: str, attributes: str, element: str = "float") -> ModelProto:
    """A pool with its positions in planes, as PyTorch's exporter writes it."""
    rank = sizes.count(",") - 1
    bounds = {"zeros": [0] * rank, "ones": [1] * rank, "axes": range(2, 2 + rank)}
    numbers = [f"int64[{rank}] {name} = {{{', '.join(map(str, each))}}}" for name, each in bounds.items()]
    nodes = IN_PLANES.replace("kernel_shape = [2, 2], strides = [2, 2]", attributes).replace("[1, 1]", str([1] * rank))
    return parse(f"g ({element}[{sizes}] X) => (y, index) <{', '.join(numbers)}> {{ {nodes} }}", opset=18)


@pytest.mark.parametrize("element", ["float", "float16"])
@pytest.mark.parametrize(("sizes", "attributes"), ANY_SIZE.values(), ids=ANY_SIZE)
def test_positions_in_planes_of_any_size(sizes: str, attributes: str, element: str) -> None:
    model = in_planes(sizes, attributes, element)
    export = export_cann(model)
    assert export.report.obstacles == ()
    assert not {"MaxPool", "Sub"} & set(operators(export.model))
    onnx.shape_inference.infer_shapes(export.model, check_type=True, strict_mode=True)
    for given in (
        {"N": 2, "C": 3, "H": 8, "W": 6},
        {"N": 1, "C": 1, "H": 4, "W": 9},
        {"N": 3, "C": 2, "H": 7, "W": 13},
    ):
        shape = [given.get(size) or int(size) for size in sizes.split(",")]
        x = ties(*shape).astype({"float": np.float32, "float16": np.float16}[element])
        for found, wanted in zip(run(export.model, {"X": x}), run(model, {"X": x}), strict=True):
            assert_same_bits(found, wanted)
    assert verify(model, export.model).differences == ()
    assert export_cann(export.model).model == export.model


OTHERS = {
    "padding": ("N,3,H,W", "kernel_shape = [2, 2], strides = [2, 2], pads = [0, 1, 0, 0]"),
    "same padding": ("N,3,H,W", 'kernel_shape = [2, 2], strides = [2, 2], auto_pad = "SAME_UPPER"'),
    "windows that may end behind the input": ("N,3,H,W", "kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1"),
    "another order": ("N,3,H,W", "kernel_shape = [2, 2], strides = [2, 2], storage_order = 1"),
    "a window that would fill a memory": ("N,3,H,W", "kernel_shape = [65536, 65536]"),
    "an axis that would fill a memory": ("N,3,H,1099511627776", "kernel_shape = [2, 2]"),
    "strides of another length": ("N,3,H,W", "kernel_shape = [2, 2], strides = [2]"),
}


@pytest.mark.parametrize(("sizes", "attributes"), OTHERS.values(), ids=OTHERS)
def test_other_windows_of_any_size_stay(sizes: str, attributes: str) -> None:
    export = export_cann(in_planes(sizes, attributes))
    assert {found.code for found in export.report.obstacles} >= {"kept-indices"}
    assert operators(export.model).count("MaxPool") == 2


def test_positions_over_a_size_that_no_input_of_numbers_has_stay() -> None:
    model = in_planes(*ANY_SIZE["no overlap"], "bool")
    model.graph.input.append(onnx.helper.make_tensor_value_info("of_height", onnx.TensorProto.FLOAT, ["H"]))
    model.graph.node.insert(0, onnx.helper.make_node("Cast", ["X"], ["x"], to=onnx.TensorProto.FLOAT))
    for node in model.graph.node[1:3]:
        node.input[0] = "x"
    model.graph.node.append(onnx.helper.make_node("Transpose", ["y"], ["z"]))  # which is rewritten
    export = export_cann(model)
    assert [found.code for found in export.report.obstacles] == ["kept-indices", "kept-indices"]
    assert operators(export.model) == ["Cast", "MaxPool", "MaxPool", "Slice", "Sub", "Transpose"]


@pytest.mark.parametrize(("sizes", "attributes"), list(OTHERS.values())[:-1], ids=list(OTHERS)[:-1])
def test_verify_sees_that_other_windows_are_not_those_of_the_table(sizes: str, attributes: str) -> None:
    assert not verify(in_planes(sizes, attributes), export_cann(in_planes(*ANY_SIZE["no overlap"])).model).proven


def test_verify_sees_other_elements_of_a_window_of_any_size() -> None:
    model = in_planes(*ANY_SIZE["no overlap"])
    export = export_cann(model).model
    [_, taps] = [tensor for tensor in export.graph.initializer if "/taps" in tensor.name]
    taps.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(taps)[..., ::-1].copy(), taps.name))
    assert not verify(model, export).proven


@pytest.mark.parametrize(
    ("sizes", "window", "pad"),
    [("1,1,4096,4096", 3, 1), ("1,1,4096,4096", 3, 0), ("1,1,4611686018427387904,2", 1, 1)],
)
def test_windows_that_would_fill_a_memory_stay(sizes: str, window: int, pad: int) -> None:
    windows = f"kernel_shape = [{window}, {window}], strides = [1, 1], pads = [0, 0, {pad}, 0]"
    found = export_cann(pooled(sizes, windows))
    assert operators(found.model) == ["MaxPool"]
    assert [obstacle.code for obstacle in found.report.obstacles] == ["kept-indices"]


@pytest.mark.parametrize("sizes", ["2147483647,4,6,6", "2,3,21474836470,21474836470"])
def test_planes_that_would_fill_a_memory_stay(sizes: str) -> None:
    found = export_cann(pooled(sizes, "kernel_shape = [1, 1], strides = [2147483647, 2147483647]"))
    assert operators(found.model) == ["MaxPool"]
    assert [obstacle.code for obstacle in found.report.obstacles] == ["kept-indices"]


def test_a_pool_of_the_maxima_of_a_pool() -> None:
    pools = "y, I = MaxPool<kernel_shape = [2, 1]>(X) Z, J = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(y)"
    model = parse(f"g (float[2,3,9,6] X) => (I, Z, J) {{ {pools} }}", opset=18)
    export = export_cann(model)
    assert export.report.obstacles == ()
    x = ties(2, 3, 9, 6)
    for found, wanted in zip(run(export.model, {"X": x}), run(model, {"X": x}), strict=True):
        assert_same_bits(found, wanted)
    assert verify(model, export.model).proven


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
