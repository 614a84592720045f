# SPDX-License-Identifier: Apache-2.0

"""ONNX's own inference as the last source: what it adds, and what it must not be led to say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, TypeProto, numpy_helper

from poolgrad_lowering import lower
from poolgrad_lowering.analysis.inference import InferredTypes
from poolgrad_lowering.analysis.shape_rules import is_opaque
from poolgrad_lowering.io.external_data import ExternalData
from poolgrad_lowering.ir.dims import Dim
from poolgrad_lowering.ir.external import ModelFolder
from poolgrad_lowering.ir.index import ModelIndex
from tests.external_models import DATA, external
from tests.harness.processes import environment
from tests.pool_graphs import main_value, parse


def run_on(model: ModelProto, script: str) -> None:
    """Run a script in a process of its own, with the model's bytes as its input; nothing may go wrong."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=model.SerializeToString(),
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def reshaped(*, ir: int = 8) -> ModelProto:
    return parse("g (float[2,3] X) => (Y) <int64[2] s = {3, 2}> { A = Reshape(X, s)  Y = Softplus(A) }", ir=ir)


def test_what_no_rule_tells() -> None:
    model = parse("g (float[N,3,8,8] X, float[4,3,3,3] W) => (Y) { A = Conv(X, W)  Y = Relu(A) }")
    facts, value = main_value(model, "Y")
    assert facts.shape(value) == (Dim.parse("N"), Dim(4), Dim(6), Dim(6))
    assert facts.element_type(value) == TensorProto.FLOAT


def test_weights_are_left_out() -> None:
    """Large initializers go by their shape alone."""
    model = parse("g (float[N,64,8,8] X) => (Y) { A = Conv(X, W)  Y = Relu(A) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones((4, 64, 3, 3), np.float32), "W"))
    facts, value = main_value(model, "A")
    assert facts.shape(value) == (Dim.parse("N"), Dim(4), Dim(6), Dim(6))


def test_an_initializer_that_a_caller_overrides_tells_nothing() -> None:
    model = reshaped()
    facts, value = main_value(model, "Y")
    assert facts.shape(value) == (Dim(3), Dim(2))
    model.graph.input.append(onnx.helper.make_tensor_value_info("s", TensorProto.INT64, [2]))
    facts, value = main_value(model, "Y")
    shape = facts.shape(value)
    assert shape is None or all(dim.static is None for dim in shape)


def test_external_data_tells_nothing() -> None:
    model = reshaped()
    model.graph.initializer[0].ClearField("int64_data")
    model.graph.initializer[0].ClearField("raw_data")
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL
    model.graph.initializer[0].external_data.add(key="location", value="absent.bin")
    facts, value = main_value(model, "Y")
    shape = facts.shape(value)
    assert shape is None or all(dim.static is None for dim in shape)


NEGATIVE = """
    P, I = MaxPool<kernel_shape = [99]>(Z)
    s = Constant<value_ints = [0]>()
    e = Constant<value_ints = [1]>()
    a = Constant<value_ints = [2]>()
    S = Slice(I, s, e, a)
    Y = Softplus(S)
"""
PLACES = {
    "graph": f"g (float[1,1,12] Z) => (Y) {{ {NEGATIVE} }}",
    "subgraph": f"""g (float[1,1,12] Z, bool c) => (Y) {{
        Y = If(c) <then_branch = yes () => (Y) {{ {NEGATIVE} }}, else_branch = no () => (E) {{ E = Neg(Z) }}>
    }}""",
    "function": f"""g (float[1,1,12] Z) => (Y) {{ Y = l.f(Z) }}
        <domain: "l", opset_import: ["": 16]> f (Z) => (Y) {{ {NEGATIVE} }}""",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_slice_of_a_negative_size(place: str) -> None:
    """A window larger than its input; onnx 1.23 aborts the process that infers the Slice's shape."""
    model = parse(PLACES[place], imports='"l": 1')
    script = (
        "import sys, onnx\n"
        "from poolgrad_lowering.ir.index import ModelIndex\n"
        "from poolgrad_lowering.analysis.inference import InferredTypes\n"
        "InferredTypes(ModelIndex(onnx.ModelProto.FromString(sys.stdin.buffer.read()))).all()"
    )
    run_on(model, script)


def test_a_slice_keeps_type_and_rank() -> None:
    model = parse(
        """g (float[2,3,8] X) => (Y) <int64[1] s = {0}, int64[1] e = {2}> {
            A = Softplus(X)
            S = Slice(A, s, e)
            Y = Softplus(S)
        }"""
    )
    facts, value = main_value(model, "Y")
    assert facts.element_type(value) == TensorProto.FLOAT
    shape = facts.shape(value)
    assert shape is not None
    assert len(shape) == 3


def test_inner_scopes_get_nothing() -> None:
    index = ModelIndex(
        parse(
            """g (float[2] X, bool c) => (float[2] Y) {
                Y = If(c) <then_branch = yes () => (float[2] T) { B = Softplus(X)  T = Relu(B) },
                           else_branch = no () => (float[2] E) { E = Relu(X) }>
            }"""
        )
    )
    assert InferredTypes(index).all().keys() <= {"Y"}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda model: model.graph.node[0].ClearField("op_type"),
        lambda model: model.ClearField("ir_version"),
        lambda model: model.graph.input[0].type.Clear(),
        lambda model: model.graph.node.add(op_type="Add", input=["X"], output=["B"]),
        lambda model: model.graph.node.add(op_type="Add", input=["X", "s"], output=["A"]),
        lambda model: model.opset_import.add(domain="", version=3),
        lambda model: model.opset_import[0].__setattr__("version", -1),
    ],
)
def test_a_model_that_inference_cannot_work_on(spoil: object) -> None:
    model = reshaped()
    assert callable(spoil)
    spoil(model)
    facts, value = main_value(model, "Y")
    facts.shape(value)  # whatever it is, no exception


