# SPDX-License-Identifier: Apache-2.0

"""Graphs that GE takes: what the stand-in makes of them, and that it computes the right bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.atc import hand_made
from tests.harness.ge.checking import convert
from tests.harness.ge.driver import ONNX, AnyPlugin, Attribute, Plugin, Tensor
from tests.harness.ge.faults import GeError
from tests.harness.ge.parser import GeGraph, parse
from tests.harness.ge.prototypes import PROTOTYPES, RELEASES, SOCS, Soc
from tests.harness.ge.python_plugin import TVM, PythonPlugin
from tests.heads import head
from tests.oracles import assert_same_bits

TEXTS = [
    *((hand_made.A2, soc) for soc in SOCS),
    *((hand_made.ADAPTIVE, soc) for soc in SOCS),
    (hand_made.NEW, "ascend950"),
]
WINDOW = {"ksize": [1, 3, 3], "strides": [1, 2, 2], "pads": [0, 1, 1], "dilation": [1, 1, 1]}


def check(plugin: AnyPlugin, soc: Soc, text: str, *changes: tuple[str, str]) -> None:
    model = hand_made.parsed(text, *changes)
    found = convert(model, hand_made.feeds_of(model), plugin, soc)
    for name, expected in hand_made.right_results(model).items():
        assert_same_bits(found[name], expected)


@pytest.mark.parametrize(("text", "soc"), TEXTS)
def test_operators_compute_the_right_bits(plugin: AnyPlugin, text: str, soc: Soc) -> None:
    check(plugin, soc, text)


@pytest.mark.parametrize("kind", ["float16", "float"])
@pytest.mark.parametrize(("text", "soc"), [(hand_made.A2, "ascend910b"), (hand_made.NEW, "ascend950")])
def test_in_each_type(plugin: AnyPlugin, text: str, soc: Soc, kind: str) -> None:
    check(plugin, soc, text, ("float", kind))


@pytest.mark.parametrize("opset", [8, 11, 18])
def test_in_each_opset(plugin: AnyPlugin, opset: int) -> None:
    check(plugin, "ascend910b", hand_made.A2, ('"": 16', f'"": {opset}'))


def test_indices_of_32_and_of_64_bits_on_ascend950(plugin: AnyPlugin) -> None:
    check(plugin, "ascend950", hand_made.NEW, ("dtype=9", "dtype=3"))
    check(plugin, "ascend950", hand_made.A2, ("dtype=3", "dtype=9"))


def test_attributes_and_formats_are_those_of_ge(plugin: AnyPlugin) -> None:
    graph = parse(hand_made.parsed(hand_made.A2), plugin)
    site = operator(graph, "site")
    assert site.type == "MaxPool3DGradWithArgmax"
    assert site.key == "npu::1::MaxPool3DGradWithArgmax"
    assert {name: site.attributes[name] for name in WINDOW} == {
        name: Attribute("LIST_INT", value) for name, value in WINDOW.items()
    }
    assert site.attributes["ceil_mode"] == Attribute("BOOL", False)
    assert site.attributes["data_format"] == Attribute("STRING", "NCDHW")
    assert site.inputs == [Tensor(name, 30, 30) for name in ("x", "grad", "argmax")]
    assert site.outputs == [Tensor("y", 30, 30)]


def test_optional_attributes_have_the_prototypes_defaults(plugin: AnyPlugin) -> None:
    changes = [(", dilation=[1,1,1],\n    ceil_mode=0", ""), (', data_format="NCDHW"', "")]
    check(plugin, "ascend910b", hand_made.A2, *changes)


def test_ceil_mode_is_a_flag(plugin: AnyPlugin) -> None:
    graph = parse(hand_made.parsed(hand_made.A2, ("ceil_mode=0", "ceil_mode=1")), plugin)
    assert operator(graph, "pool").attributes["ceil_mode"] == Attribute("BOOL", True)


def test_the_adaptive_pool_has_a_list_and_a_number(plugin: AnyPlugin) -> None:
    pool = operator(parse(hand_made.parsed(hand_made.ADAPTIVE), plugin), "pool")
    assert pool.attributes["output_size"] == Attribute("LIST_INT", [1, 4, 5])
    assert pool.attributes["indices_dtype"] == Attribute("INT", 3)
    assert [tensor.name for tensor in pool.outputs] == ["y", "indices"]


def test_two_dimensional_operators_are_there_in_8_5_0(plugin: AnyPlugin) -> None:
    taken = {release: parse(hand_made.parsed(hand_made.NEW), plugin, release) for release in RELEASES}
    assert operator(taken["8.5.0"], "site").type == operator(taken["9.0.0"], "site").type


def test_an_initializer_wins_over_a_feed_of_the_same_name() -> None:
    text = head(16) + " g (float[2] x, float[2] w) => (float[2] y) {y = Add (x, w)}"
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([10, 20], np.float32), "w"))
    feeds = {"x": np.array([1, 2], np.float32), "w": np.array([0, 0], np.float32)}
    assert convert(model, feeds, PythonPlugin(), "ascend910b")["y"].tolist() == [11, 22]


def test_subgraphs_read_values_around_them() -> None:
    text = """ g (bool c, float[2] x) => (float[2] y) {
        [a] r = Relu (x)
        [b] y = If (c) <
            then_branch = t () => (float[2] p) {p = Neg (r)}, else_branch = e () => (float[2] q) {q = Add (r, r)}>
    }"""
    feeds: dict[str, Any] = {"c": np.array(False), "x": np.array([-1, 2], np.float32)}
    model = onnx.parser.parse_model(head(16) + text)
    assert convert(model, feeds, PythonPlugin(), "ascend910b")["y"].tolist() == [0, 4]


def test_the_library_registers_the_operators_that_have_prototypes(library: Plugin) -> None:
    ours = {key: row for key, row in PythonPlugin.registrations.items() if row.type in PROTOTYPES}
    assert {key: library.registrations[key] for key in ours} == ours
    assert {key.rpartition("::")[0] for key in library.registrations} == {"npu::1"}
    assert all((row.framework, row.imply) == (ONNX, TVM) for row in library.registrations.values())


def test_an_operator_without_a_kernel_is_no_fault_of_the_parser() -> None:
    graph = parse(hand_made.parsed(hand_made.NEW), PythonPlugin())
    with pytest.raises(GeError, match=r"EZ3003: .*ascend910b has no MaxPoolWithArgmaxV3"):
        convert(graph.model, hand_made.feeds_of(graph.model), PythonPlugin(), "ascend910b")


def operator(graph: GeGraph, name: str) -> Any:
    return next(each for each in graph.operators if each.node.name == name)
