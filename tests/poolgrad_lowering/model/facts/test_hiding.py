# SPDX-License-Identifier: Apache-2.0

"""Sizes behind pools whose last window starts behind their input: onnxruntime drops it, ONNX's inference counts it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from poolgrad_lowering.model.facts.node_inference import Hiding, may_drop_windows
from tests.oracles import run_ort
from tests.pool_graphs import main_value, parse
from tests.poolgrad_lowering.model.facts.inferred import known

# (kernel, stride, begin, end, dilation)
AXES = [
    (kernel, stride, begin, end, dilation)
    for kernel in (1, 2, 3)
    for stride in (1, 2, 3)
    for begin in (0, 1)
    for end in (0, 1)
    for dilation in (1, 2)
    if max(begin, end) < dilation * (kernel - 1) + 1
]


def sizes(count: int, axis: tuple[int, ...], *, drops: bool) -> int:
    """The number of windows over `count` elements by definition; `drops`: without one that starts behind them."""
    kernel, stride, begin, end, dilation = axis
    extent = dilation * (kernel - 1) + 1
    windows = -(-(count + begin + end - extent) // stride) + 1
    return sum(not drops or number * stride < count + begin for number in range(windows))


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_pools_that_drop_for_some_size_are_told(axis: tuple[int, ...]) -> None:
    kernel, stride, begin, end, dilation = axis
    extent = dilation * (kernel - 1) + 1
    attributes = f"kernel_shape=[{kernel}], strides=[{stride}], pads=[{begin},{end}], dilations=[{dilation}]"
    node = parse(f"g (float[1,1,9] x) => (y) {{ y = MaxPool <{attributes}, ceil_mode=1> (x) }}").graph.node[0]
    differs = [
        sizes(count, axis, drops=True) != sizes(count, axis, drops=False) for count in range(extent, extent + 40)
    ]
    assert may_drop_windows(node.op_type, {held.name: held for held in node.attribute}) == any(differs)


READ = {
    "MaxPool <kernel_shape=[1], strides=[2]>": False,
    "MaxPool <kernel_shape=[1], strides=[2], ceil_mode=0>": False,
    "MaxPool <kernel_shape=[1], strides=[2], ceil_mode=1>": True,
    "Conv <kernel_shape=[1], strides=[2], ceil_mode=1>": False,
    'MaxPool <kernel_shape=[1], strides=[2], ceil_mode=1, auto_pad="SAME_LOWER">': False,
    'MaxPool <kernel_shape=[1], strides=[2], ceil_mode=1, auto_pad="VALID">': True,
    "MaxPool <kernel_shape=[1], ceil_mode=1>": False,
    "MaxPool <kernel_shape=[2], strides=[2], dilations=[1], ceil_mode=1>": False,
    "MaxPool <kernel_shape=[2,1], strides=[2,2], ceil_mode=1>": True,
    "MaxPool <strides=[1], ceil_mode=1>": True,
    "MaxPool <ceil_mode=1>": True,
    "MaxPool <kernel_shape=[2], strides=[1,1], ceil_mode=1>": True,
    "MaxPool <kernel_shape=[2], pads=[0], ceil_mode=1>": True,
}


@pytest.mark.parametrize(("pool", "drops"), READ.items(), ids=READ)
def test_attributes_with_which_windows_may_be_dropped(pool: str, drops: bool) -> None:
    node = parse(f"g (float[1,1,9] x) => (y) {{ y = {pool} (x) }}").graph.node[0]
    assert may_drop_windows(node.op_type, {held.name: held for held in node.attribute}) is drops


BODY = """<domain: "l", opset_import: ["": 18]> pool {parameters} (x) => (y) {{
    y = MaxPool <kernel_shape = [1], strides{refer} = {strides}, ceil_mode = 1> (x)
}}"""
MODELS = {
    "MaxPool": ("y = MaxPool <kernel_shape = [1], strides = [2], ceil_mode = 1> (x)", ""),
    "with Indices": ("y, i = MaxPool <kernel_shape = [1], strides = [2], ceil_mode = 1> (x)", ""),
    "AveragePool": ("y = AveragePool <kernel_shape = [1], strides = [2], ceil_mode = 1> (x)", ""),
    "LpPool": ("y = LpPool <kernel_shape = [1], strides = [2], ceil_mode = 1> (x)", ""),
    "a function": ("y = l.pool (x)", BODY.format(parameters="", refer="", strides="[2]")),
    "a call": (
        "y = l.pool <s = [2]> (x)",
        BODY.format(parameters="<s>", refer=": ints", strides="@s"),
    ),
    "a call of a function without a domain": (
        "y = pool <s = [2]> (x)",
        BODY.format(parameters="<s>", refer=": ints", strides="@s").replace('domain: "l"', 'domain: ""'),
    ),
    "a call of a function with two pools": (
        "y = l.pool <s = [2]> (x)",
        """<domain: "l", opset_import: ["": 18]> pool <s> (x) => (y) {
            a = MaxPool <kernel_shape = [1], strides: ints = @s, ceil_mode = 1> (x)
            b = MaxPool <kernel_shape = [2], strides: ints = @s, ceil_mode = 1> (x)
            y = Add (a, b)
        }""",
    ),
    "attributes through two calls": (
        "y = l.outer <s = [2], c = 1> (x)",
        """<domain: "l", opset_import: ["": 18, "l": 1]> outer <s, c> (x) => (y) {
            y = l.inner <t: ints = @s, d: int = @c> (x)
        }
        <domain: "l", opset_import: ["": 18]> inner <t, d> (x) => (y) {
            y = MaxPool <kernel_shape = [1], strides: ints = @t, ceil_mode: int = @d> (x)
        }""",
    ),
    "a default of the outer function": (
        "y = l.outer (x)",
        """<domain: "l", opset_import: ["": 18, "l": 1]> outer <c: int = 1> (x) => (y) {
            y = l.inner <d: int = @c> (x)
        }
        <domain: "l", opset_import: ["": 18]> inner <d: int = 0> (x) => (y) {
            y = MaxPool <kernel_shape = [1], strides = [2], ceil_mode: int = @d> (x)
        }""",
    ),
    "a branch in a function with the caller's attributes": (
        "y = l.pool <c = 1> (x)",
        """<domain: "l", opset_import: ["": 18]> pool <c> (x) => (y) {
            yes = Constant <value = bool {1}> ()
            y = If (yes) <
                then_branch = t () => (a) { a = MaxPool <kernel_shape = [1], strides = [2], ceil_mode: int = @c> (x) },
                else_branch = e () => (b) { b = MaxPool <kernel_shape = [1], strides = [2], ceil_mode: int = @c> (x) }
            >
        }""",
    ),
    "a branch": (
        """yes = Constant <value = bool {1}> ()
        y = If (yes) <
            then_branch = t () => (a) { a = MaxPool <kernel_shape = [1], strides = [2], ceil_mode = 1> (x) },
            else_branch = e () => (b) { b = MaxPool <kernel_shape = [1], strides = [2], ceil_mode = 1> (x) }
        >""",
        "",
    ),
}


REFUSED = ("a call of a function without a domain",)
"""By onnxruntime."""


@pytest.mark.parametrize("name", MODELS)
def test_no_size_behind_a_pool_is_false(name: str) -> None:
    """Of two elements one window is left; Elu has no rule, so that inference tells what comes out."""
    nodes, functions = MODELS[name]
    graph = f"g (float[1,1,2] x) => (float[1,1,size] z) {{ {nodes} z = Elu (y) }}"
    model = parse(graph, opset=18, imports='"l": 1' if '"l"' in functions else "", functions=functions)
    facts, z = main_value(model, "z")
    found = facts.shape(z)
    assert found is None or found[2].static in (None, 1)
    if name in REFUSED:
        return
    pytest.importorskip("onnxruntime")
    assert run_ort(model, {"x": np.zeros((1, 1, 2), np.float32)})["z"].shape[2] == 1


SAME = 'AveragePool <kernel_shape = [2], auto_pad = "SAME_UPPER", pads = [0, 0]> (x)'
IGNORED = {
    "SAME_UPPER": 'y = MaxPool <kernel_shape = [2], auto_pad = "SAME_UPPER", pads = [0, 0]> (x)',
    "SAME_LOWER": 'y = MaxPool <kernel_shape = [2], auto_pad = "SAME_LOWER", pads = [0, 0]> (x)',
    "VALID": 'y = MaxPool <kernel_shape = [2], auto_pad = "VALID", pads = [0, 1]> (x)',
    "VALID and ceil_mode": 'y = MaxPool <kernel_shape = [2], auto_pad = "VALID", pads = [1, 1], ceil_mode = 1> (x)',
    "AveragePool": f"y = {SAME}",
    "a branch": f"""yes = Constant <value = bool {{1}}> ()
        y = If (yes) <then_branch = t () => (a) {{ a = {SAME} }}, else_branch = e () => (b) {{ b = {SAME} }}>""",
    "a function": "y = l.same (x)",
    "a call": 'y = l.given <a = "SAME_UPPER", p = [0, 0]> (x)',
    "a call with pads": "y = l.pads <p = [0, 0]> (x)",
}
IGNORING = f"""<domain: "l", opset_import: ["": 18]> same (x) => (y) {{ y = {SAME} }}
<domain: "l", opset_import: ["": 18]> given <a, p> (x) => (y) {{
    y = AveragePool <kernel_shape = [2], auto_pad: string = @a, pads: ints = @p> (x)
}}
<domain: "l", opset_import: ["": 18]> pads <p> (x) => (y) {{
    y = AveragePool <kernel_shape = [2], auto_pad = "SAME_UPPER", pads: ints = @p> (x)
}}"""


@pytest.mark.parametrize("name", IGNORED)
def test_no_size_behind_ignored_pads_is_false(name: str) -> None:
    """With another `auto_pad` than NOTSET runtimes ignore `pads`; ONNX's inference counts them and not `auto_pad`."""
    graph = f"g (float[1,1,3] x) => (float[1,1,size] z) {{ {IGNORED[name]} z = Elu (y) }}"
    model = parse(graph, opset=18, imports='"l": 1', functions=IGNORING)
    facts, z = main_value(model, "z")
    found = facts.shape(z)
    pytest.importorskip("onnxruntime")
    size = run_ort(model, {"x": np.zeros((1, 1, 3), np.float32)})["z"].shape[2]
    assert found is None or found[2].static in (None, size)
    inferred = onnx.shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape.dim[2].dim_value
    assert inferred != size  # else nothing needs to be hidden


