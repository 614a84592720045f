# SPDX-License-Identifier: Apache-2.0

"""Models made for ATC are proven against their originals, and what is wrong in one is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from importlib.resources import files
from typing import Any

import jsonschema
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from models import catalogue
from poolgrad_lowering import export_atc, export_cann, lower, verify
from poolgrad_lowering.ge.atc.prepare import expand_operators
from poolgrad_lowering.verification.result import Verification, inputs_line, site_row
from tests.pool_graphs import ort_gradient, parse, torch_gradient

POOL = torch_gradient([2, 3, 6, 6], kernel_shape=[2, 2], strides=[2, 2])


def exported(model: ModelProto, *weights: str, forward: bool = True) -> ModelProto:
    return export_atc(lower(model, forward=forward).model, weights_as_inputs=weights).model


def expanded(model: ModelProto) -> ModelProto:
    result = lower(model, forward=False).model
    assert expand_operators(result)
    return result


def inlined(export: ModelProto) -> list[onnx.NodeProto]:
    """The nodes of the expanded body, which onnx names so."""
    return [node for node in export.graph.node if node.name.endswith("__1")]


def proven(original: ModelProto, export: ModelProto, *, whole: bool = False) -> Verification:
    found = verify(original, export, runs=3, whole_model=whole)
    assert found.proven, (found.differences, found.first_failure, found.whole_model)
    return found


def adaptive(opset: int, element: str = "float") -> ModelProto:
    """A gradient with windows that no MaxPool has, among other nodes."""
    return parse(
        f"""g ({element}[2,3,9,12] x, {element}[2,3,4,5] dy) => ({element}[2,3,4,5] y, {element}[2,3,9,12] out) {{
            size = Constant <value = int64[2] {{4,5}}> ()
            y, i = org.pytorch.aten.adaptive_max_pool2d (x, size)
            dx = org.pytorch.aten.adaptive_max_pool2d_backward (dy, x, i)
            out = Neg (dx)
        }}""",
        opset=opset,
        ir=8,
        imports='"org.pytorch.aten": 1',
    )


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("opset", [11, 12, 13, 15, 18])
@pytest.mark.parametrize("sizes", [[2, 3, 6], [2, 3, 6, 6], [2, 3, 6, 6, 6]])
def test_every_rank_and_opset(sizes: list[int], opset: int, forward: bool) -> None:
    window = [2] * (len(sizes) - 2)
    model = ort_gradient(sizes, opset=opset, kernel_shape=window, strides=window)
    export = exported(model, forward=forward)
    assert len(sizes) == 5 or any(node.op_type == "Unsqueeze" for node in export.graph.node)
    proven(model, export)


@pytest.mark.parametrize(
    ("opset", "element"), [(11, "float"), (13, "float"), (15, "float"), (15, "float16"), (18, "float"), (18, "float16")]
)
def test_expanded_gradients(opset: int, element: str) -> None:
    model = adaptive(opset, element)
    export = expanded(model)
    assert not [node for node in export.graph.node if node.domain == "npu"]
    [site] = proven(model, export).sites
    assert (site.name, site.gradients, site.expanded) == ("main:dx", ("dx",), ("dx",))
    assert site_row(site)[2].endswith("expanded as for ATC: the execution provider has no gradient to run here")


@pytest.mark.parametrize("opset", [11, 13, 15, 18])
def test_expanded_gradients_as_they_are_exported(opset: int) -> None:
    """Where the body sorts, the export narrows the positions, as CANN's graph engine does."""
    model = adaptive(opset)
    export = export_atc(model).model
    [site] = proven(model, export, whole=True).sites
    assert site.expanded == ("dx",)
    for node in [node for node in export.graph.node if node.name.startswith("order__1/")]:
        changed = deepcopy(export)
        edited = next(other for other in changed.graph.node if other.name == node.name)
        edited.attribute[0].i = TensorProto.INT16 if edited.attribute[0].i == TensorProto.INT32 else TensorProto.INT32
        assert not verify(model, changed, runs=1, whole_model=False).proven


def test_a_node_of_the_dialect_is_not_expanded() -> None:
    [site] = proven(POOL, lower(POOL).model).sites
    assert (site.gradients, site.expanded) == (("dX",), ())
    assert "expanded" not in site_row(site)[2]


def test_constants_of_an_expanded_gradient_as_initializers() -> None:
    model = adaptive(13)
    export = expanded(model)
    for node in [node for node in inlined(export) if node.name == "zero_1d__1"]:
        values = onnx.numpy_helper.to_array(node.attribute[0].t)
        export.graph.node.remove(node)
        export.graph.initializer.append(onnx.numpy_helper.from_array(values, node.output[0]))
    assert export.graph.initializer
    proven(model, export)


