# SPDX-License-Identifier: Apache-2.0

"""What the export for ATC does to a lowered model besides its rewrites, and in which order it names obstacles."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from poolgrad_lowering import export_atc, lower
from poolgrad_lowering.model.diagnostics.errors import UsageError
from tests.average_models import CASES, average_model
from tests.pool_graphs import parse, torch_gradient
from tests.poolgrad_lowering.ge.atc.average_exports import exported, with_computed_sizes
from tests.poolgrad_lowering.ge.test_obstacles import half_average
from tests.poolgrad_lowering.verification.test_exports import adaptive
from tests.runtime.device_models import GRADIENT
from tests.runtime.device_models import POOL as POOL_OF_DIALECT

POOL = "MaxPool<kernel_shape = [2, 2], storage_order = 1>(X)"


@pytest.mark.parametrize(("name", "target"), [("2d in 3d", "atlas-a2"), ("2d", "ascend950")])
def test_computed_sizes_become_a_constant(name: str, target: str) -> None:
    plain, edits, _ = exported(average_model(CASES[name], 16), target)
    model, computed, obstacles = exported(with_computed_sizes(average_model(CASES[name], 16), declared=True), target)
    assert (computed.rewritten, edits.rewritten, obstacles) == (1, 0, ())
    assert computed.raised == edits.raised == (name == "2d in 3d")
    assert [node.op_type for node in model.graph.node] == [node.op_type for node in plain.graph.node]
    [node] = [node for node in plain.graph.node if node.domain == "npu"]
    lengths = {each.name: len(each.ints) for each in node.attribute if each.name.startswith("onnx_") and each.ints}
    axes = 2 + (name == "2d in 3d")
    assert {length for name, length in lengths.items() if "pads" not in name} == {axes}
    assert {length for name, length in lengths.items() if "pads" in name} == {2 * axes}


def test_nodes_are_sorted() -> None:
    model, _, _ = exported(parse("g (float[2] X) => (Y) { Y = Neg(A) A = Abs(X) }"), "atlas-a2")
    assert [node.op_type for node in model.graph.node] == ["Abs", "Neg"]


def test_what_is_no_longer_there_is_no_longer_declared() -> None:
    model = parse("g (float[1,1,8,8] X) => (Y) { Y, I = MaxPool<kernel_shape = [2, 2]>(X) }")
    for name in "XI":
        model.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.INT64, None))
    assert [value.name for value in exported(model, "atlas-a2")[0].graph.value_info] == ["X"]


def test_the_domain_goes_with_operators_that_were_expanded() -> None:
    expanded, edits, _ = exported(lower(adaptive(13), forward=False).model, "atlas-a2")
    assert edits.expanded
    assert "npu" not in {entry.domain for entry in expanded.opset_import}
    plain, _, _ = exported(parse("g (float[2] X) => (Y) { Y = Neg(X) }", imports='"npu": 1'), "atlas-a2")
    assert "npu" in {entry.domain for entry in plain.opset_import}


def test_obstacles_are_in_the_order_of_nodes_behind_those_of_the_model() -> None:
    gradient = lower(torch_gradient([2, 3, 6, 8], kernel_shape=[2, 2], strides=[2, 2]), target="ascend950").model
    pool = parse(f"g (float[2,3,6,8] X) => (A, B) {{ [first] A = {POOL} [last] B = {POOL} }}").graph
    gradient.graph.node.insert(0, pool.node[0])
    gradient.graph.node.append(pool.node[1])
    gradient.graph.output.extend(pool.output)
    own = [node.name for node in gradient.graph.node if node.domain == "npu"]
    assert [found.node for found in exported(gradient, "atlas-a2")[2]] == ["first", *own, "last"]
    gradient.opset_import[0].version = 20
    assert next(found.node for found in exported(gradient, "atlas-a2")[2]) == ""


@pytest.mark.parametrize("name", ["MaxPool3DWithArgmaxV2", "MaxPoolWithArgmaxV3"])
def test_an_operator_of_another_domain_is_not_the_dialects(name: str) -> None:
    model = parse(f"g (float[1,1,8,8] X) => (Y) {{ Y = acme.{name}(X) }}", imports='"acme": 1')
    export = export_atc(model)
    assert [found.code for found in export.report.obstacles] == ["unregistered-operator"]
    assert [node.op_type for node in export.model.graph.node] == [name]


def test_a_function_of_another_domain_is_not_expanded() -> None:
    model = parse(
        "g (float[2] X) => (Y) { Y = acme.AdaptiveMaxPool3DGrad(X) }",
        imports='"acme": 1',
        functions='<domain: "acme", opset_import: ["": 16]> AdaptiveMaxPool3DGrad (x) => (y) { y = Neg(x) }',
    )
    assert exported(model, "atlas-a2")[1].expanded == ()


@pytest.mark.parametrize(("pattern", "names"), [("W", ("W",)), ("*", ("W", "V")), ("K", None)])
def test_floats_become_inputs(pattern: str, names: tuple[str, ...] | None) -> None:
    model = parse(
        """g (float[2] X) => (Y, Z) <float[2] W = {1.0, 2.0}, float[2] V = {3.0, 4.0}, int64[1] K = {2}> {
            A = Mul(X, W) Y = Add(A, V) Z = Tile(A, K) }"""
    )
    if names is None:
        with pytest.raises(UsageError, match="matches no floating-point initializer"):
            export_atc(model, weights_as_inputs=[pattern])
    else:
        assert export_atc(model, weights_as_inputs=[pattern]).report.edits.inputs == names


ALONE = f"g (float[1,1,4,4] x, float[1,1,2,2] dy, TYPE[1,1,2,2] argmax) => (dx) {{ dx = {GRADIENT} (x, dy, argmax) }}"


@pytest.mark.parametrize(
    ("element", "target", "codes"),
    [("int32", "atlas-a2", []), ("int64", "atlas-a2", ["argmax-type"]), ("int64", "ascend950", [])],
)
def test_the_argmax_of_a_gradient_has_a_type_of_the_target(element: str, target: str, codes: list[str]) -> None:
    model = parse(ALONE.replace("TYPE", element), imports='"npu": 1')
    assert [found.code for found in exported(model, target)[2]] == codes


def test_dilations_that_a_target_has_are_no_obstacle() -> None:
    model = lower(torch_gradient([2, 3, 6, 8], kernel_shape=[2, 2], dilations=[2, 2]), target="ascend950").model
    assert [node.op_type for node in model.graph.node if node.domain == "npu"]
    assert exported(model, "ascend950")[2] == ()


def test_numbers_of_elements_that_are_not_known_are_no_obstacle() -> None:
    model = half_average(47)
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "N"
    assert exported(model, "atlas-a2")[2] == ()
    model = half_average(47)
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_param = "N"
    model.graph.initializer.pop()
    model.graph.input.append(helper.make_tensor_value_info("sizes", TensorProto.INT32, [3]))
    assert [found.code for found in exported(model, "atlas-a2")[2]] == ["computed-sizes"]


@pytest.mark.parametrize("name", ["2d", "2d in 3d"])
def test_only_operators_with_a_rank_in_graphs_need_one(name: str) -> None:
    model = average_model(CASES[name], 16)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    for node in model.graph.node:
        kept = [attribute for attribute in node.attribute if attribute.name != "onnx_kernel_shape"]
        del node.attribute[:]
        node.attribute.extend(kept)
    codes = [found.code for found in exported(model, "ascend950")[2]]
    assert ("unknown-rank" in codes) is (name == "2d in 3d")


def test_windows_or_one_operand_tell_the_rank() -> None:
    model = parse(f"g (float[1] x) => (argmax) {{ y, argmax = {POOL_OF_DIALECT} (x) }}", imports='"npu": 1')
    model.graph.input[0].type.tensor_type.ClearField("shape")
    found, edits, _ = exported(model, "ascend950")
    assert edits.raised == 1
    made = {name for node in found.graph.node if node.domain == "npu" for name in node.output}
    declared = {value.name: value.type.tensor_type.shape.dim for value in found.graph.value_info}
    assert made & declared.keys()
    assert not [dim for name in made & declared.keys() for dim in declared[name] if dim.HasField("dim_value")]
    gradient = parse(ALONE.replace("TYPE", "int32"), imports='"npu": 1')
    gradient.graph.input[0].type.tensor_type.ClearField("shape")
    assert exported(gradient, "atlas-a2")[1].raised == 1


def test_a_result_that_is_left_out_stays_so() -> None:
    model = parse(f"g (float[1,1,4,4] x) => (argmax) {{ y, argmax = {POOL_OF_DIALECT} (x) }}", imports='"npu": 1')
    model.graph.node[0].output[0] = ""
    found, edits, _ = exported(model, "atlas-a2")
    assert edits.raised == 1
    assert [node.output[0] for node in found.graph.node if node.domain == "npu"] == [""]
