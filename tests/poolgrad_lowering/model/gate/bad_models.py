# SPDX-License-Identifier: Apache-2.0

"""Models with one thing wrong each, by the fault that they are turned away with, and the place that has to be named."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from onnx import AttributeProto, ModelProto, SparseTensorProto, TensorProto, ValueInfoProto, helper

from poolgrad_lowering import Fault
from tests.pool_graphs import parse


class Bad(NamedTuple):
    """`only_here`: neither onnx.checker nor onnxruntime minds, with the reason why this package does."""

    fault: Fault
    where: str
    model: ModelProto
    only_here: str = ""


def changed(change: Callable[[ModelProto], object]) -> ModelProto:
    """A sound model with an initializer and an attribute, changed."""
    model = parse(
        """g (float[2] X) => (float[2] Y) <float[2] W = {1.0, 2.0}> {
            [leak] A = LeakyRelu<alpha = 0.5>(X)
            Y = Add(A, W)
        }"""
    )
    change(model)
    return model


def attribute(change: Callable[[AttributeProto], object]) -> ModelProto:
    return changed(lambda model: change(model.graph.node[0].attribute[0]))


def tensor(**fields: object) -> ModelProto:
    """With other fields in the initializer, all of whose data is gone first."""

    def change(model: ModelProto) -> None:
        held = model.graph.initializer[0]
        held.ClearField("float_data")
        for name, value in fields.items():
            if isinstance(value, list):
                held.ClearField(name)
                getattr(held, name).extend(value)
            else:
                setattr(held, name, value)

    return changed(change)


def external(*entries: tuple[str, str], **fields: object) -> ModelProto:
    """With the initializer's data outside."""
    model = tensor(data_location=TensorProto.EXTERNAL, **fields)
    for key, value in entries:
        model.graph.initializer[0].external_data.add(key=key, value=value)
    return model


def replaced(model: ModelProto, old: bytes, new: bytes) -> ModelProto:
    """The model with bytes of its file replaced by as many others."""
    return ModelProto.FromString(model.SerializeToString().replace(old, new))


def pool(**attributes: list[int] | str) -> ModelProto:
    model = parse("g (float[1,1,8,8] X) => (Y) { Y = MaxPool<kernel_shape = [2, 2]>(X) }")
    node = model.graph.node[0]
    for name, value in attributes.items():
        kept = [held for held in node.attribute if held.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(name, value)])
    return model


def function(body: str) -> ModelProto:
    """A graph that calls `l.f`, whose functions are given."""
    return parse("g (float[2] X) => (float[2] Y) { Y = l.f(X) }", imports='"l": 1', functions=body)


def f(body: str, name: str = "f", head: str = '"": 16, "l": 1') -> str:
    return f'<domain: "l", opset_import: [{head}]> {name} (P) => (Q) {{ {body} }}'


def nested(depth: int) -> ModelProto:
    """An If in an If in an If, each with a short other branch."""
    model = parse("g (float[2] X, bool c) => (float[2] Y) { Y = Relu(X) }")
    other = helper.make_graph([helper.make_node("Neg", ["X"], ["N"])], "o", [], [value("N")])
    graph = model.graph
    for level in range(depth, 0, -1):
        node = graph.node.add(op_type="If", input=["c"], output=[f"Y{level}"])
        node.attribute.append(helper.make_attribute("else_branch", other))
        graph = node.attribute.add(name="then_branch", type=AttributeProto.GRAPH).g
        graph.name = "b"
        graph.output.append(value(f"Y{level - 1}"))
    graph.node.add(op_type="Relu", input=["X"], output=["Y0"])
    return model


def value(name: str) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])


def calls(depth: int, each: int = 1) -> ModelProto:
    """Functions that call the next one, `each` times."""
    bodies = [
        f(" ".join(f"A{n} = l.f{level + 1}(P)" for n in range(each)) + " Q = Relu(A0)", f"f{level}")
        for level in range(depth)
    ]
    bodies.append(f("Q = Neg(P)", f"f{depth}"))
    return parse("g (float[2] X) => (float[2] Y) { Y = l.f0(X) }", imports='"l": 1', functions="\n".join(bodies))