@pytest.mark.parametrize("make", [lower, export_atc, export_cann])
def test_a_wrong_element_type_of_a_new_value(make: Callable[[ModelProto], Any]) -> None:
    """Runs of a site ignore what the model declares of its values."""
    export = make(POOL).model
    results = [name for node in export.graph.node if node.domain == "npu" for name in node.output]
    for name in [name for name in results if name not in ("dX", "Y")]:
        changed = deepcopy(export)
        for value in [value for value in changed.graph.value_info if value.name == name]:
            changed.graph.value_info.remove(value)
        changed.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.INT64, None))
        [site] = verify(POOL, changed, runs=1, whole_model=False).sites
        assert site.status == "unproven"
        assert site.reason in [f"'{name}' is declared as int64, but is {element}" for element in ("float32", "int32")]


@pytest.mark.parametrize("opset", [13, 18])
def test_an_expanded_gradient_that_is_not_quite_the_body(opset: int) -> None:
    """Any other node, attribute, constant or edge is a difference: only the body itself is known to be a gradient."""
    model = adaptive(opset)
    export = expanded(model)
    assert len(inlined(export)) > 5
    for node in inlined(export):
        changed = ModelProto()
        changed.CopyFrom(export)
        edited = next(other for other in changed.graph.node if other.name == node.name)
        if edited.op_type == "Constant":
            held = onnx.numpy_helper.to_array(edited.attribute[0].t)
            edited.attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(held + 1))
        else:
            edited.op_type = "Identity" if edited.op_type != "Identity" else "Neg"
        assert not verify(model, changed, runs=1, whole_model=False).proven, node.name


def test_an_expanded_gradient_with_something_else_beside_it() -> None:
    model = adaptive(18)
    export = expanded(model)
    last = next(node for node in export.graph.node if node.output[0] == "dx")
    last.output[0] = "nearly"
    export.graph.node.insert(
        list(export.graph.node).index(last) + 1, helper.make_node("Neg", ["nearly"], ["dx"], "more")
    )
    [site] = verify(model, export, runs=1, whole_model=False).sites
    assert site.status != "proven"


@pytest.mark.parametrize("sizes", ["2,3,6,6", "N,3,H,W"])
def test_indices_that_nothing_reads(sizes: str) -> None:
    """They may be taken off a MaxPool; Indices that are read, and outputs of other operators, may not."""
    model = parse(
        f"""g (float[{sizes}] x) => (y, top) {{
            y, i = MaxPool <kernel_shape = [2,2], strides = [2,2]> (x)
            two = Constant <value = int64[1] {{2}}> ()
            flat = Flatten <axis = 1> (y)
            top, places = TopK (flat, two)
        }}"""
    )
    export = exported(model)
    assert len(export.graph.node[0].output) == 1
    assert proven(model, export, whole=True).sites == ()
    export.graph.node[-1].output.pop()
    assert not verify(model, export, whole_model=False).proven
    read = deepcopy(model)
    read.graph.node[0].output[1] = ""
    read.graph.node.append(helper.make_node("Neg", ["i"], ["unread"]))
    assert not verify(model, read, whole_model=False).proven


def test_weights_that_are_trained() -> None:
    model = onnx.load(catalogue.entry("torch/lenet").file)
    names = [tensor.name for tensor in model.graph.initializer if tensor.name.endswith("weight")]
    found = proven(model, exported(model, "*weight"), whole=True)
    assert set(found.new_inputs) == set(names)
    assert all(f"'{name}'" in inputs_line(found) for name in names)
    assert found.whole_model.status == "same"
    schema = json.loads((files("poolgrad_lowering") / "schemas" / "verification.json").read_text())
    jsonschema.validate(json.loads(found.to_json()), schema)


SCALED = parse(
    """g (float[2,3,6,6] x, float[2,3,3,3] dy) => (float[2,3,6,6] dx) <int64[4] sizes = {2,3,3,3}> {
        y, i = MaxPool <kernel_shape = [2,2], strides = [2,2]> (x)
        p = Reshape (i, sizes)
        dx = MaxPoolGrad (dy, p)
    }"""
)


def test_the_value_of_a_weight_is_the_originals() -> None:
    """The shape of a gradient is a weight here; the sites are run with its value."""
    export = lower(SCALED, forward=False).model
    export.graph.initializer.remove(next(held for held in export.graph.initializer if held.name == "sizes"))
    export.graph.input.append(helper.make_tensor_value_info("sizes", TensorProto.INT64, [4]))
    found = proven(SCALED, export)
    assert (found.new_inputs, len(found.sites)) == (("sizes",), 1)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (helper.make_tensor_value_info("body_0_weight", TensorProto.FLOAT, [1]), "another type than the initializer"),
        (
            helper.make_tensor_value_info("body_0_weight", TensorProto.FLOAT16, [6, 1, 5, 5]),
            "another type than the initializer",
        ),
        (helper.make_tensor_value_info("new", TensorProto.FLOAT, [1]), "field 'input' differs"),
    ],
)
def test_inputs_that_are_no_weights(value: onnx.ValueInfoProto, says: str) -> None:
    model = onnx.load(catalogue.entry("torch/nested").file)
    export = exported(model)
    export.graph.input.append(value)
    if value.name != "new":
        export.graph.initializer.remove(next(held for held in export.graph.initializer if held.name == value.name))
    found = verify(model, export, runs=1, whole_model=False)
    assert says in found.differences[0].what


