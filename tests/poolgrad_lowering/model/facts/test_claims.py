# SPDX-License-Identifier: Apache-2.0

"""The model on which onnx's inference runs: with what runtimes check and what is computed, without any other claim."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.external import ModelFolder
from poolgrad_lowering.model.ir.graphs import subgraphs
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Value
from tests.external_models import DATA, external
from tests.pool_graphs import parse
from tests.poolgrad_lowering.model.facts.inferred import inferred, known

FUNCTIONS = """<domain: "local", opset_import: ["": 16, "local": 1]> Inner (x) => (z) {
    c = Constant<value = bool {1}>()
    z = If(c) <then_branch = t () => (T) { y = Softplus(x)  T = Relu(y) }, else_branch = e () => (E) { E = Neg(x) }>
}
<domain: "local", opset_import: ["": 16, "local": 1]> Outer (x) => (z) { y = local.Inner(x)  z = Exp(y) }
<domain: "", opset_import: ["": 16]> Mine (x) => (z) { z = Exp(x) }"""
MODELS = {
    "a chain": "a = Softplus(X)  b = Transpose(a)  Y = Flatten<axis = 2>(b)",
    "weights": "a = Conv(X, W)  Y = Relu(a)",
    "a Reshape": "a = Reshape(X, to)  Y = Softplus(a)",
    "a default": "a = Reshape(X, given)  Y = Softplus(a)",
    "branches": """a = Softplus(X)  Y = If(c) <
        then_branch = t () => (T) { u = Neg(a)  T = Relu(u) },
        else_branch = e () => (E) { E = If(c) <then_branch = v () => (V) { V = Abs(a) },
                                               else_branch = w () => (U) { U = Exp(X) }> }>""",
    "a loop": """a = Softplus(X)
        Y, s = Loop(n, c, a) <body = b (i, k, p) => (q, r, o) { q = Identity(k)  u = Neg(p)  r = Relu(u)  o = Exp(u) }>
        z = Softplus(s)""",
    "functions": "a = local.Outer(X)  b = local.Inner(W)  Y = Mine(a)",
    "a sequence": "q = SequenceConstruct(X, W)  a = SequenceAt(q, n)  Y = Softplus(a)",
    "an optional": "o = Optional(X)  a = OptionalGetElement(o)  Y = Softplus(a)",
    "two outputs": "a, i = MaxPool<kernel_shape = [2, 2]>(X)  Y = Softplus(i)",
}


def model_of(nodes: str) -> ModelProto:
    model = parse(
        f"""g (float[N,3,8,8] X, bool c, int64[2] given) => (Y) <int64 n = {{1}}, int64[2] to = {{3, -1}},
            int64[2] given = {{4, -1}}> {{ {nodes} }}""",
        ir=10,
        imports='"local": 1, "other": 1',
        functions=FUNCTIONS,
    )
    weights = numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "W")
    model.graph.initializer.append(weights)
    return model


def claim(values: Iterable[str]) -> list[ValueInfoProto]:
    """Declarations of a shape that no value of these models has."""
    return [
        onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, [7, "K", 11, 13, 17, 19]) for name in values if name
    ]


def with_claims(model: ModelProto) -> ModelProto:
    """The model with a false shape for every value that is computed, in every graph and function."""
    claimed = ModelProto.FromString(model.SerializeToString())
    add_claims(claimed.graph, {name for name, (kind, _) in inferred(model).items() if kind is not None})
    for function in claimed.functions:
        function.value_info.extend(claim(name for node in function.node for name in node.output))
        claim_inside(function.node)
    return claimed


def add_claims(graph: GraphProto, tensors: set[str] | None = None) -> None:
    outputs = {value.name for value in graph.output}
    for value in graph.output:
        value.type.tensor_type.shape.CopyFrom(claim(["any"])[0].type.tensor_type.shape)
    names = {name for node in graph.node for name in node.output} - outputs
    graph.value_info.extend(claim(sorted(names if tensors is None else names & tensors)))
    claim_inside(graph.node)


def claim_inside(nodes: Iterable[NodeProto]) -> None:
    for graph in (graph for node in nodes for _, graph in subgraphs(node.attribute)):
        add_claims(graph)
        for value in graph.input:
            value.type.tensor_type.shape.CopyFrom(claim(["any"])[0].type.tensor_type.shape)


@pytest.mark.parametrize("nodes", MODELS.values(), ids=MODELS)
def test_claims_change_nothing(nodes: str) -> None:
    """What is known without them is what onnx infers, and more."""
    model = model_of(nodes)
    found = known(model)
    for name, (kind, sizes) in inferred(model).items() if "given" not in nodes and "Mine" not in nodes else ():
        own_kind, own = found[name]
        assert own_kind == kind
        assert sizes is None or own is not None
        assert all(size in (mine, "?") for mine, size in zip(own or (), sizes or (), strict=sizes is not None))
    assert known(with_claims(model)) == found


@pytest.mark.parametrize("place", ["inner", "output"])
@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("other.Foo", ["2", "K"]),
        ("other.Relu", ["2", "K"]),
        ("Foo", ["2", "K"]),
        ("Relu", ["N", "3", "8", "8"]),
        ("ai.onnx.Relu", ["N", "3", "8", "8"]),
        ("local.Inner", ["N", "3", "8", "8"]),
        ("Mine", None),
        ("ai.onnx.Mine", None),
    ],
)
def test_whose_results_are_declared(operator: str, place: str, expected: list[str] | None) -> None:
    """Only those of operators that neither onnx nor the model defines."""
    declared, name = ("float[2,K] a", "a") if place == "inner" else ("", "Y")
    nodes = f"a = {operator}(X)  Y = Softplus(a)" if place == "inner" else f"Y = {operator}(X)"
    model = model_of(nodes)
    domain, _, op_type = operator.rpartition(".")
    model.graph.node[0].domain, model.graph.node[0].op_type = domain, op_type
    value = onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, "K"])
    if declared:
        model.graph.value_info.append(value)
    else:
        model.graph.output[0].CopyFrom(value)
    found = known(model)
    assert found[name][1] == expected
    assert found["Y"][1] == expected


@pytest.mark.parametrize("place", ["branch", "inner branch", "function"])
def test_bounds_of_slices(place: str, copies: list[ModelProto]) -> None:
    """None is left, wherever the Slice is; its optional inputs stay absent in number."""
    inner = "T = Slice(X, s, e, a, s)"
    nodes = {
        "branch": f"Y = If(c) <then_branch = t () => (T) {{ {inner} }}, else_branch = e () => (E) {{ E = Neg(X) }}>",
        "inner branch": f"""Y = If(c) <then_branch = t () => (V) {{ V = If(c) <
            then_branch = t2 () => (T) {{ {inner} }}, else_branch = e2 () => (D) {{ D = Neg(X) }}> }},
            else_branch = e () => (E) {{ E = Neg(X) }}>""",
        "function": "Y = local.f(X, s, e, a)",
    }
    function = f'<domain: "local", opset_import: ["": 16]> f (X, s, e, a) => (T) {{ {inner} }}'
    model = parse(
        f"""g (float[2,3] X, bool c) => (Y)
        <int64[1] s = {{1}}, int64[1] e = {{2}}, int64[1] a = {{1}}> {{ {nodes[place]} }}""",
        imports='"local": 1',
        functions=function if place == "function" else "",
    )
    before = model.SerializeToString()
    found = known(model)
    assert model.SerializeToString() == before
    slices = [node for node in all_nodes(copies[0]) if node.op_type == "Slice"]
    assert [list(node.input) for node in slices] == [["X", "", "", "", ""]]
    assert found["Y"][0] == TensorProto.FLOAT


def all_nodes(model: ModelProto) -> list[NodeProto]:
    """The nodes of all graphs and functions."""
    found = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    for node in found:
        found += [inner for _, graph in subgraphs(node.attribute) for inner in graph.node]
    return found


@pytest.mark.parametrize(("kind", "read"), [("INT64", True), ("INT32", True), ("FLOAT", False), ("UINT64", False)])
def test_values_in_external_data(kind: str, read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Biases are not read."""
    model = parse("g (float[2] X) => (Y) { Y = Pad(X, w) }")
    model.graph.initializer.append(external("w", [9], kind=TensorProto.DataType.Value(kind)))
    (tmp_path / DATA).write_bytes(bytes(72))
    asked: list[str] = []
    constant = Facts.constant
    monkeypatch.setattr(Facts, "constant", lambda facts, value: asked.append(value.name) or constant(facts, value))
    index = ModelIndex(model)
    Facts(index, ExternalData(ModelFolder(tmp_path))).shape(Value(index.scopes[0], "Y"))
    assert ("w" in asked) is read


@pytest.mark.parametrize("error", [onnx.shape_inference.InferenceError, RuntimeError, ValueError, MemoryError])
def test_inference_that_fails(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known then."""

    def fails(*_: object) -> None:
        raise error("why")

    model = model_of("a = Softmax(X)  b = GlobalMaxPool(X)  Y = local.Inner(b)")
    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", fails)
    monkeypatch.setattr(onnx.shape_inference, "infer_node_outputs", fails)
    assert [sizes for _, sizes in known(model).values()] == [["N", "3", "8", "8"], None, None]
