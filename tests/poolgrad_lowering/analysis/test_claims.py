# SPDX-License-Identifier: Apache-2.0

"""The model on which onnx's inference runs: with what runtimes check and what is computed, without any other claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, numpy_helper

from poolgrad_lowering import lower
from poolgrad_lowering.analysis.inference import InferredTypes, is_unnamed
from poolgrad_lowering.dialect.schemas import registered_schemas
from poolgrad_lowering.io.external_data import ExternalData
from poolgrad_lowering.ir.dims import Dim
from poolgrad_lowering.ir.external import ModelFolder
from poolgrad_lowering.ir.index import ModelIndex, subgraphs
from tests.external_models import DATA, external
from tests.pool_graphs import ort_gradient, parse

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


def types(model: ModelProto) -> dict[str, TypeProto]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    return {value.name: value.type for value in (*graph.value_info, *graph.output)}


def claim(values: Iterable[str]) -> list[ValueInfoProto]:
    """Declarations of a shape that no value of these models has."""
    return [
        onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, [7, "K", 11, 13, 17, 19]) for name in values if name
    ]


def with_claims(model: ModelProto) -> ModelProto:
    """The model with a false shape for every value that is computed, in every graph and function."""
    claimed = ModelProto.FromString(model.SerializeToString())
    kinds = types(model)
    add_claims(claimed.graph, {name for name, kind in kinds.items() if kind.HasField("tensor_type")})
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
    for graph in (graph for node in nodes for attribute in node.attribute for _, graph in subgraphs(attribute)):
        add_claims(graph)
        for value in graph.input:
            value.type.tensor_type.shape.CopyFrom(claim(["any"])[0].type.tensor_type.shape)


def shapes(found: dict[str, TypeProto]) -> dict[str, list[int | str] | None]:
    return {
        name: [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in kind.tensor_type.shape.dim]
        if kind.tensor_type.HasField("shape")
        else None
        for name, kind in found.items()
    }


@pytest.mark.parametrize("nodes", MODELS.values(), ids=MODELS)
def test_claims_change_nothing(nodes: str) -> None:
    model = model_of(nodes)
    without = InferredTypes(ModelIndex(model)).all()
    if "given" not in nodes:
        assert shapes(without) == shapes(types(model))
    assert without.keys() == types(model).keys()
    assert shapes(InferredTypes(ModelIndex(with_claims(model))).all()) == shapes(without)


def test_a_default_is_no_constant() -> None:
    found = shapes(InferredTypes(ModelIndex(model_of(MODELS["a default"]))).all())["a"]
    assert found is not None
    assert len(found) == 2
    assert 4 not in found


@pytest.mark.parametrize("place", ["inner", "output"])
@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("other.Foo", [2, "K"]),
        ("other.Relu", [2, "K"]),
        ("Foo", [2, "K"]),
        ("Relu", ["N", 3, 8, 8]),
        ("ai.onnx.Relu", None),  # which onnx does not find
        ("local.Inner", ["N", 3, 8, 8]),
        ("Mine", ["N", 3, 8, 8]),
        ("ai.onnx.Mine", None),
    ],
)
def test_whose_results_are_declared(operator: str, place: str, expected: list[object] | None) -> None:
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
    found = shapes(InferredTypes(ModelIndex(model)).all())
    assert found.get(name) == expected
    assert found.get("Y") == expected


@pytest.mark.parametrize("comes_first", [False, True])
def test_a_result_that_is_declared_twice_and_once_without_a_type(comes_first: bool) -> None:
    model = model_of("a = other.Foo(X)  Y = Softplus(a)")
    typed = onnx.helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, "K"])
    model.graph.value_info.extend([typed, ValueInfoProto(name="a")][:: 1 if comes_first else -1])
    assert shapes(InferredTypes(ModelIndex(model)).all())["Y"] == [2, "K"]


ELEMENTS: dict[str, Callable[[TypeProto], TypeProto.Tensor]] = {
    "seq(float[2,3])": lambda kind: kind.sequence_type.elem_type.tensor_type,
    "optional(float[2,3])": lambda kind: kind.optional_type.elem_type.tensor_type,
    "optional(seq(float[2,3]))": lambda kind: kind.optional_type.elem_type.sequence_type.elem_type.tensor_type,
    "map(int64, float[2,3])": lambda kind: kind.map_type.value_type.tensor_type,
    "float[2,3]": lambda kind: kind.tensor_type,
}


@pytest.mark.parametrize("kind", [*ELEMENTS, "sparse_tensor(float[2,3])"])
@pytest.mark.parametrize("place", ["input", "output"])
def test_shapes_inside_of_types(kind: str, place: str, copies: list[ModelProto]) -> None:
    """Runtimes check the shape of an input that is a tensor, and no other."""
    taken, made = (f"{kind} X", "Y") if place == "input" else ("float[5] X", f"{kind} Y")
    model = parse(f"g ({taken}) => ({made}) {{ Y = Identity(X) }}")
    InferredTypes(ModelIndex(model)).all()
    found = (copies[0].graph.input if place == "input" else copies[0].graph.output)[0].type
    inner = found.sparse_tensor_type if kind.startswith("sparse") else ELEMENTS[kind](found)
    assert inner.elem_type == TensorProto.FLOAT
    assert inner.HasField("shape") is (kind == "float[2,3]" and place == "input")


@pytest.mark.parametrize("place", ["graph", "branch", "inner branch", "function"])
def test_bounds_of_slices(place: str, copies: list[ModelProto]) -> None:
    """None is left, wherever the Slice is; its optional inputs stay absent in number."""
    inner = "T = Slice(X, s, e, a, s)"
    nodes = {
        "graph": f"{inner}  Y = Neg(T)",
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
    found = InferredTypes(ModelIndex(model)).all()
    assert model.SerializeToString() == before
    slices = [node for node in all_nodes(copies[0]) if node.op_type == "Slice"]
    assert [list(node.input) for node in slices] == [["X", "", "", "", ""]]
    assert found["Y"].tensor_type.elem_type == TensorProto.FLOAT


def all_nodes(model: ModelProto) -> list[NodeProto]:
    """The nodes of all graphs and functions."""
    found = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    for node in found:
        found += [inner for attribute in node.attribute for _, graph in subgraphs(attribute) for inner in graph.node]
    return found


@pytest.mark.parametrize(("size", "kept"), [(1 << 10, True), ((1 << 10) + 1, False)])
def test_values_that_shapes_may_follow_from(size: int, kept: bool, copies: list[ModelProto]) -> None:
    model = parse("g (float[2] X) => (Y) { Y = Relu(X) }")
    model.graph.node[0].input.append("w")
    model.graph.initializer.append(numpy_helper.from_array(np.ones((1, size), np.int8), "w"))
    InferredTypes(ModelIndex(model)).all()
    [tensor] = copies[0].graph.initializer
    assert (tensor.name, tensor.data_type, list(tensor.dims)) == ("w", TensorProto.INT8, [1, size])
    assert tensor.raw_data == (b"\1" * size if kept else b"")


@pytest.mark.parametrize(("kind", "read"), [("INT64", True), ("INT32", True), ("FLOAT", False), ("UINT64", False)])
def test_values_in_external_data(kind: str, read: bool, tmp_path: Path, copies: list[ModelProto]) -> None:
    """Biases are not read; what has no file has no value."""
    model = parse("g (float[2] X) => (Y) { Y = Relu(X) }")
    model.graph.node[0].input.append("w")
    model.graph.initializer.append(external("w", [2], kind=TensorProto.DataType.Value(kind)))
    stored = bytes(range(16))
    (tmp_path / DATA).write_bytes(stored)
    InferredTypes(ModelIndex(model), ExternalData(ModelFolder(tmp_path))).all()
    (tmp_path / DATA).unlink()
    InferredTypes(ModelIndex(model), ExternalData(ModelFolder(tmp_path))).all()
    InferredTypes(ModelIndex(model)).all()
    found = [copy.graph.initializer[0] for copy in copies]
    assert [tensor.raw_data for tensor in found] == [stored[: 8 if "32" in kind else 16] if read else b"", b"", b""]
    assert all((tensor.name, list(tensor.dims), tensor.data_location) == ("w", [2], 0) for tensor in found)


@pytest.mark.parametrize(("domain", "known"), [("", False), ("ai.onnx", False), ("other", True)])
def test_operators_that_the_model_defines_anew(domain: str, known: bool) -> None:
    """Onnx would infer the operator of its own."""
    model = model_of("a = Softplus(X)  Y = Transpose(a)")
    model.functions[2].domain, model.functions[2].name = domain, "Transpose"
    assert InferredTypes(ModelIndex(model)).all().keys() == ({"a", "Y"} if known else set())


def test_operators_that_the_process_has_registered_are_not_those_of_onnx() -> None:
    model = lower(ort_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])).model
    names = InferredTypes(ModelIndex(model)).all().keys()
    with registered_schemas():
        assert InferredTypes(ModelIndex(model)).all().keys() == names != set()


@pytest.mark.parametrize(
    ("dim", "expected"),
    [(Dim(2), False), (Dim.parse("N"), False), (Dim(1, ("unk__0",)), True), (Dim(2, ("N", "unk__1")), True)],
)
def test_names_that_inference_makes_up(dim: Dim, expected: bool) -> None:
    assert is_unnamed(dim) is expected


@pytest.mark.parametrize("error", [onnx.shape_inference.InferenceError, RuntimeError, ValueError, MemoryError])
def test_inference_that_fails(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: bytes) -> ModelProto:
        raise error("why")

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", fails)
    with caplog.at_level("INFO"):
        assert InferredTypes(ModelIndex(model_of(MODELS["a chain"]))).all() == {}
    assert caplog.messages == ["shape inference failed, undeclared shapes stay unknown: why"]