def test_a_graph_whose_name_is_no_text() -> None:
    """Nobody needs it; it stays in the model as it is."""
    data = parse("named (float[2] X) => (Y) { A = Softplus(X) Y = Neg(A) }").SerializeToString()
    model = ModelProto.FromString(data.replace(b"named", b"\xff\xfe\xfd\xfc\xfb"))
    assert model.graph.name == b"\xff\xfe\xfd\xfc\xfb"
    facts, value = main_value(model, "Y")
    assert facts.shape(value) == (Dim(2),)
    assert lower(model).model == model


def test_the_model_is_not_changed() -> None:
    model = reshaped()
    before = model.SerializeToString()
    InferredTypes(ModelIndex(model)).all()
    assert model.SerializeToString() == before


LONG = 2**31 - 1
LONG_VECTORS = {
    "declared": f"g (int64[{LONG}] X, int64[{LONG}] I) => (Y) {{ A = Gather(X, I) Y = Relu(A) }}",
    "flattened": """g (int64[2048,1024,1023] X) => (Y) <int64[1] s = {-1}> {
        A = Reshape(X, s) B = Add(A, A) C = Cast<to = 7>(B) Y = Relu(C) }""",
    "a shape": f"g (int64[{LONG}] X, float[1] F) => (Y) {{ A = ConstantOfShape(X) B = Expand(F, X) Y = Add(A, B) }}",
    "axes": f"g (int64[{LONG}] X, float[1] F) => (Y) {{ A = Unsqueeze(F, X) Y = Softplus(A) }}",
}


@pytest.mark.parametrize("text", LONG_VECTORS.values(), ids=LONG_VECTORS)
def test_long_integer_vectors_fill_no_memory(text: str) -> None:
    """Each of 2^31 elements; a list with an entry for each would exceed the memory that this child may have."""
    script = (
        "import resource, sys, onnx\n"
        "from poolgrad_lowering.ir.index import ModelIndex\n"
        "from poolgrad_lowering.analysis.inference import InferredTypes\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))\n"
        "types = InferredTypes(ModelIndex(onnx.ModelProto.FromString(sys.stdin.buffer.read()))).all()\n"
        "assert 'A' in types"
    )
    run_on(parse(text), script)