def in_branch(branch: str) -> ModelProto:
    return parse(
        f"""g (float[2] X, bool c) => (float[2] Y) {{
            A = Neg(X)
            [choose] Y = If(c) <then_branch = {branch}, else_branch = no () => (float[2] E) {{ E = Relu(A) }}>
        }}"""
    )


def training(algorithm: str) -> ModelProto:
    model = changed(lambda _: None)
    model.training_info.add().algorithm.CopyFrom(parse(f"g () => (float[2] W1) {{ {algorithm} }}").graph)
    return model


def sparse(change: Callable[[SparseTensorProto], object]) -> ModelProto:
    model = changed(lambda _: None)
    values, indices = helper.make_tensor("S", 1, [1], [1.0]), helper.make_tensor("", 7, [1], [3])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    change(model.graph.sparse_initializer[0])
    return model


def parse_constant() -> ModelProto:
    model = parse("g (float[2] X) => (float[2] Y) { A = Constant<value = float[2] {1.0, 2.0}>() Y = Add(A, X) }")
    model.graph.node[0].attribute[0].t.ClearField("float_data")
    return model


def training_tensor() -> ModelProto:
    model = training("W1 = Add(W, W)")
    model.training_info[0].algorithm.initializer.add(name="T", data_type=TensorProto.FLOAT, dims=[1])
    return model


_LEAK = "main, node 0 'leak' (LeakyRelu)"
_OURS = "its exporter cannot have meant it, and which of the two is read is anybody's guess"