def test_a_weight_that_is_an_input_and_has_a_value() -> None:
    export = exported(POOL)
    tensor = export.graph.initializer[0]
    export.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    found = verify(POOL, export, runs=1, whole_model=False)
    assert [difference.what for difference in found.differences] == ["field 'input' differs"]
    assert found.new_inputs == ()


@pytest.mark.parametrize(("name", "where"), [("ints_2", "read"), ("Y", "taken"), ("dY", "taken"), ("unread", "unread")])
def test_new_initializers(name: str, where: str) -> None:
    """They have names of their own, and new nodes read them."""
    export = exported(POOL)
    if where != "read":
        export.graph.initializer.append(TensorProto(name=name, data_type=1, dims=[0]))
    assert verify(POOL, export, runs=1, whole_model=False).proven == (where == "read")


def test_a_new_initializer_with_the_name_of_a_value_that_was_removed() -> None:
    export = exported(POOL)
    [tensor] = [held for held in export.graph.initializer if held.name == "ints_2"]
    for node in export.graph.node:
        node.input[:] = ["updates" if name == tensor.name else name for name in node.input]
    tensor.name = "updates"
    found = verify(POOL, export, runs=1, whole_model=False)
    assert [difference.what for difference in found.differences] == ["initializer 'updates' is new"]


def test_wrong_axes() -> None:
    export = exported(POOL)
    tensor = next(held for held in export.graph.initializer if held.name == "ints_2")
    tensor.raw_data = bytes([3]) + tensor.raw_data[1:]
    assert not verify(POOL, export, runs=1, whole_model=False).proven


def test_initializers_and_functions_that_nothing_uses() -> None:
    model = parse(
        """g (float[2] x) => (float[2] y) <float[1] unused = {1.0}, float[1] used = {2.0}> { y = Add (x, used) }""",
        imports='"f": 1',
        functions='<domain: "f", opset_import: ["": 16]> Twice (a) => (b) { b = Add (a, a) }',
    )
    lean = ModelProto()
    lean.CopyFrom(model)
    del lean.functions[:], lean.graph.initializer[0], lean.opset_import[1]
    proven(model, lean, whole=True)
    lean.graph.node[0].input[1] = "unused"
    assert not verify(model, lean, whole_model=False).proven
    called = ModelProto()
    called.CopyFrom(model)
    called.graph.node[0].CopyFrom(helper.make_node("Twice", ["x"], ["y"], domain="f"))
    without = ModelProto()
    without.CopyFrom(called)
    del without.functions[:]
    assert not verify(called, without, whole_model=False).proven


@pytest.mark.parametrize("entry", ["torch/nested", "torch_legacy/adaptive"])
def test_a_lowered_model_is_the_original_of_its_export(entry: str) -> None:
    model = lower(onnx.load(catalogue.entry(entry).file)).model
    assert proven(model, export_atc(model).model).sites


def test_a_form_reads_every_operand() -> None:
    """A node that stands for two nodes of a form reads what both of them read."""
    export = export_atc(NORMALIZATION).model
    assert verify(NORMALIZATION, export, whole_model=False).proven
    [scale], [bias] = ([node for node in export.graph.node if node.input[0] == name] for name in "sb")
    [sum_] = [node for node in export.graph.node if bias.output[0] in node.input]
    sum_.input[1] = scale.output[0]
    export.graph.node.remove(bias)
    assert not verify(NORMALIZATION, export, whole_model=False).proven


NORMALIZATION = parse("""g (float[4,3,5,2] x, float[3] s, float[3] b, float[3] m, float[3] v)
    => (float[4,3,5,2] y, float[3] n, float[3] w) {
    y, n, w = BatchNormalization <training_mode = 1> (x, s, b, m, v)
}""")


def test_a_form_has_its_constants() -> None:
    export = export_atc(NORMALIZATION).model
    for number, tensor in enumerate(export.graph.initializer):
        changed = export_atc(NORMALIZATION).model
        other = onnx.numpy_helper.to_array(tensor) + 1
        changed.graph.initializer[number].CopyFrom(onnx.numpy_helper.from_array(other, tensor.name))
        assert not verify(NORMALIZATION, changed, whole_model=False).proven, tensor.name
    assert len(export.graph.initializer) > 3


