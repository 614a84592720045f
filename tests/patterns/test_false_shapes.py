# SPDX-License-Identifier: Apache-2.0

"""A declared shape is a claim: where the graph computes another, onnxruntime warns and takes the computed one.

Every gradient here would be one if the declared shapes were right.
"""

from __future__ import annotations

import pytest
from onnx import ModelProto

from poolgrad_lowering import lower
from tests.pool_graphs import parse

SHAPE, REVERSED = "[2,3,7,7]", "[7,7,3,2]"
CONSTANTS = """float zero = {0}, int64[2] canvas = {6, 49}, int64[2] rows = {6, 9}, int64[4] whole = {2, 3, 7, 7},
    int64 plane = {49}, int64[1] first = {-1}, int64[1] end = {-100}, int64[1] axis = {0}"""
GRADIENT = """y, i = MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(w)
    p = Mod(i, plane)
    r = Reshape(p, rows)
    u = Reshape(dy, rows)
    z = Expand(zero, canvas)
    s = ScatterElements<axis = 1, reduction = "add">(z, r, u)"""

OPERANDS = {
    "a Reshape": "w = Reshape(x, given)",
    "an elementwise operator": "w = Relu(x)",
    "a convolution": "k = Expand(zero, ones)  w = Conv(x, k)",
    "a branch": f"""w = If(c) <then_branch = yes () => (float{SHAPE} a) {{ a = Relu(x) }},
                               else_branch = no () => (float{SHAPE} b) {{ b = Neg(x) }}>""",
    "a sequence from a branch": f"""first_one = Constant<value_int = 0>()
        q = If(c) <then_branch = yes () => (seq(float{SHAPE}) a) {{ a = SequenceConstruct(x) }},
                   else_branch = no () => (seq(float{SHAPE}) b) {{ b = SequenceConstruct(x) }}>
        w = SequenceAt(q, first_one)""",
    "a loop": f"""once = Constant<value_int = 1>()
        w = Loop(once, c, x) <body = body (int64 n, bool go, float{SHAPE} before) => (bool on, float{SHAPE} after)
            {{ on = Identity(go)  after = Relu(before) }}>""",
    "a function": "w = local.Same(x)",
    "a function in place of an operator": "w = Softsign(x)",
}
FUNCTIONS = """<domain: "local", opset_import: ["": 18]>
    Backwards (s, x, first, end, axis) => (dx) {
        sizes = Shape(x)  target = Slice(sizes, first, end, axis, first)  dx = Reshape(s, target) }
    <domain: "local", opset_import: ["": 18]> Same (x) => (w) { w = Relu(x) }"""
ANEW = '<domain: "", opset_import: ["": 18]> Softsign (x) => (w) { w = Relu(x) }'


def model_of(text: str) -> ModelProto:
    functions = FUNCTIONS + ANEW if "Softsign" in text else FUNCTIONS
    return parse(text, opset=18, imports='"local": 1', functions=functions)


@pytest.mark.parametrize("operand", OPERANDS.values(), ids=OPERANDS)
@pytest.mark.parametrize("sizes", [REVERSED, "[2,3,8,8]", "[2,3,N,N]"])
def test_an_operand_of_another_shape(operand: str, sizes: str) -> None:
    """The pooled input has the shape that its producer computes, from the sizes of a graph input."""
    model = model_of(
        f"""g (float{sizes} x, float[2,3,3,3] dy, bool c, int64[4] given) => (float{SHAPE} dx)
        <{CONSTANTS}, int64[4] ones = {{1, 1, 1, 1}}, float{SHAPE} w> {{
            {operand}
            {GRADIENT}
            dx = Reshape(s, whole)
        }}"""
    )
    assert not lower(model).report.lowered


@pytest.mark.parametrize("kind", ["seq({})", "optional({})"])
def test_an_element_of_an_input(kind: str) -> None:
    """onnxruntime checks the shapes of tensors that are fed, but not of those in sequences and optionals."""
    taken = "SequenceAt(q, first_one)" if kind.startswith("seq") else "OptionalGetElement(q)"
    model = model_of(
        f"""g ({kind.format(f"float{SHAPE}")} q, float[2,3,3,3] dy) => (float{SHAPE} dx)
        <{CONSTANTS}, int64 first_one = {{0}}> {{
            w = {taken}
            {GRADIENT}
            dx = Reshape(s, whole)
        }}"""
    )
    assert not lower(model).report.lowered


def test_inside_a_function() -> None:
    """What a function declares of its values is not checked by anything."""
    model = parse(
        f"g (float{REVERSED} x, float[2,3,3,3] dy) => (dx) {{ dx = local.Gradient(x, dy) }}",
        opset=18,
        ir=10,
        imports='"local": 1',
        functions=f"""<domain: "local", opset_import: ["": 18]>
        Gradient (x, dy) => (dx) <float{SHAPE} x, float{SHAPE} w> {{
            zero = Constant<value = float {{0.0}}>()
            canvas = Constant<value = int64[2] {{6, 49}}>()
            rows = Constant<value = int64[2] {{6, 9}}>()
            whole = Constant<value = int64[4] {{2, 3, 7, 7}}>()
            plane = Constant<value = int64 {{49}}>()
            w = Relu(x)
            {GRADIENT}
            dx = Reshape(s, whole)
        }}""",
    )
    assert [value.name for value in model.functions[0].value_info] == ["x", "w"]
    [anchor] = lower(model).report.anchors
    assert anchor.status == "refused"


def test_a_name_that_a_size_cannot_have() -> None:
    """A convolution changes the sizes; their old names are no names for the new ones."""

    def verdict(sizes: str) -> tuple[str, str | None]:
        source = "x" if sizes == "H,W" else "w"
        model = parse(
            f"""g (float[2,3,H,W] x, float[4,3,3,3] k, float[2,4,P,Q] dy, int64[2] rows) => (float[2,4,A,B] dx)
            <float zero = {{0}}, int64[1] two = {{2}}, float[2,4,{sizes}] w> {{
                w = Conv(x, k)
                y, i = MaxPool<kernel_shape = [2, 2]>(w)
                f = Shape<start = 2>({source})
                plane = ReduceProd<keepdims = 1>(f)
                p = Mod(i, plane)
                flat = Constant<value_ints = [8, -1]>()
                r = Reshape(p, flat)
                u = Reshape(dy, flat)
                eight = Constant<value_ints = [8]>()
                canvas = Concat<axis = 0>(eight, plane)
                z = Expand(zero, canvas)
                s = ScatterElements<axis = 1, reduction = "add">(z, r, u)
                leading = Constant<value_ints = [2, 4]>()
                whole = Concat<axis = 0>(leading, f)
                dx = Reshape(s, whole)
            }}""",
            opset=18,
        )
        [anchor] = lower(model).report.anchors
        return anchor.status, anchor.code

    assert verdict("A,B") == ("lowered", None)
    assert verdict("H,W")[0] == "refused"
