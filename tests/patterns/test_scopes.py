# SPDX-License-Identifier: Apache-2.0

"""Gradients wherever a graph can have them, in every form: branches, loop bodies, functions; and pools that share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import ModelProto, inliner

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.oracles import run_reference
from tests.patterns.lowering_checks import TARGETS, check_refused, check_same_results, check_well_formed
from tests.pool_graphs import parse, random_feeds

Array = npt.NDArray[Any]

POOL = "y, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)"
PLANE_LOCAL = "hw = Constant <value_int=64> () \n p = Mod (i, hw)"
FLAT_ROWS = "rows = Constant <value_ints=[6,16]> () \n r = Reshape (p, rows) \n u = Reshape (dy, rows)"
WHOLE = "whole = Constant <value_ints=[2,3,8,8]> () \n dx = Reshape (s, whole)"
FORMS = {  # the nodes from x, i and dy to dx
    "ort_max_pool_grad": "dx = MaxPoolGrad (dy, i)",
    "torch_scatter_add": f"""{PLANE_LOCAL} {FLAT_ROWS}
        canvas = Constant <value_ints=[6,64]> ()
        z = ConstantOfShape (canvas)
        s = ScatterElements <axis=1, reduction="add"> (z, r, u)
        {WHOLE}""",
    "torch_scatter_add, ScatterND": f"""{PLANE_LOCAL}
        base = Constant <value = int64[2,3,1,1] {{0, 64, 128, 192, 256, 320}}> ()
        all = Constant <value_ints=[-1]> ()
        canvas = Constant <value_ints=[384]> ()
        a = Add (p, base)
        r = Reshape (a, all)
        v = Unsqueeze (r, all)
        u = Reshape (dy, all)
        z = ConstantOfShape (canvas)
        s = ScatterND <reduction="add"> (z, v, u)
        {WHOLE}""",
    "overwrite_scatter": f"""{PLANE_LOCAL} {FLAT_ROWS}
        canvas = Constant <value_ints=[6,64]> ()
        z = ConstantOfShape (canvas)
        s = ScatterElements <axis=1> (z, r, u)
        zeros = ConstantOfShape (canvas)
        t = Add (s, zeros)
        whole = Constant <value_ints=[2,3,8,8]> ()
        dx = Reshape (t, whole)""",
    "onnx_max_unpool": """u = MaxUnpool <kernel_shape=[2,2], strides=[2,2]> (dy, i)
        z = Constant <value_float=0.0> ()
        dx = Add (u, z)""",
    "tensorflow_max_pool_grad": "dx = MaxPoolGrad "
    '<ksize=[1,1,2,2], strides=[1,1,2,2], padding="VALID", data_format="NCHW"> (x, y, dy)',
}
INPUTS = "float[2,3,8,8] x, float[2,3,4,4] dy"
RESULT = "float[2,3,8,8] dx"


def renamed(nodes: str) -> str:
    """The nodes with a result that has its own name in the inner graph."""
    return nodes.replace("dx = ", "inner = ")


def in_a_branch(form: str) -> ModelProto:
    """Pool and gradient in a branch."""
    return parse(
        f"""g (bool wanted, {INPUTS}) => ({RESULT}) {{
            dx = If (wanted) <
                then_branch = backward () => (float[2,3,8,8] inner) {{ {POOL} {renamed(FORMS[form])} }},
                else_branch = nothing () => (float[2,3,8,8] none) {{ none = Neg (x) }}>
        }}"""
    )


def pool_outside_the_branch(form: str) -> ModelProto:
    """The gradient alone in a branch, which captures x, dy and the indices."""
    return parse(
        f"""g (bool wanted, {INPUTS}) => ({RESULT}) {{
            {POOL}
            dx = If (wanted) <
                then_branch = backward () => (float[2,3,8,8] inner) {{ {renamed(FORMS[form])} }},
                else_branch = nothing () => (float[2,3,8,8] none) {{ none = Neg (x) }}>
        }}"""
    )


def in_a_loop(form: str) -> ModelProto:
    """Pool and gradient in the body of a loop that adds up what it gets."""
    return parse(
        f"""g (int64 steps, bool wanted, {INPUTS}) => ({RESULT}) {{
            start = Sub (x, x)
            dx = Loop (steps, wanted, start) <
                body = step (int64 number, bool again, float[2,3,8,8] sum) => (bool more, float[2,3,8,8] total) {{
                    more = Identity (again)
                    {POOL}
                    {renamed(FORMS[form])}
                    total = Add (sum, inner)
                }}>
        }}"""
    )


def in_a_function(form: str) -> ModelProto:
    """Pool and gradient in a function, whose body declares no types: its caller's operands tell them."""
    return parse(
        f"g ({INPUTS}) => ({RESULT}) {{ dx = local.MaxPoolGradient (x, dy) }}",
        imports='"local": 1',
        functions=f"""<domain: "local", opset_import: ["": 16]>
            MaxPoolGradient (x, dy) => (dx) {{ {POOL} {FORMS[form]} }}""",
    )