BAD: dict[str, Bad] = {
    # the model
    "no graph": Bad(Fault.NOT_ONNX, "the model", ModelProto(ir_version=8)),
    "no ir version": Bad(Fault.IR_VERSION, "the model", changed(lambda m: m.ClearField("ir_version"))),
    "a newer format": Bad(Fault.IR_VERSION, "the model", changed(lambda m: setattr(m, "ir_version", 99))),
    "no outputs": Bad(
        Fault.NO_OUTPUT, "the model", changed(lambda m: m.graph.ClearField("output")),
        "a graph without results does nothing"),
    # operator sets
    "no imports": Bad(Fault.DOMAIN_NOT_IMPORTED, "the model", changed(lambda m: m.ClearField("opset_import"))),
    "no import of ONNX": Bad(
        Fault.DOMAIN_NOT_IMPORTED, _LEAK, changed(lambda m: setattr(m.opset_import[0], "domain", "l"))
    ),
    "another domain": Bad(Fault.DOMAIN_NOT_IMPORTED, _LEAK, changed(lambda m: setattr(m.graph.node[0], "domain", "l"))),
    "function without import": Bad(
        Fault.DOMAIN_NOT_IMPORTED, "function l.f, node 0 'Q' (Neg)", function(f("Q = Neg(P)", head='"l": 1'))
    ),
    # operands
    "an input too few": Bad(
        Fault.INPUT_MISSING, "main, node 1 'Y' (Add)", changed(lambda m: m.graph.node[1].input.pop())
    ),
    "an input that is left out": Bad(
        Fault.INPUT_MISSING, _LEAK, changed(lambda m: m.graph.node[0].input.__setitem__(0, ""))
    ),
    "none of any number of inputs": Bad(
        Fault.INPUT_MISSING, "main, node 0 'Y' (Concat)", parse("g () => (float[2] Y) { Y = Concat<axis = 0>() }")
    ),
    "version 0": Bad(Fault.OPSET_VERSION, "the model", changed(lambda m: setattr(m.opset_import[0], "version", 0))),
    "a negative version": Bad(
        Fault.OPSET_VERSION, "the model", changed(lambda m: setattr(m.opset_import[0], "version", -7))
    ),
    "a newer version": Bad(
        Fault.OPSET_VERSION, "the model", changed(lambda m: setattr(m.opset_import[0], "version", 2**40))
    ),
    "a newer version in a function": Bad(
        Fault.OPSET_VERSION, "function l.f", function(f("Q = Neg(P)", head='"": 999'))),
    "two versions": Bad(
        Fault.OPSET_TWICE, "the model", changed(lambda m: m.opset_import.add(domain="", version=9)), _OURS
    ),
    "two versions by two names": Bad(
        Fault.OPSET_TWICE, "the model", changed(lambda m: m.opset_import.add(domain="ai.onnx", version=9)), _OURS
    ),
    # names
    "a value not in UTF-8": Bad(
        Fault.NAME_NOT_UTF8, "main",
        replaced(parse("g (float[2] VV) => (float[2] Y) { Y = Relu(VV) }"), b"VV", b"\xff\xfe"),
        "other languages' protobuf does"),
    "a node not in UTF-8": Bad(
        Fault.NAME_NOT_UTF8, "main", replaced(changed(lambda _: None), b"leak", b"\xffeak"),
        "other languages' protobuf does"),
    "an operator not in UTF-8": Bad(
        Fault.NAME_NOT_UTF8, "main", replaced(changed(lambda _: None), b"LeakyRelu", b"\xffeakyRelu")
    ),
    "an attribute not in UTF-8": Bad(
        Fault.NAME_NOT_UTF8, "main, node 0", replaced(changed(lambda _: None), b"alpha", b"\xfflpha")
    ),
    "an import not in UTF-8": Bad(
        Fault.NAME_NOT_UTF8, "the model",
        replaced(changed(lambda m: m.opset_import.add(domain="VV", version=1)), b"VV", b"\xff\xfe"),
        "other languages' protobuf does"),
    "a function not in UTF-8": Bad(
        Fault.NAME_NOT_UTF8, "the model", replaced(function(f("Q = Neg(P)", "FFF")), b"FFF", b"\xff\xfe\xff")
    ),
    "an output made twice": Bad(
        Fault.NAME_TWICE, "main, node 1 'A' (Neg)",
        parse("g (float[2] X) => (float[2] Y) { A = Relu(X) A = Neg(X) Y = Relu(A) }")),
    "an output twice at one node": Bad(
        Fault.NAME_TWICE, "main, node 0 'Y' (Split)", parse("g (float[2] X) => (Y) { Y, Y = Split(X) }")
    ),
    "an output named as an input": Bad(
        Fault.NAME_TWICE, "main, node 0 'X' (Relu)", parse("g (float[2] X) => (float[2] X) { X = Relu(X) }")
    ),
    "an output named as an initializer": Bad(
        Fault.NAME_TWICE, "main, node 0 'W' (Relu)",
        parse("g (float[2] X) => (float[2] W) <float W = {1.0}> { W = Relu(X) }")),
    "an input twice": Bad(
        Fault.NAME_TWICE, "main", parse("g (float[2] X, float[2] X) => (float[2] Y) { Y = Relu(X) }")
    ),
    "an initializer twice": Bad(
        Fault.NAME_TWICE, "main", changed(lambda m: m.graph.initializer.append(m.graph.initializer[0]))
    ),
    "a sparse initializer of a dense one's name": Bad(
        Fault.NAME_TWICE, "main", sparse(lambda s: setattr(s.values, "name", "W"))
    ),
    "a function's input twice": Bad(
        Fault.NAME_TWICE, "function l.f",
        function('<domain: "l", opset_import: ["": 16]> f (P, P) => (Q) { Q = Neg(P) }')),
    "a branch that hides a value": Bad(
        Fault.NAME_SHADOWED, "main/choose.then_branch, node 0 'A' (Relu)",
        in_branch("yes () => (float[2] T) { A = Relu(X) T = Neg(A) }")),
    "a branch that hides an input": Bad(
        Fault.NAME_SHADOWED, "main/choose.then_branch, node 0 'X'", in_branch("yes () => (float[2] X) { X = Relu(A) }")
    ),
    # values
    "nobody makes an input": Bad(
        Fault.UNMADE_VALUE, "main, node 0 'Y' (Add)", parse("g (float[2] X) => (float[2] Y) { Y = Add(X, nobody) }")
    ),
    "nobody makes an output": Bad(
        Fault.UNMADE_VALUE, "main, outputs", parse("g (float[2] X) => (float[2] Y, float[2] Z) { Y = Relu(X) }")
    ),
    "nobody makes a captured value": Bad(
        Fault.UNMADE_VALUE, "main/choose.then_branch, node 0 'T' (Relu)",
        in_branch("yes () => (float[2] T) { T = Relu(nobody) }")),
    "nobody makes a branch's output": Bad(
        Fault.UNMADE_VALUE, "main/choose.then_branch, outputs", in_branch("yes () => (float[2] nobody) { T = Relu(X) }")
    ),
    "a function reads the graph": Bad(
        Fault.UNMADE_VALUE, "function l.f, node 0 'Q' (Add)", function(f("Q = Add(P, X)"))
    ),
    "a branch's value is its own": Bad(
        Fault.UNMADE_VALUE,
        "main, node 1 'Z' (Relu)",
        parse(
            """g (float[2] X, bool c) => (float[2] Z) {
                Y = If(c) <then_branch = yes () => (float[2] T) { T = Relu(X) },
                           else_branch = no () => (float[2] E) { E = Relu(X) }>
                Z = Relu(T)
            }"""
        ),
    ),
    "a training step reads what is not there": Bad(
        Fault.UNMADE_VALUE, "main, outputs or training", training("W1 = Add(W, nobody)"), "nobody runs training_info"
    ),
    # order
    "a node that needs itself": Bad(Fault.CYCLE, "main", parse("g (float[2] X) => (float[2] Y) { Y = Add(X, Y) }")),
    "a cycle": Bad(
        Fault.CYCLE, "main", parse("g (float[2] X) => (float[2] Y) { A = Add(X, B) B = Neg(A) Y = Relu(A) }")
    ),
    "a cycle by a branch": Bad(Fault.CYCLE, "main", in_branch("yes () => (float[2] T) { T = Relu(Y) }")),
    "a cycle in a branch": Bad(
        Fault.CYCLE, "main/choose.then_branch", in_branch("yes () => (float[2] T) { T = Add(A, B) B = Neg(T) }")
    ),
    "a cycle in a function": Bad(Fault.CYCLE, "function l.f", function(f("Q = Add(P, B) B = Neg(Q)"))),
    # functions
    "a function that calls itself": Bad(Fault.RECURSION, "the model", function(f("Q = l.f(P)"))),
    "functions that call each other": Bad(
        Fault.RECURSION, "the model", function(f("Q = l.h(P)") + f("Q = l.f(P)", "h"))
    ),
    "a function twice": Bad(Fault.FUNCTION_TWICE, "the model", function(f("Q = Neg(P)") * 2)),
    "too many levels": Bad(Fault.NESTING, "main/", nested(33), "both read it, at the price of their stacks"),
    "more levels than protobuf has": Bad(Fault.NESTING, "main/Y60.then_branch/", nested(60), "neither can be given it"),
    "too many calls in calls": Bad(Fault.NESTING, "the model", calls(40), "both read it, at the price of their stacks"),
    "calls that multiply": Bad(Fault.TOO_MANY_NODES, "the model", calls(24, each=3), "both would be at it for years"),
    # nodes
    "no operator": Bad(
        Fault.NO_OPERATOR, "main, node 0 'leak' ()", changed(lambda m: m.graph.node[0].ClearField("op_type"))
    ),
    "an attribute without name": Bad(Fault.ATTRIBUTE_NAME, _LEAK, attribute(lambda a: a.ClearField("name"))),
    "an attribute twice": Bad(
        Fault.ATTRIBUTE_TWICE, _LEAK, changed(lambda m: m.graph.node[0].attribute.append(m.graph.node[0].attribute[0]))
    ),
    "an attribute without type": Bad(Fault.ATTRIBUTE_TYPE, _LEAK, attribute(lambda a: a.ClearField("type"))),
    "an attribute of another type": Bad(
        Fault.ATTRIBUTE_TYPE, _LEAK, attribute(lambda a: setattr(a, "type", AttributeProto.INTS))
    ),
    "an attribute of two types": Bad(Fault.ATTRIBUTE_TYPE, _LEAK, attribute(lambda a: setattr(a, "i", 3))),
    "a tensor attribute without tensor": Bad(
        Fault.ATTRIBUTE_TYPE, _LEAK, attribute(lambda a: (a.ClearField("f"), setattr(a, "type", AttributeProto.TENSOR)))
    ),
    "a subgraph behind another type": Bad(
        Fault.ATTRIBUTE_TYPE, _LEAK, attribute(lambda a: a.g.node.add(op_type="Relu"))
    ),
    "a reference with a value": Bad(
        Fault.ATTRIBUTE_TYPE, _LEAK, attribute(lambda a: setattr(a, "ref_attr_name", "slope")),
        "which of the two counts is not said anywhere"),
    "a convolution's attribute of another type": Bad(
        Fault.ATTRIBUTE_TYPE,
        "main, node 0 'Y' (Conv)",
        parse("g (float[1,1,4,4] X, float[1,1,2,2] W) => (float[1,1,3,3] Y) { Y = Conv <dilations = 1> (X, W) }"),
    ),
    "a pool's attribute of another type": Bad(Fault.ATTRIBUTE_TYPE, "main, node 0 'Y' (MaxPool)", pool(strides="2")),
    "a kernel of 0": Bad(Fault.ATTRIBUTE_VALUE, "main, node 0 'Y' (MaxPool)", pool(kernel_shape=[2, 0])),
    "a negative kernel": Bad(Fault.ATTRIBUTE_VALUE, "main, node 0 'Y' (MaxPool)", pool(kernel_shape=[2, -2])),
    "a huge kernel": Bad(
        Fault.ATTRIBUTE_VALUE, "main, node 0 'Y' (MaxPool)", pool(kernel_shape=[2, 2**62]), "it overflows in both"
    ),
    "a stride of 0": Bad(Fault.ATTRIBUTE_VALUE, "main, node 0 'Y' (MaxPool)", pool(strides=[0, 1])),
    "a dilation of 0": Bad(Fault.ATTRIBUTE_VALUE, "main, node 0 'Y' (MaxPool)", pool(dilations=[1, 0])),
    "negative pads": Bad(Fault.ATTRIBUTE_VALUE, "main, node 0 'Y' (MaxPool)", pool(pads=[0, 0, -1, 0])),
    # stored tensors
    "no element type": Bad(Fault.TENSOR_TYPE, "main, 'W'", tensor(data_type=0)),
    "an unknown element type": Bad(Fault.TENSOR_TYPE, "main, 'W'", tensor(data_type=99)),
    "a negative size": Bad(Fault.TENSOR_DIMS, "main, 'W'", tensor(dims=[-2], float_data=[1.0, 2.0])),
    "more elements than can be": Bad(Fault.TENSOR_DIMS, "main, 'W'", tensor(dims=[2**62, 4, 0])),
    "no data": Bad(Fault.TENSOR_DATA, "main, 'W'", tensor()),
    "too few bytes": Bad(Fault.TENSOR_DATA, "main, 'W'", tensor(raw_data=bytes(7))),
    "too many bytes": Bad(Fault.TENSOR_DATA, "main, 'W'", tensor(raw_data=bytes(12))),
    "too few elements": Bad(Fault.TENSOR_DATA, "main, 'W'", tensor(float_data=[1.0])),
    "too many elements": Bad(Fault.TENSOR_DATA, "main, 'W'", tensor(float_data=[1.0] * 3)),
    "data twice": Bad(Fault.TENSOR_DATA, "main, 'W'", tensor(float_data=[1.0, 2.0], raw_data=bytes(8))),
    "data twice, empty": Bad(Fault.TENSOR_DATA, "main, 'W'", tensor(float_data=[1.0, 2.0], raw_data=b"")),
    "data of another type": Bad(Fault.TENSOR_DATA, "main, 'W'", tensor(int64_data=[1, 2])),
    "text as bytes": Bad(Fault.TENSOR_DATA, "main, 'W'", tensor(data_type=TensorProto.STRING, raw_data=b"ab")),
    "a constant without data": Bad(
        Fault.TENSOR_DATA, "main, node 0 'A' (Constant), attribute 'value'", parse_constant()
    ),
    "a sparse tensor without data": Bad(
        Fault.TENSOR_DATA, "main, 'S'", sparse(lambda s: s.values.ClearField("float_data"))
    ),
    "a sparse tensor of negative size": Bad(
        Fault.TENSOR_DIMS, "main, 'S'", sparse(lambda s: s.dims.__setitem__(0, -1))
    ),
    "a training step's weights without data": Bad(
        Fault.TENSOR_DATA, "training[0].algorithm, 'T'", training_tensor(), "nobody runs training_info"
    ),
    # external data
    "no location": Bad(Fault.EXTERNAL_LOCATION, "main, 'W'", external()),
    "an empty location": Bad(Fault.EXTERNAL_LOCATION, "main, 'W'", external(("location", ""))),
    "two locations": Bad(Fault.EXTERNAL_LOCATION, "main, 'W'", external(("location", "a"), ("location", "b"))),
    "an absolute location": Bad(Fault.EXTERNAL_LOCATION, "main, 'W'", external(("location", "/etc/passwd"))),
    "a location above": Bad(Fault.EXTERNAL_LOCATION, "main, 'W'", external(("location", "../w.bin"))),
    "a location above, on the way": Bad(Fault.EXTERNAL_LOCATION, "main, 'W'", external(("location", "a/../../w.bin"))),
    "a location above, on Windows": Bad(
        Fault.EXTERNAL_LOCATION, "main, 'W'", external(("location", "a\\..\\..\\w.bin"))
    ),
    "a location on a drive": Bad(Fault.EXTERNAL_LOCATION, "main, 'W'", external(("location", "C:w.bin"))),
    "a location with a null": Bad(Fault.EXTERNAL_LOCATION, "main, 'W'", external(("location", "w\0.bin"))),
    "an address in memory": Bad(
        Fault.EXTERNAL_LOCATION, "main, 'W'", external(("location", "*/_ORT_MEM_ADDR_/*"), ("offset", "4096"))
    ),
    "a location not in UTF-8": Bad(
        Fault.EXTERNAL_LOCATION, "main, 'W'", replaced(external(("location", "LLL")), b"LLL", b"\xff\xfe\xff")
    ),
    "a negative offset": Bad(Fault.EXTERNAL_EXTENT, "main, 'W'", external(("location", "w"), ("offset", "-8"))),
    "an absurd offset": Bad(Fault.EXTERNAL_EXTENT, "main, 'W'", external(("location", "w"), ("offset", str(2**63)))),
    "an offset in words": Bad(Fault.EXTERNAL_EXTENT, "main, 'W'", external(("location", "w"), ("offset", "twelve"))),
    "two offsets": Bad(
        Fault.EXTERNAL_EXTENT, "main, 'W'", external(("location", "w"), ("offset", "0"), ("offset", "8"))
    ),
    "another length": Bad(Fault.EXTERNAL_EXTENT, "main, 'W'", external(("location", "w"), ("length", "4"))),
    "data inside and outside": Bad(Fault.TENSOR_DATA, "main, 'W'", external(("location", "w"), raw_data=bytes(8))),
    "text outside": Bad(Fault.TENSOR_DATA, "main, 'W'", external(("location", "w"), data_type=TensorProto.STRING)),
}  # fmt: skip
