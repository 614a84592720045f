# SPDX-License-Identifier: Apache-2.0

"""Every fault is rejected with its place in the message, and other tools reject it too."""

from __future__ import annotations

import pickle
from pathlib import Path

import onnx
import pytest
from onnx import AttributeProto, ModelProto

from poolgrad_lowering import Fault, InvalidModelError, Limits, inspect, lower, lower_file
from tests.pool_graphs import parse, torch_gradient
from tests.poolgrad_lowering.model.gate.bad_models import BAD, Bad, calls, f, function, nested, pool, replaced
from tests.texts import Says

NEWEST = onnx.defs.onnx_opset_version()
CASES = [pytest.param(bad, id=name, marks=pytest.mark.fault(bad.fault.value)) for name, bad in BAD.items()]


@pytest.mark.parametrize("bad", CASES)
def test_turned_away(bad: Bad, says: Says) -> None:
    with pytest.raises(InvalidModelError) as caught:
        lower(bad.model)
    error = caught.value
    assert (error.fault, error.where[: len(bad.where)]) == (bad.fault, bad.where)
    assert str(error) == f"{error.where}: {error.what} ({bad.fault.value}). {bad.fault.advice}"
    assert str(error).isprintable()
    installed = f"onnx {onnx.__version__} knows"
    newest = error.what.replace(f"{installed} {onnx.IR_VERSION}", "…").replace(f"{installed} {NEWEST}", "…")
    says(f"{error.where}: {newest}")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    "bad", [pytest.param(bad, id=name) for name, bad in BAD.items() if bad.fault is not Fault.NESTING]
)
def test_turned_away_as_a_file(bad: Bad, tmp_path: Path) -> None:
    source, destination = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(bad.model.SerializeToString())
    with pytest.raises(InvalidModelError) as caught:
        lower_file(source, destination)
    with pytest.raises(InvalidModelError) as in_memory:
        lower(bad.model)
    assert caught.value.fault == bad.fault
    assert str(caught.value) == f"'{source}': {in_memory.value}"
    assert not destination.exists()


@pytest.mark.parametrize("bad", [pytest.param(bad, id=name) for name, bad in BAD.items() if not bad.only_here])
def test_other_tools_reject_it_too(bad: Bad, tmp_path: Path) -> None:
    """onnx.checker or onnxruntime rejects the model; if both accept it, the case gives the reason for the rejection."""
    onnxruntime = pytest.importorskip("onnxruntime")
    path = tmp_path / "m.onnx"
    path.write_bytes(bad.model.SerializeToString())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4

    def load() -> None:
        onnx.checker.check_model(str(path))
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    with pytest.raises(Exception) as caught:  # noqa: PT011 - onnxruntime's errors have no base
        load()
    home = type(caught.value).__module__.split(".")[0]
    assert home in ("onnx", "onnxruntime", "google") or isinstance(caught.value, UnicodeDecodeError)


LIMITED = {
    Fault.TOO_LARGE: (torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2]), {"max_bytes": 500}),
    Fault.TOO_MANY_NODES: (torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2]), {"max_nodes": 8}),
    Fault.NESTING: (nested(3), {"max_nesting": 2}),
}


@pytest.mark.parametrize(
    ("fault", "model", "limits"),
    [pytest.param(f, *case, marks=pytest.mark.fault(f.value), id=f.value) for f, case in LIMITED.items()],
)
def test_limits(fault: Fault, model: ModelProto, limits: dict[str, int], tmp_path: Path) -> None:
    [(name, limit)] = limits.items()
    with pytest.raises(InvalidModelError, match=str(limit)) as caught:
        lower(model, limits=Limits(**limits))
    assert caught.value.fault == fault
    source = tmp_path / "m.onnx"
    source.write_bytes(model.SerializeToString())
    with pytest.raises(InvalidModelError) as caught:
        lower_file(source, source, limits=Limits(**limits))
    assert caught.value.fault == fault
    size = {
        Fault.TOO_LARGE: lower(model).model.ByteSize(),
        Fault.TOO_MANY_NODES: len(model.graph.node),
        Fault.NESTING: 3,
    }[fault]
    lower(model, limits=Limits(**{name: size}))


