# SPDX-License-Identifier: Apache-2.0

"""What the pass over the operators of training runtimes changes in a model, and what it leaves as it is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, parser

import poolgrad_lowering
from models.training_operators import OPERATORS, example
from poolgrad_lowering.model.facts.training_operators import INFERRED, TRAINING_OPERATORS
from poolgrad_lowering.model.ir.producers import ATEN_DOMAIN, ATEN_GENERIC
from poolgrad_lowering.standard.definition import Definition
from poolgrad_lowering.standard.result import Standardised
from poolgrad_lowering.standard.table import DEFINITIONS, UNDEFINED
from tests.oracles import run_ort
from tests.poolgrad_lowering.standard.standard_models import WITHOUT_OPERATORS, standardised

MICROSOFT = '"com.microsoft": 1'


def parse(text: str, *, opset: int = 18, imports: str = MICROSOFT, functions: str = "") -> ModelProto:
    head = f'<ir_version: 10, opset_import: ["": {opset}{", " if imports else ""}{imports}]>'
    return parser.parse_model(f"{head} {text} {functions}")


def result(model: ModelProto) -> tuple[ModelProto, Standardised]:
    """The model in standard ONNX, of which a part may be left, and the report."""
    before = model.SerializeToString()
    lowered = poolgrad_lowering.lower(model, target=WITHOUT_OPERATORS, standard=True)
    assert model.SerializeToString() == before
    assert lowered.report.standard is not None
    return lowered.model, lowered.report.standard


def all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from all_nodes(inner)


def imported(model: ModelProto) -> list[str]:
    return [entry.domain for entry in model.opset_import]


def initializers(graph: GraphProto) -> list[str]:
    return [tensor.name for tensor in graph.initializer]


# -- the table


def test_every_definition_has_an_example() -> None:
    """An operator that is defined in two domains has one example."""
    defined = {operator for _, operator in DEFINITIONS}
    missing = ", ".join(sorted(defined - set(OPERATORS)))
    assert not missing, f"add a small graph to models/training_operators.py with {missing}"
    assert defined == set(OPERATORS)


def test_no_operator_is_defined_and_undefined() -> None:
    assert not DEFINITIONS.keys() & UNDEFINED.keys()
    assert all(definition.op == op for op, definition in DEFINITIONS.items())


def test_every_row_has_rules_for_its_results_and_a_definition() -> None:
    """ATen's functions have rules of their own, and ONNX infers what its own operators give."""
    known = {op for op in TRAINING_OPERATORS if onnx.defs.has(op[1], op[0])}
    inferred = {op for op, row in TRAINING_OPERATORS.items() if row.shapes == INFERRED}
    assert inferred == known | {(ATEN_DOMAIN, ATEN_GENERIC)}
    assert TRAINING_OPERATORS.keys() == DEFINITIONS.keys()


def test_a_definition_of_an_operator_whose_results_have_no_shape_is_an_error() -> None:
    expected = "^the definition of CubeGrad has no row in TRAINING_OPERATORS of model/facts/training_op"
    with pytest.raises(ValueError, match=expected):
        Definition("CubeGrad", lambda call: call.tensor("dY"), "3 · dY · X²")


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_behind_another_has_a_definition(operator: str) -> None:
    """Nothing is declared of the value between them: its shape and its type follow from the operands."""
    model = example(operator)
    [first] = [value for value in model.graph.output if value.name in last_outputs(model)][:1]
    kind = first.type.tensor_type.elem_type
    if kind not in (TensorProto.FLOAT, TensorProto.DOUBLE) or operator == "InPlaceAccumulatorV2":
        return  # a vector of axes, or a flag
    between = first.name
    rank = len(first.type.tensor_type.shape.dim)
    model.graph.output.remove(first)
    behind = helper.make_node("LogSoftmaxGrad_13", [between, between], ["behind"], domain="com.microsoft", axis=-1)
    if rank:
        model.graph.node.append(behind)
        model.graph.output.append(helper.make_tensor_value_info("behind", kind, [None] * rank))
        report = result(model)[1]
        assert not report.left
        assert report.replaced["com.microsoft.LogSoftmaxGrad_13"] == 1 + (operator == "LogSoftmaxGrad_13")


def last_outputs(model: ModelProto) -> set[str]:
    """The results of nodes of training runtimes."""
    return {name for node in model.graph.node if (node.domain, node.op_type) in DEFINITIONS for name in node.output}


# -- names, types, metadata


@pytest.mark.parametrize("operator", OPERATORS)
def test_lowering_again_changes_nothing(operator: str) -> None:
    once, _ = result(example(operator))
    twice, report = result(once)
    assert twice.SerializeToString() == once.SerializeToString()
    assert not report.replaced
    assert report.is_standard


