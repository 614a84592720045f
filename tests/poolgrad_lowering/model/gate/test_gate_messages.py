# SPDX-License-Identifier: Apache-2.0

"""What a message says is wrong with each bad model, word by word."""

from __future__ import annotations

import onnx
import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper

from poolgrad_lowering import InvalidModelError, lower
from tests.bad_models import BAD, f, function, pool, replaced, training
from tests.pool_graphs import parse

_ONNX, _NEWEST = f"onnx {onnx.__version__}", onnx.defs.onnx_opset_version()
WHAT = {
    "no graph": "it has no graph",
    "no ir version": "its ir_version is 0",
    "a newer format": f"its ir_version is 99; {_ONNX} knows {onnx.IR_VERSION}",
    "no outputs": "its graph has no outputs",
    "no imports": "it imports no operator set",
    "no import of ONNX": "domain '' is not imported",
    "another domain": "domain 'l' is not imported",
    "function without import": "domain '' is not imported",
    "version 0": "domain '' is imported in version 0",
    "a negative version": "domain '' is imported in version -7",
    "a newer version": f"ONNX's operators are imported in version 1099511627776; {_ONNX} knows {_NEWEST}",
    "a newer version in a function": f"ONNX's operators are imported in version 999; {_ONNX} knows {_NEWEST}",
    "two versions": "domain '' is imported in versions 16 and 9",
    "two versions by two names": "domain '' is imported in versions 16 and 9",
    "a value not in UTF-8": "the name b'\\xff\\xfe' is not UTF-8 text",
    "a node not in UTF-8": "the name b'\\xffeak' is not UTF-8 text",
    "an operator not in UTF-8": "the name b'\\xffeakyRelu' is not UTF-8 text",
    "an attribute not in UTF-8": "the name b'\\xfflpha' is not UTF-8 text",
    "an import not in UTF-8": "the name b'\\xff\\xfe' is not UTF-8 text",
    "a function not in UTF-8": "the name b'\\xff\\xfe\\xff' is not UTF-8 text",
    "an output made twice": "the value 'A' is already defined",
    "an output twice at one node": "the value 'Y' is already defined",
    "an output named as an input": "the value 'X' is already defined",
    "an output named as an initializer": "the value 'W' is already defined",
    "an input twice": "the name 'X' is given twice",
    "an initializer twice": "the name 'W' is given twice",
    "a sparse initializer of a dense one's name": "the name 'W' is given twice",
    "a function's input twice": "the name 'P' is given twice",
    "a branch that hides a value": "the value 'A' shadows a value outside the subgraph",
    "a branch that hides an input": "the value 'X' shadows a value outside the subgraph",
    "nobody makes an input": "the value 'nobody' is not defined",
    "nobody makes an output": "the value 'Z' is not defined",
    "nobody makes a captured value": "the value 'nobody' is not defined",
    "nobody makes a branch's output": "the value 'nobody' is not defined",
    "a function reads the graph": "the value 'X' is not defined",
    "a branch's value is its own": "the value 'T' is not defined",
    "a training step reads what is not there": "the value 'nobody' is not defined",
    "a node that needs itself": "its nodes depend on each other: 'Y' → 'Y'",
    "a cycle": "its nodes depend on each other: 'B' → 'A' → 'B'",
    "a cycle by a branch": "its nodes depend on each other: 'choose' → 'choose'",
    "a cycle in a branch": "its nodes depend on each other: 'B' → 'T' → 'B'",
    "a cycle in a function": "its nodes depend on each other: 'B' → 'Q' → 'B'",
    "a function that calls itself": "function l.f calls function l.f",
    "functions that call each other": "function l.f calls function l.h calls function l.f",
    "a function twice": "function 'l.f' is defined 2 times",
    "too many levels": "it is more than 32 levels deep",
    "more levels than protobuf has": "it is more than 32 levels deep",
    "too many calls in calls": "function l.f7 nests 33 levels, more than 32",
    "calls that multiply": "function l.f11 has 4782967 nodes, more than 4194304",
    "no operator": "it has no op_type",
    "an attribute without name": "an attribute has no name",
    "an attribute twice": "attribute 'alpha' is given twice",
    "an attribute without type": "attribute 'alpha' has a type that ONNX does not define",
    "an attribute of another type": "attribute 'alpha' is of type INTS, but holds f",
    "an attribute of two types": "attribute 'alpha' is of type FLOAT, but holds f, i",
    "a tensor attribute without tensor": "attribute 'alpha' is of type TENSOR, but holds nothing",
    "a subgraph behind another type": "attribute 'alpha' is of type FLOAT, but holds f, g",
    "a reference with a value": "attribute 'alpha' is of type FLOAT and comes from the function's caller, but holds f",
    "a pool's attribute of another type": "attribute 'strides' is not a list of integers",
    "a kernel of 0": "attribute 'kernel_shape' has the value 0",
    "a negative kernel": "attribute 'kernel_shape' has the value -2",
    "a huge kernel": "attribute 'kernel_shape' has the value 4611686018427387904",
    "a stride of 0": "attribute 'strides' has the value 0",
    "a dilation of 0": "attribute 'dilations' has the value 0",
    "negative pads": "attribute 'pads' has the value -1",
    "no element type": "its element type is 0, which ONNX does not define",
    "an unknown element type": "its element type is 99, which ONNX does not define",
    "a negative size": "its size -2 is negative",
    "more elements than can be": "its sizes multiply to more than 2^63 − 1 elements",
    "no data": "it has 0 entries of data, but 2 elements take 2",
    "too few bytes": "it has 7 bytes of data, but 2 elements take 8",
    "too many bytes": "it has 12 bytes of data, but 2 elements take 8",
    "too few elements": "it has 1 entries of data, but 2 elements take 2",
    "too many elements": "it has 3 entries of data, but 2 elements take 2",
    "data twice": "it has data in raw_data and in float_data",
    "data of another type": "it has data in int64_data, but its element type is stored in float_data",
    "text as bytes": "it holds text, which must not be in raw_data",
    "a constant without data": "it has 0 entries of data, but 2 elements take 2",
    "a sparse tensor without data": "it has 0 entries of data, but 1 elements take 1",
    "a sparse tensor of negative size": "its size -1 is negative",
    "a training step's weights without data": "it has 0 entries of data, but 1 elements take 1",
    "no location": "its external data is in '', which is no file",
    "an empty location": "its external data is in '', which is no file",
    "two locations": "its external data has more than one location",
    "an absolute location": "its external data is in '/etc/passwd', which is absolute",
    "a location above": "its external data is in '../w.bin', which leaves the model's folder",
    "a location above, on the way": "its external data is in 'a/../../w.bin', which leaves the model's folder",
    "a location above, on Windows": "its external data is in 'a\\\\..\\\\..\\\\w.bin', which leaves the model's folder",
    "a location on a drive": "its external data is in 'C:w.bin', which is absolute",
    "a location with a null": "its external data is in 'w\\x00.bin', which has a null character",
    "an address in memory": "its external data is in '*/_ORT_MEM_ADDR_/*', which is an address in memory",
    "a location not in UTF-8": "its external data is in b'\\xff\\xfe\\xff', which is not UTF-8 text",
    "a negative offset": "the offset of its external data is '-8'",
    "an absurd offset": "the offset of its external data is '9223372036854775808'",
    "an offset in words": "the offset of its external data is 'twelve'",
    "two offsets": "its external data has more than one offset",
    "another length": "its external data is 4 bytes long, but its elements take 8",
    "data inside and outside": "its data is external, but it also has data in the model or holds text",
    "text outside": "its data is external, but it also has data in the model or holds text",
}