def test_calls_count_with_all_that_they_call() -> None:
    model = calls(3, each=2)  # 1 call, then 2 · (1 + …) down to a single Neg
    nodes = 1
    for _ in range(3):
        nodes = 2 * (1 + nodes) + 1
    inspect(model, limits=Limits(max_nodes=nodes + 1))
    with pytest.raises(InvalidModelError, match=f"main has {nodes + 1} nodes, more than {nodes}"):
        inspect(model, limits=Limits(max_nodes=nodes))


def test_depth_counts_subgraphs_and_calls() -> None:
    model = nested(2)
    inner = model.graph.node[1].attribute[1].g.node[0].attribute[1].g.node[0]
    inner.op_type, inner.domain = "f0", "l"
    called = calls(2)
    model.functions.extend(called.functions)
    model.opset_import.append(called.opset_import[1])
    inspect(model, limits=Limits(max_nesting=5))
    with pytest.raises(InvalidModelError, match="5 levels"):
        inspect(model, limits=Limits(max_nesting=4))


def test_depth_counts_the_subgraphs_of_a_function() -> None:
    branches = "then_branch = t () => (T) { T = Neg(P) }, else_branch = e () => (E) { E = Relu(P) }"
    model = function(f(f"c = IsNaN(P) Q = If(c) <{branches}>") + f("Q = Neg(P)", "g"))
    inspect(model, limits=Limits(max_nesting=2))
    with pytest.raises(InvalidModelError, match="the model: main nests 2 levels, more than 1"):
        inspect(model, limits=Limits(max_nesting=1))


def test_functions_that_nobody_calls_count() -> None:
    model = function(f("Q = Neg(P)") + f("R = Neg(P) Q = Relu(R)", "g"))
    inspect(model, limits=Limits(max_nodes=4))
    with pytest.raises(InvalidModelError, match="the model: it has more than 3 nodes"):
        inspect(model, limits=Limits(max_nodes=3))


def test_a_function_of_onnx_that_calls_itself() -> None:
    """It redefines the operator, also where it uses it."""
    model = parse(
        "g (float[2] X) => (float[2] Y) { Y = Neg(X) }",
        functions='<domain: "", opset_import: ["": 16]> Neg (P) => (Q) { Q = Neg(P) }',
    )
    with pytest.raises(InvalidModelError, match="calls function") as caught:
        inspect(model)
    assert caught.value.fault == Fault.RECURSION


def test_the_first_flaw_of_a_node_may_come_before_that_of_its_operators_name() -> None:
    model = parse("g (float[2] X) => (float[2] Y) { Y = LeakyRelu <alpha = 0.1> (X) }")
    model.graph.node[0].attribute[0].type = AttributeProto.UNDEFINED
    with pytest.raises(
        InvalidModelError,
        match=r"node 0 'Y' \(b'\\xffeakyRelu'\): attribute 'alpha' has a type that ONNX does not define",
    ):
        lower(replaced(model, b"LeakyRelu", b"\xffeakyRelu"))


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize(
    "op_type", ["MaxPool", "MaxPoolGrad", "AveragePool", "AveragePoolGrad", "LpPool", "MaxUnpool", "Conv"]
)
def test_windows_of_every_pool(op_type: str, domain: str) -> None:
    """A Conv's are not checked: no window of a gradient comes from them."""
    model = parse("g (X, Z) => (Y) { Y = MaxPool <kernel_shape = [0, 1]> (X, Z) }", imports='"com.microsoft": 1')
    model.graph.node[0].op_type, model.graph.node[0].domain = op_type, domain
    if op_type == "Conv":
        assert not lower(model).report.anchors
        return
    with pytest.raises(InvalidModelError, match="'kernel_shape' has the value 0"):
        lower(model)


def test_the_largest_window() -> None:
    largest = pool(strides=[1, 2**31 - 1])
    assert not lower(largest).report.anchors
    with pytest.raises(InvalidModelError, match="'strides' has the value 2147483648"):
        lower(pool(strides=[1, 2**31]))


def test_a_name_in_a_message_is_on_one_line_and_not_endless() -> None:
    name = "\x1b[2J\n" + "x" * 10_000
    body = "Y = If(c) <else_branch = no () => (Z) { Z = Relu(nobody) }>"
    model = parse(f"g (bool c, float[2] X) => (float[2] Y) {{ {body} }}")
    inner = model.graph.node[0].attribute[0].g.node[0]
    model.graph.node[0].name = inner.op_type = inner.input[0] = name
    inner.domain = model.opset_import.add(domain="others", version=1).domain
    with pytest.raises(InvalidModelError) as caught:
        lower(model)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500
