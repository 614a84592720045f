# SPDX-License-Identifier: Apache-2.0

"""Where the first of several faults is, and what a message says of it."""

from __future__ import annotations

import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper

from poolgrad_lowering import Fault, InvalidModelError, lower
from tests.pool_graphs import parse
from tests.poolgrad_lowering.model.gate.bad_models import f, function, pool, replaced, training
from tests.texts import Says


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
MORE: dict[str, tuple[Fault, ModelProto]] = {
    "an input": (Fault.NAME_SHADOWED, branch("X = Relu(W) T = Neg(X)")),
    "an initializer": (Fault.NAME_SHADOWED, branch("T = Relu(X) W = Relu(X) A = Relu(X)", before="A = Neg(X)")),
    "a value": (Fault.NAME_SHADOWED, branch("T = Relu(X) A = Relu(X)", before="A = Neg(X)")),
    "a value of a training step": (
        Fault.NAME_SHADOWED,
        training("c = IsNaN(W) W1 = If(c) <then_branch = t () => (A) { A = Neg(W) }>"),
    ),
    "two inputs": (Fault.NAME_TWICE, parse("g (float X, float Z, float Z) => (float Y) { Y = Neg(X) }")),
    "bytes of a value": (
        Fault.NAME_NOT_UTF8,
        replaced(parse("g (float[2] X) => (float[2] Y) { Y = Relu(ZZ) ZZ = Relu(X) }"), b"ZZ", b"\xff\xfe"),
    ),
    "an attribute twice": (
        Fault.ATTRIBUTE_TWICE,
        changed_pool(helper.make_attribute("beta", 1), helper.make_attribute("beta", 2)),
    ),
    "the second stride": (
        Fault.ATTRIBUTE_VALUE,
        changed_pool(helper.make_attribute("auto_pad", "VALID"), helper.make_attribute("strides", [1, 0])),
    ),
    "a cycle of three": (Fault.CYCLE, parse("g (float X) => (float A) { A = Add(X, B) B = Neg(C) C = Neg(A) }")),
    "a cycle of four": (
        Fault.CYCLE,
        parse("g (float X) => (float A) { A = Add(X, B) B = Neg(C) C = Neg(D) D = Neg(A) }"),
    ),
    "a graph as a default": (
        Fault.ATTRIBUTE_TYPE,
        with_default(helper.make_attribute("a", helper.make_graph([], "g", [], []))),
    ),
    "a default of another type": (
        Fault.ATTRIBUTE_TYPE,
        with_default(AttributeProto(name="a", type=AttributeProto.INT, f=1.0)),
    ),
    "a negative size": (Fault.TENSOR_DIMS, sparse_constant([-4], ONE)),
    "a sparse tensor without data": (
        Fault.TENSOR_DATA,
        sparse_constant([4], TensorProto(data_type=TensorProto.INT64, dims=[1])),
    ),
}


@pytest.mark.parametrize(
    ("fault", "model"),
    [pytest.param(*row, id=name, marks=pytest.mark.fault(row[0].value)) for name, row in MORE.items()],
)
def test_where_it_is_and_what(fault: Fault, model: ModelProto, says: Says) -> None:
    with pytest.raises(InvalidModelError) as caught:
        lower(model)
    assert caught.value.fault is fault
    says(f"{caught.value.where}: {caught.value.what}")
