# SPDX-License-Identifier: Apache-2.0

"""PyTorch's gradient of an average pool as a ConvTranspose with ones, text in and node out; near misses and reasons."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
import onnx
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.oracles import assert_same_bits, run_ort
from tests.patterns.average_checks import check_average, of_pool
from tests.patterns.lowering_checks import NearMisses, check_refused, near_misses
from tests.texts import Says


def floats(values: Sequence[float], shape: str) -> str:
    return f"float[{shape}] {{{', '.join(map(str, values))}}}"


ONES = f"w = Constant <value = {floats([1.0] * 9, '1,1,3,3')}> ()"
NINES = f"d = Constant <value = {floats([9.0] * 30, '5,6')}> ()"


def clipped(size: int, count: int) -> list[int]:
    """The elements in x of windows of 3 with stride 2 and padding 1."""
    return [min(2 * o + 2, size) - max(2 * o - 1, 0) for o in range(count)]


INSIDE = f"d = Constant <value = {floats([prod(each) for each in product(clipped(9, 5), clipped(12, 6))], '5,6')}> ()"
CUT = """b = Constant <value = int64[2] {1,1}> () e = Constant <value = int64[2] {10,13}> ()
        a = Constant <value = int64[2] {2,3}> () cut = Slice (sums, b, e, a)"""


def gradient(
    *,
    divisors: str = NINES,
    weight: str = ONES,
    attributes: str = "strides = [2,2]",
    cut: str = CUT,
    shape: str = "2,3,9,12",
    pooled: str = "2,3,5,6",
    planes: str = "-1,1,5,6",
    divide: str = "mean = Div (dy, d)",
    end: str = "dx = Reshape (cut, xs)",
    outputs: str = "",
    elements: str = "float",
    opset: int = 18,
) -> str:
    """Return the text of the form over a 3×3 window with stride 2 and padding 1, some of its parts replaced.

    By default the padding counts, and the sums, of 11×13 elements, are cut to 9×12.
    """
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g ({elements}[{pooled}] dy) => ({elements}[{shape}] dx{outputs}) {{
        {divisors}
        {weight}
        {divide}
        ps = Constant <value = int64[4] {{{planes}}}> ()
        planes = Reshape (mean, ps)
        sums = ConvTranspose <{attributes}> (planes, w)
        {cut}
        xs = Constant <value = int64[4] {{{shape.replace("N", "-1")}}}> ()
        {end}
    }}"""


X = (2, 3, 9, 12)
COUNTED = of_pool(X, (3, 3), (2, 2), (1,) * 4, counts_padding=True)


def crop(*pads: int) -> str:
    values = ",".join(map(str, pads))
    return f"p = Constant <value = int64[8] {{{values}}}> () cut = Pad (sums, p)"


WITH_PADS = {
    # The ConvTranspose cuts the begin and the end itself.
    "pads of the operator": (gradient(attributes="strides = [2,2], pads = [1,1,1,0]", cut="cut = Identity (sums)"), 1),
    "a Pad that cuts": (gradient(cut=crop(0, 0, -1, -1, 0, 0, -1, 0)), 1),
    "two Slices": (
        gradient(
            cut="""b = Constant <value = int64[1] {1}> () e = Constant <value = int64[1] {10}> ()
        f = Constant <value = int64[1] {13}> () h = Constant <value = int64[1] {2}> ()
        i = Constant <value = int64[1] {3}> () rows = Slice (sums, b, e, h) cut = Slice (rows, b, f, i)"""
        ),
        1,
    ),
    "as torch's exporter writes it": (gradient(), 1),
    "the padding does not count": (gradient(divisors=INSIDE), 0),
    "one divisor": (gradient(divisors="d = Constant <value = float {9.0}> ()"), 1),
    "an older opset": (gradient(opset=11), 1),
    "ones that are made": (
        gradient(
            weight="""ws = Constant <value = int64[4] {1,1,3,3}> ()
        w = ConstantOfShape <value = float[1] {1.0}> (ws)"""
        ),
        1,
    ),
}