CHAIN = """g (float[N,4] dY, float[N,4] Y, float[N,4] Z) => (float[N,4] dX, float[N,4] other)
    <float[N,4] between> {
    between = com.microsoft.ReluGrad (dY, Y)
    [kept] sum = Add (between, Z)
    dX = com.microsoft.SigmoidGrad (sum, Z)
    other = Neg (between) }"""


def test_values_between_nodes_keep_their_names() -> None:
    model = parse(CHAIN)
    lowered = standardised(model)
    assert {"between", "sum"} <= {name for node in lowered.graph.node for name in node.output}
    assert [node.op_type for node in lowered.graph.node] == ["Greater", "Where", "Add", "Mul", "Sub", "Mul", "Neg"]
    assert list(lowered.graph.value_info) == list(model.graph.value_info)
    assert [node for node in lowered.graph.node if node.op_type in ("Add", "Neg")] == [
        node for node in model.graph.node if node.op_type in ("Add", "Neg")
    ]


def test_new_names_are_free() -> None:
    """Values, nodes and initializers of the model that have a name which a definition would take."""
    model = parse(
        """g (float[4] dY, float[4] Y, float[4] Z) => (float[4] dX, float[4] W)
        <float "dX/constant" = {2.0}> {
        ["dX/Where_1"] "dX/Greater_0" = Add (Z, "dX/constant")
        ["dX/Greater_0"] W = Mul ("dX/Greater_0", "dX/constant")
        dX = com.microsoft.ReluGrad (dY, Y) }"""
    )
    lowered = standardised(model)
    values = [*initializers(lowered.graph), *(name for node in lowered.graph.node for name in node.output)]
    for names in (values, [node.name for node in lowered.graph.node]):
        assert len(set(names)) == len(names)
    feeds = {name: np.array([1, -2, 3, -4], np.float32) for name in ("dY", "Y", "Z")}
    found = run_ort(lowered, feeds)
    assert found["dX"].tolist() == [1, 0, 3, 0]
    assert found["W"].tolist() == [6, 0, 10, -4]


def test_metadata_of_a_node_is_on_all_nodes_in_its_place() -> None:
    model = parse(CHAIN)
    for number, node in enumerate(model.graph.node):
        node.metadata_props.add(key="from", value=str(number))
    lowered = standardised(model)
    found = [[(prop.key, prop.value) for prop in node.metadata_props] for node in lowered.graph.node]
    assert found == [[("from", number)] for number in "0012223"]


@pytest.mark.parametrize("output", [True, False])
def test_the_accumulator_returns_the_buffer(output: bool) -> None:
    """The flag that it returned is the new buffer, of the buffer's type and shape."""
    text = """g (float[2,3] buffer, float[2,3] value, bool[1] reset) => (bool[1] flag) {
        flag = com.microsoft.InPlaceAccumulatorV2 (buffer, value, reset) }"""
    if not output:
        text = text.replace("=> (bool[1] flag) {", "=> (float[2,3] sum) <bool[1] flag> {").replace(
            "}", "sum = Identity (value) }"
        )
    lowered = standardised(parse(text))
    [flag] = [value for value in (*lowered.graph.output, *lowered.graph.value_info) if value.name == "flag"]
    assert flag.type == lowered.graph.input[0].type


ACCUMULATOR = "{} = com.microsoft.InPlaceAccumulatorV2 (buffer, value, reset)"


@pytest.mark.parametrize(
    "nodes",
    [
        f"{ACCUMULATOR.format('flag')} out = Not (flag)",
        f"out = If (reset) <then_branch = t () => (bool[1] a) {{ {ACCUMULATOR.format('a')} }},"
        " else_branch = e () => (bool[1] b) { b = Not (reset) }>",
    ],
)
def test_an_accumulator_stays_whose_flag_is_read(nodes: str) -> None:
    """Or is the result of a branch: there the type of the new buffer would be a wrong one."""
    model = parse(f"g (float[2,3] buffer, float[2,3] value, bool[1] reset) => (bool[1] out) {{ {nodes} }}")
    lowered, report = result(model)
    assert lowered.SerializeToString() == model.SerializeToString()
    assert [found.code for found in report.left] == ["uncovered-operand"]


