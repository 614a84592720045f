# SPDX-License-Identifier: Apache-2.0

"""ONNX's own inference as the last source: what it adds, and what it must not be led to say."""

from __future__ import annotations

import subprocess
import sys

import pytest
from onnx import ModelProto

from poolgrad_lowering import lower
from poolgrad_lowering.model.ir.dims import Dim
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


LONG = 2**31 - 1
LONG_VECTORS = {
    "declared": f"g (int64[{LONG}] X, int64[{LONG}] I) => (Y) {{ A = Gather(X, I) Y = Relu(A) }}",
    "flattened": """g (int64[2048,1024,1023] X) => (Y) <int64[1] s = {-1}> {
        A = Reshape(X, s) B = Add(A, A) C = Cast<to = 7>(B) Y = Relu(C) }""",
    "a shape": f"g (int64[{LONG}] X, float[1] F) => (Y) {{ A = ConstantOfShape(X) B = Expand(F, X) Y = Add(A, B) }}",
    "a shape of training": f"""g (int64[{LONG}] X, float[1] F, int64[1] I) => (Y) {{
        A = ConstantOfShape(X) B = com.microsoft.GatherGrad(X, I, F) Y = Add(A, B) }}""",
    "axes": f"g (int64[{LONG}] X, float[1] F) => (Y) {{ A = Unsqueeze(F, X) Y = Softplus(A) }}",
}


@pytest.mark.parametrize("text", LONG_VECTORS.values(), ids=LONG_VECTORS)
def test_long_integer_vectors_fill_no_memory(text: str) -> None:
    """Each of 2^31 elements; a list with an entry for each would exceed the memory that this child may have."""
    script = (
        "import resource, sys, onnx\n"
        "from tests.poolgrad_lowering.model.facts.inferred import known\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))\n"
        "assert 'A' in known(onnx.ModelProto.FromString(sys.stdin.buffer.read()))"
    )
    run_on(parse(text), script)