def test_sizes_in_external_data(tmp_path: Path) -> None:
    """They are read where shapes may follow from them; without them the sizes stay unknown."""
    model = parse('g (float[1,1,2,2] X) => (Y) { R = Resize<mode = "nearest">(X, , , sizes) Y = Relu(R) }')
    model.graph.initializer.append(external("sizes", [4], kind=onnx.TensorProto.INT64))
    (tmp_path / DATA).write_bytes(np.array([1, 1, 6, 8], np.int64).tobytes())

    def sizes(data: ExternalData | None) -> list[int]:
        found = InferredTypes(ModelIndex(model), data).all()
        return [dim.dim_value for dim in found.get("R", TypeProto()).tensor_type.shape.dim]

    assert sizes(ExternalData(ModelFolder(tmp_path))) == [1, 1, 6, 8]
    (tmp_path / DATA).unlink()
    assert sizes(ExternalData(ModelFolder(tmp_path))) == sizes(None) != [1, 1, 6, 8]


# -- the cone of a value


def test_what_a_question_infers(copies: list[ModelProto]) -> None:
    """The nodes behind a value; a later question begins at the results of earlier ones."""
    model = parse(
        """g (float[2,3] X, float[3,4] W, float[9] Z) => (Y, Q) {
            a = MatMul(X, W)  b = Softplus(a)  q = NonZero(Z)  Q = Cast<to = 1>(q)  c = ReduceSum(b)  Y = Neg(c) }"""
    )
    types = InferredTypes(ModelIndex(model))
    for name, nodes, inputs in (("b", ["MatMul", "Softplus"], ["X", "W"]), ("c", ["ReduceSum"], ["b"])):
        found = types.get(name)
        assert found is not None
        assert found.tensor_type.elem_type == TensorProto.FLOAT
        assert types.get(name) is found
        assert [node.op_type for node in copies[-1].graph.node] == nodes
        assert [value.name for value in copies[-1].graph.input] == inputs
    assert types.get("a") is not None
    assert types.get("X") is types.get("nobody") is None
    assert len(copies) == 2


def test_what_branches_of_a_cone_use(copies: list[ModelProto]) -> None:
    model = parse(
        """g (float[2,3] X, float[3] U, bool k) => (Y) {
            a = Softplus(X)  u = Softplus(U)
            Y = If(k) <then_branch = t () => (T) { T = Neg(a) }, else_branch = e () => (E) { E = Abs(a) }> }"""
    )
    found = InferredTypes(ModelIndex(model)).get("Y")
    assert found is not None
    assert [dim.dim_value for dim in found.tensor_type.shape.dim] == [2, 3]
    assert [value.name for value in copies[0].graph.input] == ["X", "k"]


def made_up(types: InferredTypes, name: str) -> str:
    found = types.get(name)
    assert found is not None
    return str(found.tensor_type.shape.dim[1].dim_param)


def test_sizes_of_two_questions_have_two_names() -> None:
    """A name that a question was given stays, and no name of the model is one that a question gives."""
    model = parse(
        """g (float[2,unk__0] X, float[2] Z) => (Y) {
            a = NonZero(X)  b = NonZero(Z)  c = Softplus(X)  d = Softplus(b)  Y = Neg(a) }"""
    )
    types = InferredTypes(ModelIndex(model))
    a, b = made_up(types, "a"), made_up(types, "b")
    assert len({a, b, "unk__0"}) == 3
    assert made_up(types, "c") == "unk__0"
    assert made_up(types, "d") == b


@pytest.mark.parametrize("name", ["unk__0?0", "unk__0?1", "N?"])
def test_a_name_of_the_model_like_those_of_questions(name: str) -> None:
    """Is not read."""
    model = parse("g (float[2,N] X, float[2] Z) => (Y) { a = NonZero(Z)  b = Softplus(X)  Y = Neg(a) }")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = name
    facts, x = main_value(model, "X")
    shape = facts.shape(x)
    assert shape is not None
    assert is_opaque(shape[1])
    types = InferredTypes(ModelIndex(model))
    assert len({made_up(types, "a"), made_up(types, "b")}) == 2