def test_a_second_output_of_the_accumulator_stays_unwritten() -> None:
    """onnxruntime returns the buffer there too; no graph of its builder has it, and no definition covers it."""
    model = parse(
        """g (float[4] buffer, float[4] value, bool[1] reset) => (bool[1] flag, float[4] sum) {
        [n] flag, sum = com.microsoft.InPlaceAccumulatorV2 (buffer, value, reset) }"""
    )
    lowered, report = result(model)
    assert lowered.SerializeToString() == model.SerializeToString()
    assert [(node.code, node.reason) for node in report.left] == [
        ("uncovered-operand", "2 outputs, of which its definition has 1")
    ]


def test_an_operand_too_many_is_not_forgotten() -> None:
    model = parse(
        """g (float[4] dY, float[4] Y, float[4] Z) => (float[4] dX) { dX = com.microsoft.ReluGrad (dY, Y, Z) }"""
    )
    lowered, report = result(model)
    assert lowered.SerializeToString() == model.SerializeToString()
    assert [node.reason for node in report.left] == ["3 inputs, of which its definition has 2"]


# -- what goes with the nodes


def test_what_nothing_reads_goes() -> None:
    """The initializers and the imports that only a replaced node had; not those that others read, or a caller gives."""
    model = parse(
        """g (float[N,6] X, float[N,2] dY, int64[1] given) => (float[N,6] dX, int64[1] Y)
        <int64[1] starts = {1}, int64[1] ends = {5}, int64[1] axes = {1}, int64[1] steps = {2}, int64[1] given = {3}> {
        shape = Shape (X)
        dX = com.microsoft.SliceGrad (dY, shape, starts, ends, axes, steps)
        Y = Add (axes, given) }""",
        imports='"com.microsoft": 1, "org.pytorch.aten": 1',
    )
    unread = TensorProto(name="never read", data_type=TensorProto.FLOAT, dims=[1], float_data=[1.0])
    model.graph.initializer.append(unread)
    lowered = standardised(model)
    names = [name for name in initializers(lowered.graph) if not name.startswith("dX/")]
    assert names == ["axes", "given", "never read"]
    assert imported(lowered) == [""]


def test_a_default_that_a_caller_may_override_stays() -> None:
    """It is a graph input, which the caller may still give."""
    model = parse(
        """g (float[4] dY, bool[4] mask, float ratio) => (float[4] dX) <float ratio = {0.5}, bool training = {0}> {
        dX = com.microsoft.DropoutGrad (dY, mask, ratio, training) }"""
    )
    assert initializers(standardised(model).graph) == ["ratio"]


def test_the_import_of_a_node_that_is_left_stays() -> None:
    model = parse(
        """g (float[4] dY, float[4] Y) => (float[4] dX, float[4] Z) {
        dX = com.microsoft.ReluGrad (dY, Y)
        [left] Z = com.microsoft.Send (dY) }"""
    )
    lowered, report = result(model)
    assert imported(lowered) == ["", "com.microsoft"]
    assert [node.node for node in report.left] == ["left"]
    assert report.replaced == {"com.microsoft.ReluGrad": 1}


def test_equal_constants_are_one_initializer() -> None:
    """Those of one type: the zeros of ReluGrad of float32 are one, that of float16 is another."""
    model = parse(
        """g (float[4] dY, float[4] Y, float16[4] dH, float16[4] H) => (float[4] A, float[4] B, float16[4] C) {
        A = com.microsoft.ReluGrad (dY, Y)
        B = com.microsoft.LeakyReluGrad <alpha = 0.5> (dY, Y)
        C = com.microsoft.ReluGrad (dH, H) }"""
    )
    lowered = standardised(model)
    values = [onnx.numpy_helper.to_array(tensor) for tensor in lowered.graph.initializer]
    assert sorted((array.dtype.name, float(array)) for array in values) == [
        ("float16", 0.0),
        ("float32", 0.0),
        ("float32", 0.5),
    ]


# -- graphs in graphs

INNER = """If (c) <then_branch = t () => (float[4] a) { a = com.microsoft.ReluGrad (dY, Y) },
    else_branch = e () => (float[4] b) { b = com.microsoft.SigmoidGrad (dY, Y) }>"""


@pytest.mark.parametrize("beside", [False, True])
def test_nodes_of_subgraphs_are_replaced(beside: bool) -> None:
    """Also where the graph that holds them has such nodes itself."""
    outer = "com.microsoft.TanhGrad" if beside else "Add"
    model = parse(
        f"g (float[4] dY, float[4] Y, bool c) => (float[4] dX, float[4] Z) {{ dX = {outer} (dY, Y) Z = {INNER} }}"
    )
    lowered = standardised(model)
    assert all(node.domain == "" for node in all_nodes(lowered.graph))
    assert imported(lowered) == [""]
    y = np.array([-1, 0.5, 2, 0.25], np.float32)
    dy = np.ones(4, np.float32)
    for chosen, expected in ((True, (y > 0).astype(np.float32)), (False, y * (1 - y))):
        found = run_ort(lowered, {"dY": dy, "Y": y, "c": np.array(chosen)})
        np.testing.assert_array_equal(found["Z"], expected)
        np.testing.assert_array_equal(found["dX"], 1 - y * y if beside else dy + y)