def test_a_convolution_with_pads_beside_auto_pad() -> None:
    """onnxruntime refuses it; ONNX's inference reads the pads, newer evaluators do not."""
    convolution = 'y = Conv <auto_pad = "VALID", pads = [1, 1]> (x, w)'
    model = parse(f"g (float[1,1,5] x, float[1,1,3] w) => (float[1,1,n] z) {{ {convolution} z = Elu (y) }}", opset=18)
    facts, z = main_value(model, "z")
    assert [dim.static for dim in facts.shape(z) or ()] == [1, 1, 5 - 3 + 1]


def test_functions_that_call_the_next_one_twice() -> None:
    """The time does not double with each function."""
    depth = 60
    twice = "\n".join(
        f"""<domain: "l", opset_import: ["": 18, "l": 1]> f{number} <c> (x) => (z) {{
            y = l.f{number + 1} <c: int = @c> (x)
            z = l.f{number + 1} <c: int = @c> (y)
        }}"""
        for number in range(depth)
    )
    last = BODY.format(parameters="<c>", refer="", strides="[2]").replace("ceil_mode = 1", "ceil_mode: int = @c")
    functions = f"{twice}\n{last.replace('pool', f'f{depth}', 1)}"
    model = parse(
        "g (x) => (y, z) { y = l.f0 <c = 1> (x) z = l.f0 <c = 0> (x) }", imports='"l": 1', functions=functions
    )
    Hiding(model.functions).hide(model.graph.node)
    assert [node.op_type for node in model.graph.node] == ["?", "f0"]


@pytest.mark.parametrize("kernel", [1, 2])
def test_a_call_whose_windows_are_all_counted(kernel: int) -> None:
    """Only what may be miscounted is hidden."""
    body = """<domain: "l", opset_import: ["": 18]> pool <k> (x) => (y) {
        y = MaxPool <kernel_shape: ints = @k, strides = [2], ceil_mode = 1> (x)
    }"""
    graph = f"g (float[1,1,4] x) => (z) {{ y = l.pool <k = [{kernel}]> (x) z = Elu (y) }}"
    _, sizes = known(parse(graph, opset=18, imports='"l": 1', functions=body))["z"]
    assert (sizes is not None) is (kernel == 2)
