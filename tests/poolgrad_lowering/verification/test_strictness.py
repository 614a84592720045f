# SPDX-License-Identifier: Apache-2.0

"""What equal results on some data do not prove: attributes, function bodies, windows, and nodes among the values."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

from models import catalogue
from poolgrad_lowering import lower, verify
from poolgrad_lowering.dialect import function_body
from poolgrad_lowering.verification.result import Verification
from tests.generators.places import in_a_function
from tests.pool_graphs import parse, torch_gradient
from tests.poolgrad_lowering.verification.sabotage import attributes, in_body, without_attribute

POOL = torch_gradient([2, 3, 6, 6], kernel_shape=[2, 2], strides=[2, 2])
GRADIENT = "dX/MaxPool3DGradWithArgmax"


def edited(*edits: Callable[[ModelProto], None], original: ModelProto = POOL, forward: bool = False) -> Verification:
    lowered = lower(original, forward=forward).model
    for edit in edits:
        edit(lowered)
    return verify(original, lowered, whole_model=False)


def gradient_of(model: ModelProto) -> NodeProto:
    return next(node for node in model.graph.node if "Grad" in node.op_type)


def without(name: str) -> Callable[[ModelProto], None]:
    return lambda model: without_attribute(name)(gradient_of(model))


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (attributes(GRADIENT, data_format="NDHWC"), "attribute 'data_format' is 'NDHWC', expected one of"),
        (without("data_format"), "attribute 'data_format' is missing"),
        (without("ceil_mode"), "attribute 'ceil_mode' is missing"),
        (attributes(GRADIENT, ceil_mode=2), "attribute 'ceil_mode' is 2, expected one of"),
        (attributes(GRADIENT, auto_pad="VALID"), "attribute 'auto_pad' is unknown"),
        (attributes(GRADIENT, strides=[1, 2**31, 2]), "attribute 'strides' is (1, 2147483648, 2), above"),
        (lambda model: gradient_of(model).attribute.append(gradient_of(model).attribute[0]), "is there twice"),
        (lambda model: setattr(gradient_of(model).attribute[0], "ref_attr_name", "c"), "refers to an attribute"),
        (lambda model: setattr(gradient_of(model), "overload", "more"), "it calls the overload 'more'"),
        (lambda model: gradient_of(model).input.append(""), "its inputs are not x, grad, argmax"),
        (lambda model: gradient_of(model).output.pop(), "its outputs are not y"),
    ],
)
def test_nodes_of_the_dialect_are_as_declared(edit: Callable[[ModelProto], None], says: str) -> None:
    found = edited(edit)
    assert any(says in difference.what for difference in found.differences), found.differences


def test_the_index_type_of_a_pool_is_written_out() -> None:
    def edit(model: ModelProto) -> None:
        without_attribute("dtype")(next(node for node in model.graph.node if "WithArgmaxV2" in node.op_type))

    assert "attribute 'dtype' is missing" in edited(edit, forward=True).differences[0].what


@pytest.mark.parametrize(
    "change",
    [
        in_body("MaxPool3DGradWithArgmax", "Reshape", without_attribute("allowzero")),
        lambda model: setattr(model.functions[0].node[0], "name", "another"),
        lambda model: setattr(model.functions[0].attribute_proto[-1], "s", b"NDHWC"),
        lambda model: model.functions[0].attribute_proto.add(name="further", i=0, type=onnx.AttributeProto.INT),
        lambda model: setattr(model.functions[0], "doc_string", "mine"),
        lambda model: model.functions[0].CopyFrom(function_body("MaxPool3DGradWithArgmax", 16, [TensorProto.FLOAT])),
    ],
)
def test_a_body_that_is_not_this_versions(change: Callable[[ModelProto], None]) -> None:
    """It is run, and equal results are told, but they do not prove it."""
    [site] = edited(change).sites
    assert (site.status, site.runs) == ("unproven", 9)
    differs = "the function body of MaxPool3DGradWithArgmax differs from this version's"
    assert site.reason == f"{differs}; in these runs it gave the same results"


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.functions[0].attribute_proto.pop(),
        lambda model: model.functions[0].node[0].ClearField("domain"),
        lambda model: setattr(model.functions[0].node[0], "doc_string", ""),
    ],
)
def test_a_body_as_other_tools_write_it(change: Callable[[ModelProto], None]) -> None:
    """Without empty strings, with further ones, or without a default, which the node has in any case."""
    assert edited(change).proven


def test_a_function_that_is_defined_twice() -> None:
    found = edited(lambda model: model.functions.append(model.functions[0]))
    assert [each.what for each in found.differences] == ["function npu.MaxPool3DGradWithArgmax is defined twice"]


@pytest.mark.parametrize(("name", "step"), [("ksize", 1), ("ksize", -1), ("strides", 1), ("strides", -1)])
@pytest.mark.parametrize("sizes", ["6,7", "h,w"])
def test_windows_are_those_of_the_pool(sizes: str, name: str, step: int) -> None:
    """Also where their number is the same, and each holds its maximum: at 7, one more in the kernel or the stride."""
    model = parse(
        f"""g (float[2,3,{sizes}] x, float[2,3,p,q] dy) => (float[2,3,{sizes}] dx) {{
            y, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
            dx = MaxPoolGrad (dy, i)
        }}"""
    )
    kept = {"ksize": [1, 2, 2], "strides": [1, 2, 2]}[name]
    assert edited(original=model).proven
    found = edited(attributes("dx/MaxPool3DGradWithArgmax", **{name: [*kept[:2], kept[2] + step]}), original=model)
    assert not found.proven


LARGE = """g (float[n,2,h,w] x, float[n,2,p,q] dy) => (float[n,2,h,w] dx) {{
    y, i = MaxPool <kernel_shape=[{kernel},{kernel}], strides=[{stride},{stride}], pads=[{pads}]> (x)
    dx = {gradient} (dy, i)
}}"""


@pytest.mark.parametrize(
    ("kernel", "stride", "pads"), [(3, 36, "0,0,0,0"), (35, 1, "0,0,0,0"), (40, 7, "1,2,3,3"), (300, 300, "0,0,0,0")]
)
def test_large_windows_on_symbolic_sizes(kernel: int, stride: int, pads: str) -> None:
    model = parse(LARGE.format(kernel=kernel, stride=stride, pads=pads, gradient="MaxPoolGrad"))
    assert edited(original=model).proven
    wrong = [1, stride, stride + 14]
    assert not edited(attributes("dx/MaxPool3DGradWithArgmax", strides=wrong), original=model).proven


def test_sizes_alone_tell_strides_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in forms where the windows of the pool are not known: 36 and 50 are the same up to a size of 38."""
    monkeypatch.setattr("poolgrad_lowering.verification.sites.doubts._other_windows", lambda _: None)
    model = parse(LARGE.format(kernel=3, stride=36, pads="0,0,0,0", gradient="MaxPoolGrad"))
    [site] = edited(attributes("dx/MaxPool3DGradWithArgmax", strides=[1, 36, 50]), original=model).sites
    assert site.status == "differs"