def test_an_operator_that_the_model_defines_stays() -> None:
    model = parse(
        "g (float[4] dY, float[4] Y) => (float[4] dX) { dX = com.microsoft.ReluGrad (dY, Y) }",
        functions='<domain: "com.microsoft", opset_import: ["": 18]> ReluGrad (a, b) => (c) { c = Sub (a, b) }',
    )
    lowered, report = result(model)
    assert lowered.SerializeToString() == model.SerializeToString()
    assert report == Standardised({}, ())


def test_nodes_of_functions_are_named() -> None:
    """A body is written for the sizes of one call, so that the nodes of functions stay, which the report says."""
    model = parse(
        "g (float[4] dY, float[4] Y) => (float[4] dX) { dX = local.twice (dY, Y) }",
        imports='"com.microsoft": 1, "local": 1',
        functions='<domain: "local", opset_import: ["": 18, "com.microsoft": 1]>'
        " twice (a, b) => (d) { [r] c = com.microsoft.ReluGrad (a, b) d = Add (c, c) }",
    )
    lowered, report = result(model)
    assert lowered.SerializeToString() == model.SerializeToString()
    assert [(node.node, node.operator, node.code, node.reason) for node in report.left] == [
        ("r", "com.microsoft.ReluGrad", "uncovered-operand", "it is in the body of function local.twice")
    ]


# -- nodes that no runtime would have written


def mutants(model: ModelProto) -> Iterator[tuple[str, ModelProto]]:
    """The model with one attribute or operand of its node gone, or of another kind or length."""
    position = next(number for number, node in enumerate(model.graph.node) if node.op_type in OPERATORS)

    def changed(label: str, change: Any) -> tuple[str, ModelProto]:
        copy = ModelProto()
        copy.CopyFrom(model)
        change(copy.graph.node[position])
        return label, copy

    node = model.graph.node[position]
    for number, attribute in enumerate(node.attribute):
        values: list[Any] = [-7, 0, 99, 0.5, "text", [1], [-1, 2], [0] * 9, [1.5]]
        yield changed(f"no {attribute.name}", lambda each, number=number: each.attribute.pop(number))
        for value in values:
            new = helper.make_attribute(attribute.name, value)
            yield changed(
                f"{attribute.name} = {value}", lambda each, n=number, new=new: each.attribute[n].CopyFrom(new)
            )
        empty = AttributeProto(name=attribute.name, type=AttributeProto.INTS)
        yield changed(f"{attribute.name} = []", lambda each, n=number, new=empty: each.attribute[n].CopyFrom(new))
    for number in range(len(node.input)):
        yield changed(f"no input {number}", lambda each, n=number: each.input.__setitem__(n, ""))
        yield changed(f"{number} inputs", lambda each, n=number: each.input.__delitem__(slice(n, None)))
    for a, b in itertools.combinations(range(len(node.input)), 2):
        yield changed(f"inputs {a} and {b} exchanged", lambda each, a=a, b=b: _exchange(each, a, b))


def _exchange(node: NodeProto, a: int, b: int) -> None:
    node.input[a], node.input[b] = node.input[b], node.input[a]