def test_constants_and_loops_of_a_body_are_compared() -> None:
    """The results may be the same at the sizes that are run, so the nodes have to be those of the body."""
    model = adaptive(15)
    export = expanded(model)
    constants = [node for node in export.graph.node if node.op_type == "Constant" and node.output[0] != "size"]
    [loop] = [node for node in export.graph.node if node.op_type == "Loop"]
    for node in constants:
        values = onnx.numpy_helper.to_array(node.attribute[0].t)
        export.graph.initializer.append(onnx.numpy_helper.from_array(values, node.output[0]))
        export.graph.node.remove(node)
    assert proven(model, export).sites[0].expanded
    for number, tensor in enumerate(export.graph.initializer):
        changed = ModelProto.FromString(export.SerializeToString())
        other = onnx.numpy_helper.to_array(tensor) + 1
        changed.graph.initializer[number].CopyFrom(onnx.numpy_helper.from_array(other.astype(other.dtype), tensor.name))
        found = verify(model, changed, runs=1, whole_model=False)
        assert not any(site.expanded for site in found.sites), tensor.name
    [exchanged] = [node for node in loop.attribute[0].g.node if node.op_type == "Add"]
    exchanged.input[:] = [*exchanged.input][::-1]
    assert not any(site.expanded for site in verify(model, export, runs=1, whole_model=False).sites)


@pytest.mark.parametrize(("op_type", "kept"), [("Reshape", 1), ("Shape", 0)])
def test_a_missing_operand_is_no_traceback(op_type: str, kept: int) -> None:
    """A damaged original, which no runtime loads; its sites can be proven all the same."""
    [entry] = [entry for entry in catalogue.spellings() if entry.name == "spellings/ort_average"]
    model = onnx.load(entry.file)
    lowered = lower(model).model
    for damaged in (model, lowered):
        del next(node for node in damaged.graph.node if node.op_type == op_type).input[kept:]
    sites = verify(model, lowered, whole_model=False).sites
    assert {site.status for site in sites} == {"proven"}


def test_a_reshape_to_more_symbolic_sizes_than_it_reads() -> None:
    model = parse(
        """g (float[R] flat, float[2,N,M] w, int64[3] other) => (float[2,N,M] out) {
            sizes = Shape (w)
            out = Reshape (flat, sizes)
        }""",
        opset=18,
    )
    changed = deepcopy(model)
    changed.graph.node[1].input[1] = "other"
    assert not verify(model, changed, whole_model=False).proven


SCALARS = {
    "cast": "{z} = Cast <to = 1> (zero)",
    "constant": "{z} = Constant <value = float {{0}}> ()",
    "squeeze": "{z}/whole = Squeeze (zeros) {z} = Cast <to = 1> ({z}/whole)",
    "axis": "{z} = Cast <to = 1> (zeros)",
}


def scalar_beside_a_gradient(scalar: str, *, first: bool) -> ModelProto:
    """A gradient whose zeros come from a value that another node computes too, and that one stays."""
    own, other = (scalar.format(z=name).replace("/", "_") for name in ("own", "other"))
    nodes = f"{own} {other}" if first else f"{other} {own}"
    return parse(
        f"""g (float[2,3,4,4] x, float[6,4] dy) => (float[2,3,4,4] out)
        <int64 zero = {{0}}, int64[1] zeros = {{0}}, float one = {{1}},
         int64[2] begin = {{0,0}}, int64[2] end = {{1,1}}, int64[2] axes = {{2,3}},
         int64[2] rows = {{6,4}}, int64[2] plane = {{6,16}}, int64[4] shape = {{2,3,4,4}}> {{
            y, i = MaxPool <kernel_shape = [2,2], strides = [2,2]> (x)
            e, each = MaxPool <kernel_shape = [1,1], strides = [1,1]> (x)
            base = Slice (each, begin, end, axes)
            place = Sub (i, base)
            places = Reshape (place, rows)
            {nodes}
            nothing = Expand (own, plane)
            sums = ScatterElements <axis = 1, reduction = "add"> (nothing, places, dy)
            dx = Reshape (sums, shape)
            more = Add (other, one)
            out = Add (dx, more)
        }}""",
        opset=18,
    )


@pytest.mark.parametrize("first", [True, False], ids=["first", "second"])
@pytest.mark.parametrize("scalar", SCALARS.values(), ids=SCALARS)
def test_of_equal_nodes_the_one_that_stays_is_not_the_gradients(scalar: str, first: bool) -> None:
    model = scalar_beside_a_gradient(scalar, first=first)
    export = export_cann(model).model
    proven(model, export, whole=True)
    [added] = [node for node in export.graph.node if "out" in node.output]
    added.input[1] = added.input[0]
    assert not verify(model, export, runs=1, whole_model=False).proven