def test_every_bad_model_has_a_message() -> None:
    assert WHAT.keys() == BAD.keys()


@pytest.mark.parametrize("name", WHAT)
def test_what_is_wrong(name: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        lower(BAD[name].model)
    assert caught.value.what == WHAT[name]


def branch(body: str, *, before: str = "", after: str = "") -> ModelProto:
    """A graph with a node that holds a branch of these nodes."""
    return parse(
        f"""g (float[2] X, bool c) => (float[2] Y) <float[2] W = {{1.0, 2.0}}> {{
            {before}
            [choose] Y = If(c) <then_branch = t () => (T) {{ {body} }}, else_branch = e () => (E) {{ E = Neg(X) }}>
            {after}
        }}"""
    )


def changed_pool(*attributes: AttributeProto) -> ModelProto:
    """A graph with a pool that has these attributes too."""
    model = pool()
    model.graph.node[0].attribute.extend(attributes)
    return model


def with_default(default: AttributeProto) -> ModelProto:
    """A graph whose function has this default of an attribute."""
    model = function(f("Q = Neg(P)"))
    model.functions[0].attribute_proto.append(default)
    return model


def sparse_constant(dims: list[int], indices: TensorProto) -> ModelProto:
    stored = helper.make_sparse_tensor(helper.make_tensor("", TensorProto.FLOAT, [1], [1.0]), indices, dims)
    model = parse("g () => (float[4] Y) { Y = Constant<value = float[1] {1.0}>() }")
    model.graph.node[0].attribute[0].CopyFrom(helper.make_attribute("sparse_value", stored))
    return model


ONE = helper.make_tensor("", TensorProto.INT64, [1], [3])
MORE: dict[str, ModelProto] = {
    "main/choose.then_branch, node 0 'X' (Relu): the value 'X' shadows a value outside the subgraph": branch(
        "X = Relu(W) T = Neg(X)"
    ),
    "main/choose.then_branch, node 1 'W' (Relu): the value 'W' shadows a value outside the subgraph": branch(
        "T = Relu(X) W = Relu(X) A = Relu(X)", before="A = Neg(X)"
    ),
    "main/choose.then_branch, node 1 'A' (Relu): the value 'A' shadows a value outside the subgraph": branch(
        "T = Relu(X) A = Relu(X)", before="A = Neg(X)"
    ),
    "training[0].algorithm/W1.then_branch, node 0 'A' (Neg): the value 'A' shadows a value outside the subgraph": (
        training("c = IsNaN(W) W1 = If(c) <then_branch = t () => (A) { A = Neg(W) }>")
    ),
    "main: the name 'Z' is given twice": parse("g (float X, float Z, float Z) => (float Y) { Y = Neg(X) }"),
    "main: the name b'\\xff\\xfe' is not UTF-8 text": replaced(
        parse("g (float[2] X) => (float[2] Y) { Y = Relu(ZZ) ZZ = Relu(X) }"), b"ZZ", b"\xff\xfe"
    ),
    "main, node 0 'Y' (MaxPool): attribute 'beta' is given twice": changed_pool(
        helper.make_attribute("beta", 1), helper.make_attribute("beta", 2)
    ),
    "main, node 0 'Y' (MaxPool): attribute 'strides' has the value 0": changed_pool(
        helper.make_attribute("auto_pad", "VALID"), helper.make_attribute("strides", [1, 0])
    ),
    "main: its nodes depend on each other: 'C' → 'B' → 'A' → 'C'": parse(
        "g (float X) => (float A) { A = Add(X, B) B = Neg(C) C = Neg(A) }"
    ),
    "main: its nodes depend on each other: 'D' → 'C' → 'B' → 'A' → …": parse(
        "g (float X) => (float A) { A = Add(X, B) B = Neg(C) C = Neg(D) D = Neg(A) }"
    ),
    "function l.f: a default of its attributes is a graph": with_default(
        helper.make_attribute("a", helper.make_graph([], "g", [], []))
    ),
    "function l.f: attribute 'a' is of type INT, but holds f": with_default(
        AttributeProto(name="a", type=AttributeProto.INT, f=1.0)
    ),
    "main, node 0 'Y' (Constant), attribute 'sparse_value': its size -4 is negative": sparse_constant([-4], ONE),
    "main, node 0 'Y' (Constant), attribute 'sparse_value': it has 0 entries of data, but 1 elements take 1": (
        sparse_constant([4], TensorProto(data_type=TensorProto.INT64, dims=[1]))
    ),
}


@pytest.mark.parametrize("message", MORE)
def test_where_it_is_and_what(message: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        lower(MORE[message])
    assert f"{caught.value.where}: {caught.value.what}" == message