MALFORMED = {
    "a kernel of another rank": """g (float[2,4,3,3] dY, float[2,2,5,5] X, float[4,2,3,3] W) => (float[2,2,5,5] dX) {
        dX = com.microsoft.ConvGrad <kernel_shape = [3]> (dY, X, W) }""",
    "a kernel that is not the weight's": """g (float[2,4,3] dY, float[2,2,5] X, float[4,2,3] W) => (float[2,2,5] dX) {
        dX = com.microsoft.ConvGrad <kernel_shape = [2]> (dY, X, W) }""",
    "padding of another rank": """g (float[2,2,9] dY, float[2,4,5] X, float[4,2,3] W) => (float[2,4,5] dX) {
        dX = com.microsoft.ConvTransposeGrad <strides = [2], output_padding = [1, 1]> (dY, X, W) }""",
    "padding of a whole stride": """g (float[2,2,8] dY, float[2,4,5] X, float[4,2,2] W) => (float[2,4,5] dX) {
        dX = com.microsoft.ConvTransposeGrad <dilations = [2], output_padding = [1]> (dY, X, W) }""",
    "scales of another rank": """g (float[1,2,6] dY, float[1,2,3] X) => (float[1,2,3] dX) <float[2] s = {1.0, 2.0}> {
        dX = com.microsoft.ResizeGrad <mode = "linear"> (dY, X, , s) }""",
    "scales of channels": """g (float[1,4,6] dY, float[1,2,3] X) => (float[1,2,3] dX) <float[3] s = {1.0, 2.0, 2.0}> {
        dX = com.microsoft.ResizeGrad <mode = "linear"> (dY, X, , s) }""",
    "more ends than starts": """g (float[N,2] dY) => (float[N,6] dX)
        <int64[2] shape = {2, 6}, int64[1] starts = {1}, int64[2] ends = {3, 4}> {
        dX = com.microsoft.SliceGrad (dY, shape, starts, ends) }""",
    "an axis that is not there": """g (float[N,2] dY) => (float[N,6] dX)
        <int64[2] shape = {2, 6}, int64[1] starts = {1}, int64[1] ends = {3}, int64[1] axes = {2}> {
        dX = com.microsoft.SliceGrad (dY, shape, starts, ends, axes) }""",
    "a pool of one image": """g (float[2,4,4] x, float[2,2,2] dY) => (float[2,4,4] dX)
        <int64[2] k = {2, 2}, int64[2] z = {0, 0}, bool no = {0}> {
        dX = org.pytorch.aten.ATen <operator = "avg_pool2d_backward"> (dY, x, k, k, z, no, no, ) }""",
    "one size for two axes": """g (float[1,2,4,4] x) => (float[1,2,2,2] y) <int64[1] k = {2}> {
        y = org.pytorch.aten.ATen <operator = "_adaptive_avg_pool2d"> (x, k) }""",
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_operands_that_do_not_fit_each_other(text: str) -> None:
    model = parse(text, imports='"com.microsoft": 1, "org.pytorch.aten": 1')
    lowered, report = result(model)
    assert lowered.SerializeToString() == model.SerializeToString()
    assert [node.code for node in report.left] == ["uncovered-operand"]


@pytest.mark.parametrize("operator", OPERATORS)
def test_malformed_nodes_are_no_errors(operator: str) -> None:
    """They are left with a reason, or written by what is known of them."""
    for label, model in mutants(example(operator)):
        try:
            lowered = poolgrad_lowering.lower(model, standard=True)
        except poolgrad_lowering.PoolgradError:
            continue  # the gate: such a model is none of ONNX
        except Exception as error:
            raise AssertionError(label) from error
        standard = lowered.report.standard
        assert standard is not None
        if standard.left and not standard.replaced:
            assert lowered.model.SerializeToString() == model.SerializeToString(), label


@pytest.mark.parametrize("opset", [15, 16])
@pytest.mark.parametrize(
    "graph",
    [
        "g (float[13,8] w, int64[N,L] i, float[N,L,8] dY) => (float[13,8] dX) {"
        " s = Shape(w) dX = com.microsoft.GatherGrad <axis = 0> (s, i, dY) }",
        "g (float[2000,8] w, int64[N,L] i, float[N,L,8] dY) => (float[2000,8] dX) {"
        " s = Shape(w) dX = com.microsoft.GatherGrad <axis = 0> (s, i, dY) }",
        "g (float[N,8] x, int64[M,1] i, float[M,8] dY) => (float[N,8] dX) {"
        " s = Shape(x) dX = com.microsoft.GatherNDGrad (s, i, dY) }",
        "g (float[N,6,8] x, float[N,8] dY) => (float[N,6,8] dX) <int64 last = {-1}> {"
        " s = Shape(x) dX = com.microsoft.GatherGrad <axis = 1> (s, last, dY) }",
        "g (float[N,8] x, float[M,3] p, float[K,3] q) => (float[N,8] dX) <int64[3] columns = {7,-1,2}> {"
        " dY = Add(p, q) s = Shape(x) dX = com.microsoft.GatherGrad <axis = 1> (s, columns, dY) }",
    ],
    ids=["an embedding of sequences", "a large embedding", "nodes of edges", "the last position", "columns"],
)
def test_gathers_of_any_batch_are_proven_for_graph_mode(graph: str, opset: int) -> None:
    """The numbers of their rows have no names that ONNX's inference knows."""
    step = standardised(parse(graph, opset=opset))
    exported = poolgrad_lowering.export_cann(step)
    assert not exported.report.obstacles
    found = poolgrad_lowering.verify(step, exported.model)
    assert (found.differences, found.whole_model.status) == ((), "same")