@pytest.mark.parametrize("name", ["strides", "dilation"])
def test_axes_that_x_does_not_have(name: str) -> None:
    """They have one window of one element, also in a pool, whose body does not read Ascend's attributes."""
    kept = {"strides": [2, 2, 2], "dilation": [2, 1, 1]}[name]
    [site] = edited(attributes("Y/MaxPool3DWithArgmaxV2", **{name: kept}), forward=True).sites
    assert site.mismatch is not None
    assert "they pool an axis that x does not have" in site.mismatch.what


@pytest.mark.parametrize("place", ["x", "grad", "y"])
def test_nodes_among_the_values(place: str) -> None:
    """A node that changes one value only, which no data has."""

    def edit(model: ModelProto) -> None:
        node = gradient_of(model)
        source, result = ("before", "dX") if place == "y" else (node.input[place == "grad"], "after")
        nodes = [
            helper.make_node("Constant", [], ["value"], value_float=0.12345678),
            helper.make_node("Equal", [source, "value"], ["hit"]),
            helper.make_node("Neg", [source], ["negated"]),
            helper.make_node("Where", ["hit", "negated", source], [result]),
        ]
        if place == "y":
            node.output[0] = source
            model.graph.node.extend(nodes)
        else:
            node.input[place == "grad"] = result
            for each in reversed(nodes):
                model.graph.node.insert(0, each)

    [site] = edited(edit).sites
    assert site.status == "unproven"
    assert site.reason is not None
    assert "computes with values; only operators of the dialect may" in site.reason


def test_a_new_node_that_nothing_reads() -> None:
    def edit(model: ModelProto) -> None:
        model.graph.node.append(helper.make_node("Identity", ["dX/argmax"], ["unread"]))

    assert [each.what for each in edited(edit).differences] == ["node 'unread' (Identity): nothing reads its outputs"]


def test_an_output_that_is_removed() -> None:
    """Of any node or of the graph: a difference, and no error of verify's own."""
    for forward in (True, False):
        lowered = lower(POOL, forward=forward).model
        for number, node in enumerate(lowered.graph.node):
            for position in range(len(node.output)):
                found = edited(lambda m, n=number, p=position: m.graph.node[n].output.pop(p), forward=forward)  # type: ignore[misc]
                assert not found.proven
        assert edited(lambda model: model.graph.output.pop(), forward=forward).differences