PLACES = {
    "branch": (in_a_branch, "main/dx.then_branch"),
    "outside": (pool_outside_the_branch, "main/dx.then_branch"),
    "loop": (in_a_loop, "main/dx.body"),
    "function": (in_a_function, "function local.MaxPoolGradient"),
}


def feeds_of(model: ModelProto) -> dict[str, Array]:
    """Every branch taken, every loop run three times; no −0.0, whose sign overwriting keeps."""
    names = {value.name for value in model.graph.input}
    known = {"wanted": np.array(True), "steps": np.array(3)}
    tensors = random_feeds(parse(f"g ({INPUTS}) => ({RESULT}) {{ dx = Neg (x) }}"))
    return {name: known[name] if name in known else tensors[name] for name in names}


def run_inlined(model: ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """In the reference evaluator, functions put in place of their calls."""
    return run_reference(inliner.inline_local_functions(model), feeds)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_everywhere(form: str, place: str, target: str) -> None:
    build, scope = PLACES[place]
    model = build(form)
    result = lower(model, target=target)
    [anchor] = result.report.anchors
    assert (anchor.status, anchor.pattern, anchor.scope) == ("lowered", form.partition(",")[0], scope)
    check_well_formed(model, result.model, target)
    check_same_results(model, result.model, feeds_of(model), runners=[run_inlined])


@pytest.mark.refusal(Code.UNKNOWN_DTYPE.value)
def test_a_function_that_nobody_calls() -> None:
    model = in_a_function("ort_max_pool_grad")
    del model.graph.node[:]
    model.graph.node.append(onnx.helper.make_node("Neg", ["x"], ["dx"]))
    check_refused(model, Code.UNKNOWN_DTYPE)


@pytest.mark.refusal(Code.UNKNOWN_DTYPE.value)
def test_callers_that_disagree_on_the_type() -> None:
    model = in_a_function("torch_scatter_add")
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["xh"], to=onnx.TensorProto.FLOAT16),
        onnx.helper.make_node("Cast", ["dy"], ["dyh"], to=onnx.TensorProto.FLOAT16),
        onnx.helper.make_node("MaxPoolGradient", ["xh", "dyh"], ["other"], domain="local"),
    ]
    for node in reversed(nodes):
        model.graph.node.insert(0, node)
    check_refused(model, Code.UNKNOWN_DTYPE)


@pytest.mark.parametrize("form", FORMS)
def test_several_gradients_of_one_pool(form: str) -> None:
    """Two gradients by the same indices, of two losses."""
    second = FORMS[form]
    for name in ("hw", "p", "rows", "r", "u", "canvas", "z", "s", "t", "whole", "base", "all", "a", "v", "zeros", "dx"):
        second = second.replace(f"{name} =", f"{name}2 =").replace(f"({name}, ", f"({name}2, ")
        second = second.replace(f", {name})", f", {name}2)").replace(f", {name}, ", f", {name}2, ")
        second = second.replace(f"({name})", f"({name}2)")
    second = second.replace("(dy, ", "(n, ").replace(", dy)", ", n)")
    model = parse(f"g ({INPUTS}) => ({RESULT}, float[2,3,8,8] dx2) {{ {POOL} n = Abs (dy) {FORMS[form]} {second} }}")
    result = lower(model)
    found = [(anchor.status, anchor.pattern) for anchor in result.report.anchors]
    assert found == [("lowered", form.partition(",")[0])] * 2
    check_same_results(model, result.model, feeds_of(model), runners=[run_inlined])