@pytest.mark.parametrize("name", WITH_PADS)
@pytest.mark.parametrize("target", ["atlas-a2", "ascend950"])
def test_forms_with_padding(name: str, target: str) -> None:
    """The same windows, however the result is cut; nothing of the form is left."""
    text, counts = WITH_PADS[name]
    expected = COUNTED if counts else of_pool(X, (3, 3), (2, 2), (1,) * 4)
    op, attribute = ("AvgPool3DGrad", "count_include_pad") if target == "atlas-a2" else ("AvgPoolV2Grad", "exclusive")
    attributes = {"ceil_mode": 0, "divisor_override": 0, attribute: counts if target == "atlas-a2" else 1 - counts}
    negative = name == "a Pad that cuts"  # onnx's reference evaluator has no negative pads
    nodes = check_average(text, expected, op=op, target=target, attributes=attributes, is_verified=not negative)
    assert [node.op_type for node in nodes] == ["Constant", op]


def halves(counts: Sequence[int], width: int) -> str:
    return floats([1 / width] * prod(counts), ",".join(map(str, counts)))


RECIPROCALS = {
    "in the weight": {
        "divide": "mean = Identity (dy)",
        "weight": f"w = Constant <value = {halves((1, 1, 4, 2), 8)}> ()",
    },
    "in a factor": {"divide": "e = Constant <value = float {0.125}> () mean = Mul (e, dy)"},
    "behind the sums": {
        "divide": "mean = Identity (dy)",
        "end": "all = Reshape (cut, xs) e = Constant <value = float {0.125}> () dx = Mul (all, e)",
    },
    "half in the weight, half behind": {
        "divide": "mean = Identity (dy)",
        "weight": f"w = Constant <value = {halves((1, 1, 4, 2), 2)}> ()",
        "end": "all = Reshape (cut, xs) e = Constant <value = float {4.0}> () dx = Div (all, e)",
    },
}


@pytest.mark.parametrize("name", RECIPROCALS)
def test_the_divisor_elsewhere(name: str) -> None:
    """One divisor may be anywhere, as it is or as its reciprocal."""
    sevens = {"weight": f"w = Constant <value = {halves((1, 1, 4, 2), 1)}> ()", "divisors": ""}
    parts = {**sevens, "attributes": "strides = [4,2]", "cut": "cut = Identity (sums)", "shape": "2,3,20,12"}
    expected = of_pool((2, 3, 20, 12), (4, 2), (4, 2))
    nodes = check_average(gradient(**{**parts, **RECIPROCALS[name]}), expected, op="AvgPool3DGrad")
    assert [node.op_type for node in nodes] == ["Constant", "AvgPool3DGrad"]


COMPUTED = {
    "by Expand": "one = Constant <value = float {1.0}> () s = Constant <value_ints = [1,1,3,3]> () w = Expand (one, s)",
    "by arithmetic": """two = Constant <value = float {2.0}> () one = Reciprocal (two)
        s = Constant <value_ints = [1,1,3]> () t = Constant <value_ints = [3]> () u = Concat <axis = 0> (s, t)
        half = Expand (one, u) w = Mul (half, two)""",
    "by a comparison": f"""one = Constant <value = float {{1.0}}> ()
        o = Constant <value = {floats([5.0] * 9, "1,1,3,3")}> () more = Greater (o, one) w = Cast <to = 1> (more)""",
}


@pytest.mark.parametrize("name", COMPUTED)
def test_computed_weights(name: str) -> None:
    check_average(gradient(weight=COMPUTED[name]), COUNTED, op="AvgPool3DGrad")


def test_a_divisor_of_one_is_not_written() -> None:
    """The sums of all planes of a tensor are those of a pool with the divisor 1."""
    text = gradient(divide="mean = Identity (dy)")
    expected = of_pool(X, (3, 3), (2, 2), (1,) * 4, divisor=1)
    check_average(text, expected, op="AvgPool3DGrad", attributes={"divisor_override": 1})


DEPTHWISE = {
    "weight": f"w = Constant <value = {floats([1.0] * 27, '3,1,3,3')}> ()",
    "attributes": "strides = [2,2], group = 3",
    "planes": "2,3,5,6",
    "divide": "mean = Identity (dy)",
}