def test_branches_with_the_same_nodes() -> None:
    """As onnxruntime's symbolic_shape_infer writes a branch that is always taken; a node belongs to its branch."""
    branch = """() => (float[2,3,6,6] r) <int64[2] rows = {6, 9}, int64[2] planes = {6, 36}, int64 plane = {36},
        int64[4] shape = {2, 3, 6, 6}> {
            k = Mod (i, plane) m = Reshape (k, rows) u = Reshape (dy, rows)
            z = ConstantOfShape <value = float[1] {0}> (planes)
            s = ScatterElements <axis=1, reduction="add"> (z, m, u)
            r = Reshape (s, shape)
        }"""
    model = parse(
        f"""g (bool c, float[2,3,6,6] x, float[2,3,3,3] dy) => (float[2,3,6,6] out) {{
            y, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
            out = If (c) <then_branch = a {branch}, else_branch = b {branch}>
        }}"""
    )
    lowered = lower(model).model
    found = verify(model, lowered)
    assert found.proven, (found.differences, found.first_failure, found.whole_model)
    assert [len(site.gradients) for site in found.sites] == [2]
    model.graph.node[1].attribute[0].g.node.add(op_type="Neg", input=["r"], output=["n"])
    lowered.graph.node[-1].attribute[1].g.node.add(op_type="Neg", input=["r"], output=["n"])
    assert not verify(model, lowered, whole_model=False).proven


@pytest.mark.parametrize("entry", ["torch/nested", "torch/spatial_pyramid"])
@pytest.mark.parametrize("blocked", [[], ["ScatterElements"]])
def test_models_of_onnxruntimes_float16_converter(entry: str, blocked: list[str]) -> None:
    float16 = pytest.importorskip("onnxruntime.transformers.float16")
    model = float16.convert_float_to_float16(
        onnx.load(catalogue.entry(entry).file),
        keep_io_types=True,
        disable_shape_infer=True,
        op_block_list=[*float16.DEFAULT_OP_BLOCK_LIST, *blocked],
    )
    result = lower(model)
    assert result.report.lowered
    found = verify(model, result.model, whole_model=False)
    assert found.proven, (found.differences, found.first_failure)


def test_inputs_that_do_not_fit_are_verifys_own() -> None:
    """onnxruntime is not blamed for sizes that verify chose; it tries some."""
    pytest.importorskip("onnxruntime")
    text = "g (float[h,w] x, float[{rows},2] a) => (float[h,2] y) {{ y = MatMul (x, a) }}"
    fits, fixed = (parse(text.format(rows=rows)) for rows in ("w", 3))
    pool = parse("g (float[1,1,h,w] x) => (float[1,1,p,q] y) { y = MaxPool <kernel_shape=[7,7]> (x) }")
    assert verify(fits, fits).whole_model.status == verify(pool, pool).whole_model.status == "same"
    whole = verify(fixed, fixed).whole_model
    assert whole.status == "skipped"
    assert whole.reason is not None
    assert "the original does not run with the inputs that verify drew" in whole.reason


def test_a_site_in_a_function_that_nothing_calls() -> None:
    named = ModelProto.FromString(POOL.SerializeToString())
    for node in named.graph.node:
        node.name = node.output[0]
    model = in_a_function(named, [])
    lowered = lower(model).model
    for each in (model, lowered):
        del each.graph.node[:]
        each.graph.node.append(helper.make_node("Identity", ["X"], ["dX"]))
    found = verify(model, lowered, whole_model=False)
    assert [difference.what for difference in found.differences] == [
        "differs, and the main graph does not call it: it cannot run"
    ]


def test_a_new_value_with_the_name_of_another_scope() -> None:
    """In a subgraph the name would be another value's."""
    model = parse("""g (bool c, float[1,1,4] x, float[1,1,2] dy) => (dx, z) {
        y, i = MaxPool <kernel_shape = [2], strides = [2]> (x)
        dx = MaxPoolGrad (dy, i)
        z = If (c) <
            then_branch = t () => (a) { inner = Neg (dx) a = Neg (inner) },
            else_branch = e () => (b) { b = Neg (dx) }>
    }""")
    lowered = lower(model).model
    before = {name for node in model.graph.node for name in node.output}
    new = next(name for node in lowered.graph.node for name in node.output if name not in before)
    for node in lowered.graph.node:
        for names in (node.input, node.output):
            names[:] = ["inner" if name == new else name for name in names]
    found = verify(model, lowered, whole_model=False)
    assert "the new value 'inner' has the name of another one" in [each.what for each in found.differences]
