# SPDX-License-Identifier: Apache-2.0

"""Graph mode is as strict as GE: what sessions of the CANN provider alone fail with, and what they compute.

Each rule has a model that it refuses or changes, and a near miss that it takes. What single plugins do is tested in
`tests/atc/test_ge_plugins.py`; here a few of them show that the same parser judges sub-models. Element types, ranks and
windows are in `test_documented_kernels.py`.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from tests.harness.cann.graph_engine import ENGINE, FIRST_LIBRARY, PRECISION_MODE, SOC_VERSION, GraphEngine
from tests.harness.ge.faults import GeError
from tests.harness.sessions.mixed_sessions import CANN, Array, Feeds, image, on_cpu, on_device, quiet_options
from tests.heads import head

pytestmark = pytest.mark.cann_ep

EXACT = {"precision_mode": "must_keep_origin_dtype"}
SUBGRAPHS = {"enable_cann_graph": "1", "enable_cann_subgraph": "1"}
SAME = "same"
IMAGE = image(1, 2, 5, 6)
WEIGHT = np.arange(18, dtype=np.float32).reshape(1, 2, 3, 3)


def open_cann(model: onnx.ModelProto, **options: str) -> ort.InferenceSession:
    """A session of the CANN provider alone, which takes parts of the graph."""
    session_options = quiet_options()
    session_options.add_provider(CANN, {**SUBGRAPHS, "dump_om_model": "0", **options})
    return ort.InferenceSession(model.SerializeToString(), session_options, enable_fallback=0)


def model_of(inputs: str, nodes: str, opset: int = 18, **constants: Array) -> onnx.ModelProto:
    """A model whose only output is y. Each node gets a name."""
    text = f"{head(opset)} model ({inputs}) => (float[?] y) {{ {nodes} }}"
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    for number, node in enumerate(model.graph.node):
        node.name = node.name or f"node {number}"
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    return model


def run(model: onnx.ModelProto, feeds: Feeds, **options: str) -> Array:
    return np.asarray(open_cann(model, **{**EXACT, **options}).run(None, dict(feeds))[0])


def outcome(model: onnx.ModelProto, feeds: Feeds, **options: str) -> str:
    """`SAME` if the session has the bits of the CPU provider, "different", or why its sub-model is refused."""
    [expected] = on_cpu(model, feeds)
    try:
        found = run(model, feeds, **options)
    except Exception:
        [refusal] = ENGINE.refusals()
        return refusal
    assert sum(len(each.builds) for each in ENGINE.sub_models) == 1
    same = found.shape == expected.shape and found.tobytes() == expected.tobytes()
    return SAME if same else "different"


# Inputs, nodes, opset; what the session ends with.
CASES: dict[str, tuple[str, str, int, str]] = {
    "opset 18": ("float[1,2,5,6] x", "y = Relu (x)", 18, SAME),
    "opset 19": ("float[1,2,5,6] x", "y = Relu (x)", 19, "type[ai.onnx::19::Relu] is not supported"),
    "MaxPool with Indices": (
        "float[1,2,5,6] x", "p, i = MaxPool <kernel_shape=[2,2]> (x) c = Cast <to=1> (i) y = Add (p, c)", 18,
        "The output of Indices is not support"),
    "MaxPool": ("float[1,2,5,6] x", "y = MaxPool <kernel_shape=[2,2]> (x)", 18, SAME),
    "MaxPool with dilations": (
        "float[1,2,5,6] x", "y = MaxPool <kernel_shape=[2,2], dilations=[2,2]> (x)", 18, "different"),
    "Conv without attributes but group": ("float[1,2,5,6] x", "y = Conv <group=1> (x, w)", 18, "at least one"),
    "Conv": ("float[1,2,5,6] x", "y = Conv <strides=[1,1]> (x, w)", 18, SAME),
    "ConvTranspose": (
        "float[1,1,5,6] a", "y = ConvTranspose <strides=[1,1]> (a, w)", 18, "kernel_shape must have value"),
    "ConvTranspose with kernel_shape": ("float[1,1,5,6] a", "y = ConvTranspose <kernel_shape=[3,3]> (a, w)", 18, SAME),
    "Dropout": ("float[1,2,5,6] x", "y = Dropout (x)", 18, "has no open prototype"),
    "Shape with end": ("float[N,C,H,W] x", "s = Shape <end=1> (x) y = Cast <to=1> (s)", 18, "different"),
    "Shape": ("float[N,C,H,W] x", "s = Shape <start=0> (x) y = Cast <to=1> (s)", 18, SAME),
    "Gemm without C": ("float[5,6] m", "y = Gemm <alpha=0.5, transB=1> (m, m)", 18, "different"),
    "Gemm": ("float[5,6] m", "y = Gemm <transB=1> (m, m)", 18, SAME),
    "Pad with axes": ("float[5,6] m", "y = Pad (m, p, , axes)", 18, "has no input 3"),
    "AveragePool with SAME_LOWER": (
        "float[1,2,5,6] x", 'y = AveragePool <kernel_shape=[2,2], auto_pad="SAME_LOWER"> (x)', 18, "different"),
    "BatchNormalization in training": (
        "float[1,2,5,6] x, float[2] c", "z, s, t = BatchNormalization <training_mode=1> (x, c, c, c, c) y = Neg (s)",
        18, "different"),
    "BatchNormalization": ("float[1,2,5,6] x, float[2] c", "y = BatchNormalization (x, c, c, c, c)", 18, SAME),
    "GlobalMaxPool over three axes": ("float[1,2,3,4,5] v", "y = GlobalMaxPool (v)", 18, "different"),
    "a node named like an input": ("float[1,2,5,6] x", "[x] y = Relu (x)", 18, "two nodes are called x"),
    "a scalar": ("float rate", "y = Relu (rate)", 18, "'rate' is not name:sizes"),
    "a scalar beside others": ("float[1,2,5,6] x, float rate", "y = Mul (x, rate)", 18, "E10002"),
    "a divisor": ("int64[1] n", "q = Div (n, n) y = Cast <to=1> (q)", 18, SAME),
    "an index into an axis of one element": (
        "float[1,2,5,6] x, int64[1] at", "y = Gather <axis=0> (x, at)", 18, SAME),
    "one element": ("float[1] one", "y = Relu (one)", 18, SAME),
}  # fmt: skip

ALL_FEEDS = {
    "x": IMAGE,
    "a": IMAGE[:, :1],
    "m": IMAGE[0, 0],
    "v": image(1, 2, 3, 4, 5, seed=5),
    "c": np.array([1.5, 0.5], np.float32),
    "rate": np.array(2.5, np.float32),
    "one": np.array([2.5], np.float32),
    "n": np.array([2]),
    "at": np.array([0]),
}
CONSTANTS: Mapping[str, Array] = {"w": WEIGHT, "p": np.array([1, 0]), "axes": np.array([0])}


def check_case(name: str) -> str:
    inputs, nodes, opset, _ = CASES[name]
    model = model_of(inputs, nodes, opset, **{key: value for key, value in CONSTANTS.items() if f" {key}" in nodes})
    return outcome(model, {value.name: ALL_FEEDS[value.name] for value in model.graph.input})


@pytest.mark.parametrize("name", CASES)
def test_a_session_is_refused_or_computes_what_ge_computes(name: str) -> None:
    expected = CASES[name][3]
    found = on_device(check_case, name)
    assert found == expected if expected in (SAME, "different") else expected in found, found


# -- precision

THIRDS = {"x": np.full((2, 3), 1 / 3, np.float32)}


def check_precision(mode: str) -> list[Any]:
    model = model_of("float[2,3] x", "y = Mul (x, t)", t=np.float32(3000.1).reshape(1))
    found = np.asarray(open_cann(model, **({"precision_mode": mode} if mode else {})).run(None, THIRDS)[0])
    [expected] = on_cpu(model, THIRDS)
    half = (np.float16(1 / 3).astype(np.float32) * np.float16(3000.1).astype(np.float32)).astype(np.float16)
    kind = "exact" if (found == expected).all() else "half" if (found == half.astype(np.float32)).all() else "neither"
    return [kind, ENGINE.initialized]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("", "half"), ("force_fp16", "half"), ("must_keep_origin_dtype", "exact"), ("force_fp32", "exact")],
)
def test_without_a_precision_mode_float32_is_computed_in_float16(mode: str, expected: str) -> None:
    kind, [options] = on_device(check_precision, mode)
    assert kind == expected
    assert options.get(PRECISION_MODE, "") == mode
    assert options[SOC_VERSION].startswith("Ascend")


def check_first_precision_mode() -> list[Any]:
    """The CANN provider initializes GE once, with the options of the session that builds first."""
    kinds = [check_precision(mode)[0] for mode in ("must_keep_origin_dtype", "")]
    return [kinds, len(ENGINE.initialized)]


def test_the_precision_mode_of_the_first_session_is_that_of_the_process() -> None:
    assert on_device(check_first_precision_mode) == [["exact", "exact"], 1]


def check_unknown_precision_mode() -> str:
    model = model_of("float[2,3] x", "y = Relu (x)")
    with pytest.raises(Exception, match="aclgrphBuildInitialize") as error:
        open_cann(model, precision_mode="fp32").run(None, THIRDS)
    return str(error.value)


def test_an_unknown_precision_mode() -> None:
    assert "aclgrphBuildInitialize" in on_device(check_unknown_precision_mode)


# -- models in files


@contextlib.contextmanager
def folder_of_its_own() -> Iterator[None]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def check_dump(dump: str) -> list[Any]:
    """Models that differ in a constant only, one after the other in one folder, in sessions of their own."""
    results = []
    options = {"dump_om_model": dump} if dump else {}
    with folder_of_its_own():
        for factor in (2, 5):
            model = model_of("float[2,3] x", "y = Mul (x, t)", t=np.array([factor], np.float32))
            session_options = quiet_options()
            session_options.add_provider(CANN, {**SUBGRAPHS, **EXACT, **options})
            session = ort.InferenceSession(model.SerializeToString(), session_options, enable_fallback=0)
            found = session.run(None, {"x": np.ones((2, 3), np.float32)})[0]
            results.append(float(found[0, 0]))
        return [results, len(list(Path().iterdir()))]


@pytest.mark.parametrize(("dump", "expected"), [("", [[2, 2], 1]), ("1", [[2, 2], 1]), ("0", [[2, 5], 0])])
def test_a_changed_model_runs_as_the_one_in_the_folder(dump: str, expected: list[Any]) -> None:
    assert on_device(check_dump, dump) == expected


# -- records


def check_records() -> Any:
    model = model_of("float[2,3] x, float[3] b", "r = Relu (x) y = Add (r, b)")
    session = open_cann(model, **EXACT)
    for rows in (2, 2):
        session.run(None, {"x": np.ones((rows, 3), np.float32), "b": np.ones(3, np.float32)})
    return ENGINE.report()


def test_everything_that_is_handed_over_is_recorded() -> None:
    report = on_device(check_records)
    [sub_model] = report["sub_models"]
    assert {key: sub_model[key] for key in ("nodes", "operators", "inputs", "refused", "builds")} == {
        "nodes": 2,
        "operators": {"Relu": 1, "Add": 1},
        "inputs": {"x": 2, "b": 1},
        "refused": "",
        "builds": [{"input_shape": "x:2,3;b:3"}],
    }


# -- the engine without a session


def parsed(inputs: str, nodes: str, **constants: Array) -> tuple[GraphEngine, int]:
    engine = GraphEngine()
    return engine, engine.parse(model_of(inputs, nodes, **constants).SerializeToString())


def built_shapes(engine: GraphEngine, number: int, text: str) -> dict[str, list[int]]:
    model = onnx.load_from_string(engine.build(number, {"input_shape": text}))
    return {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in model.graph.input}


def test_shapes_are_those_of_the_option_else_of_the_model_else_of_a_scalar() -> None:
    engine, number = parsed("float[2,3] x, float[N] n, float none", "y = Sum (x, n, none)")
    graph = engine._graphs[number].model.graph
    graph.input[2].type.tensor_type.ClearField("shape")
    assert built_shapes(engine, number, "n:3") == {"x": [2, 3], "n": [3], "none": []}
    assert built_shapes(engine, number, "x:4,3;n:3;none:1;other:7") == {"x": [4, 3], "n": [3], "none": [1]}
    with pytest.raises(GeError, match=r"no ranges of shapes: \['n'\]"):
        engine.build(number, {"input_shape": "x:4,3"})


@pytest.mark.parametrize("text", ["x:0,3", "x:2,3;", "x", "x:2,N"])
def test_other_texts_are_refused(text: str) -> None:
    engine, number = parsed("float[2,3] x", "y = Relu (x)")
    built_shapes(engine, number, "x:2,3")
    with pytest.raises(GeError, match="E100"):
        engine.build(number, {"input_shape": text})


def test_an_input_without_a_type_is_refused() -> None:
    model = model_of("float[2,3] x, float[2] z", "y = Relu (x)")
    model.graph.input[1].ClearField("type")
    with pytest.raises(GeError, match="input z: data type 0"):
        GraphEngine().parse(model.SerializeToString())


def test_values_are_rounded_at_the_borders_of_the_graph() -> None:
    engine, number = parsed(
        "float[2] x, int64[2] i", "a = Mul (x, t) y = Add (a, a)", t=np.array([1e6, 0.1], np.float32)
    )
    engine.initialize({})
    model = onnx.load_from_string(engine.build(number, {}))
    assert [node.op_type for node in model.graph.node] == ["Cast", "Cast", "Mul", "Add", "Cast", "Cast"]
    assert numpy_helper.to_array(model.graph.initializer[0]).tolist() == [np.inf, float(np.float16(0.1))]
    engine.initialize({PRECISION_MODE: "must_keep_origin_dtype"})
    model = onnx.load_from_string(engine.build(number, {}))
    assert [node.op_type for node in model.graph.node] == ["Mul", "Add"]


def test_an_engine_that_only_records() -> None:
    engine = GraphEngine(records_only=True)
    model = model_of("float rate, float[2] x", "y = Mul (rate, x)", opset=21)
    number = engine.parse(model.SerializeToString())
    assert built_shapes(engine, number, "rate;x:2") == {"rate": [], "x": [2]}
    assert [each.rank_0_inputs for each in engine.sub_models] == [["rate"]]
    assert "ai.onnx::21::Mul" in engine.refusals()[0]


def check_scatter(reduction: str) -> str:
    model = model_of("float[4] s, int64[3,1] i, float[3] u", f'y = ScatterND <reduction="{reduction}"> (s, i, u)')
    feeds = {"s": image(4), "i": np.array([[0], [0], [2]]), "u": image(3, seed=1) + 5}
    return outcome(model, feeds)


@pytest.mark.parametrize(
    ("first", "reduction", "expected"),
    [
        ("ops-math", "add", "different"),
        ("ops-nn", "add", SAME),
        ("ops-math", "mul", "different"),
        ("ops-nn", "mul", "reduction mul is not supported"),
        ("ops-math", "none", SAME),
    ],
)
def test_the_library_that_is_loaded_first(first: str, reduction: str, expected: str) -> None:
    found = on_device(check_scatter, reduction, **{FIRST_LIBRARY: first})
    assert expected in found