def test_sums_of_the_windows_of_a_pool() -> None:
    """What nothing divides is taken for a gradient where a pool has the windows."""
    forward = "y = AveragePool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (x)"
    text = gradient(**DEPTHWISE).replace("mean =", f"{forward} mean =").replace("dy)", "dy, float[2,3,9,12] x)", 1)
    expected = of_pool(X, (3, 3), (2, 2), (1,) * 4, divisor=1)
    check_average(text, expected, op="AvgPool3DGrad", attributes={"divisor_override": 1})


AVERAGE = "AveragePool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1], count_include_pad = 1>"


def symbolic(
    pads: str = "pads = [1,1,1,1], output_padding = [1,1]",
    cut: str = "cut = Identity (sums)",
    pool: str = AVERAGE,
    *,
    is_twice: bool = True,
) -> onnx.ModelProto:
    """Return the form over planes of symbolic sizes. A pool reads x, whose sizes are twice these, or others."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
    g (float[N,3,H,W] dy, float[N,3,Y,X] x) => (float[N,3,Y,X] dx) {{
        d = Constant <value = float {{9.0}}> () mean = Div (dy, d) {ONES}
        ps = Constant <value = int64[4] {{-1,1,0,0}}> () planes = Reshape (mean, ps)
        sums = ConvTranspose <strides = [2,2], {pads}> (planes, w)
        {cut}
        y = {pool} (x)
        xs = Shape (x) dx = Reshape (cut, xs)
    }}""")
    for value in (model.graph.input[1], model.graph.output[0]) if is_twice else ():
        for dim, size in zip(value.type.tensor_type.shape.dim[2:], "HW", strict=True):
            dim.dim_param = f"2*{size}"
    return model


@pytest.mark.parametrize("sizes", [(1, 1), (1, 4), (3, 2), (5, 8)])
def test_symbolic_sizes(sizes: tuple[int, int]) -> None:
    """Of which those of x are strides times as many; a value of x's shape tells them when the node runs."""
    height, width = sizes
    x_shape = (2, 3, 2 * height, 2 * width)
    named = {"N": 2, "H": height, "W": width, "2*H": x_shape[2], "2*W": x_shape[3]}
    expected = of_pool(x_shape, (3, 3), (2, 2), (1,) * 4, counts_padding=True)
    check_average(symbolic(), expected, op="AvgPool3DGrad", sizes=named, attributes={"count_include_pad": 1})


def test_what_cuts_symbolic_sizes_at_a_number_stays() -> None:
    """It may cut off nothing, or much."""
    cut = """b = Constant <value = int64[1] {0}> () e = Constant <value = int64[1] {100}> ()
        a = Constant <value = int64[1] {2}> () cut = Slice (sums, b, e, a)"""
    check_refused(symbolic(cut=cut, is_twice=False), Code.DX_SHAPE)


PARTS = {
    "the padding is ones": """p = Constant <value = int64[8] {0,0,-1,-1,0,0,-1,0}> ()
        one = Constant <value = float {1.0}> () cut = Pad (sums, p, one)""",
    "zeros stand before": crop(0, 0, 1, 0, 0, 0, 0, 0),
    "zeros replace sums": """b = Constant <value = int64[2] {1,1}> () e = Constant <value = int64[2] {8,13}> ()
        a = Constant <value = int64[2] {2,3}> () less = Slice (sums, b, e, a)
        p = Constant <value = int64[8] {0,0,0,0,0,0,2,0}> () cut = Pad (less, p)""",
    "more elements than windows fit": crop(0, 0, -1, -1, 0, 0, 3, 0),
}


@pytest.mark.parametrize("name", PARTS)
def test_what_cuts_otherwise_stays(name: str) -> None:
    """The sums before it are a gradient too, of a pool without padding."""
    shape = {"zeros stand before": "2,3,12,13", "more elements than windows fit": "2,3,13,12"}.get(name, "2,3,9,12")
    model = onnx.parser.parse_model(gradient(cut=PARTS[name], shape=shape))
    result = lower(model)
    [anchor] = result.report.lowered
    assert anchor.attributes is not None
    assert anchor.attributes["pads"] == [0] * 6
    feeds = {"dy": np.arange(180, dtype=np.float32).reshape(2, 3, 5, 6) * 36}
    assert_same_bits(run_ort(result.model, feeds)["dx"], run_ort(model, feeds)["dx"])


LEFT = {
    "other weights": gradient(weight=f"w = Constant <value = {floats([1.0] * 8 + [2.0], '1,1,3,3')}> ()"),
    "a weight that is fed": gradient(weight="").replace("dy)", "dy, float[1,1,3,3] w)", 1),
}


@pytest.mark.parametrize("name", LEFT)
def test_no_anchors(name: str) -> None:
    """A transposed convolution with other weights is not even an anchor."""
    assert lower(onnx.parser.parse_model(LEFT[name])).report.anchors == ()


UNRELATED = {
    "an upsampling": gradient(**DEPTHWISE),
    "by other weights": gradient(
        **{**DEPTHWISE, "weight": f"w = Constant <value = {floats([0.5] * 27, '3,1,3,3')}> ()"}
    ),
    "weights of two": gradient(
        divide="mean = Identity (dy)",
        weight="ws = Constant <value_ints = [1,1,3,3]> () w = ConstantOfShape <value = float[1] {2.0}> (ws)",
    ),
    "weights of zero": gradient(weight=f"w = Constant <value = {floats([0.0] * 9, '1,1,3,3')}> ()"),
    "several channels from one": gradient(
        weight=f"w = Constant <value = {floats([1.0] * 18, '1,2,3,3')}> ()",
        cut="x = Identity (sums)",
        end="dx = Identity (x)",
        shape="6,2,11,13",
    ),
}


@pytest.mark.refusal(Code.UNRELATED_UPSAMPLING.value)
@pytest.mark.parametrize("name", UNRELATED)
def test_unrelated(name: str, says: Says) -> None:
    """A layer with equal weights does not count as refused."""
    [anchor] = lower(onnx.parser.parse_model(UNRELATED[name])).report.anchors
    assert (anchor.status, anchor.code) == ("unrelated", "unrelated-upsampling")
    says(anchor.reason)


@pytest.mark.refusal(Code.OUTPUT_SIZE.value)
def test_no_windows_along_an_axis(says: Says) -> None:
    text = gradient(pooled="2,3,0,6", planes="6,1,0,6", divisors="d = Constant <value = float {9.0}> ()")
    says(check_refused(text, Code.OUTPUT_SIZE))


ODD = f"d = Constant <value = {floats([9.0] * 29 + [8.0], '5,6')}> ()"
NEAR_MISSES: NearMisses = {
    (Code.AVERAGE_DIVISORS, "other_divisors"): gradient(divisors=ODD),
    (Code.AVERAGE_DIVISORS, "a_fraction"): gradient(divisors="d = Constant <value = float {4.5}> ()"),
    (Code.AVERAGE_DIVISORS, "a_divisor_that_float32_does_not_hold"): gradient(
        divisors="d = Constant <value = float {1099511627776.0}> ()"
    ),
    (Code.DILATED_AVERAGE, "dilation"): gradient(attributes="strides = [2,2], dilations = [2,1]"),
    (Code.UNKNOWN_SHAPE, "no_multiple_of_a_symbolic_size"): symbolic(pads="pads = [1,1,1,1]"),
    (Code.UNKNOWN_SHAPE, "no_pool_of_x"): symbolic(pool="Identity"),
    (Code.DX_SHAPE, "sizes_of_another_tensor"): symbolic(is_twice=False),
    (Code.POOL_ATTRIBUTES, "auto_pad"): gradient(attributes='strides = [2,2], auto_pad = "SAME_UPPER"'),
    (Code.POOL_ATTRIBUTES, "strides_of_another_rank"): gradient(attributes="strides = [2]"),
    (Code.POOL_ATTRIBUTES, "pads_of_another_rank"): gradient(attributes="strides = [2,2], pads = [0]"),
    (Code.POOL_ATTRIBUTES, "output_padding_of_another_rank"): gradient(
        attributes="strides = [2,2], output_padding = [0]"
    ),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_refused(code: Code, model: str, says: Says) -> None:
    says(check_refused(model, code))
