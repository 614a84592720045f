# SPDX-License-Identifier: Apache-2.0

"""Max-pool gradients as PyTorch's operators, text in and text out: every spelling that is lowered, and to what."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import lower
from tests.graphs import Written
from tests.heads import head
from tests.patterns.aten_graphs import FORWARD, PLANE_INDICES, WHOLE_PLANE, max_pool_gradient
from tests.patterns.lowering_checks import check_lowered

SYMBOLIC = "float[N,C,H,W] x, float[N,C,OH,OW] dy", "float[N,C,OH,OW] y, float[N,C,H,W] dx"
OPERATOR = "max_pool2d_with_indices_backward"


def test_as_ortmodule_writes_it(written: Written) -> None:
    check_lowered(
        head(17, "org.pytorch.aten")
        + """
        g (float[2,3,9,12] x, float[2,3,5,6] dy) => (float[2,3,5,6] y, float[2,3,9,12] dx)
        <int64[2] k = {3,3}, int64[2] s = {2,2}, int64[2] p = {1,1}, int64[2] d = {1,1}, bool ceil = {0}> {
            y, i = org.pytorch.aten.ATen <operator="max_pool2d_with_indices"> (x, k, s, p, d, ceil)
            dx = org.pytorch.aten.ATen <operator="max_pool2d_with_indices_backward"> (dy, x, k, s, p, d, ceil, i)
        }""",
        written,
    )


def test_two_axes_on_ascend950(written: Written) -> None:
    check_lowered(max_pool_gradient(), written, target="ascend950")


SPELLINGS = {
    "overload_name": max_pool_gradient(
        backward=f'dx = org.pytorch.aten.ATen <operator="{OPERATOR}", overload_name="">'
    ),
    "op_type": max_pool_gradient(
        forward="y, i = org.pytorch.aten.max_pool2d_with_indices (x, k, s, p, d, ceil)",
        backward=f"dx = org.pytorch.aten.{OPERATOR}",
    ),
    "every_size_symbolic": max_pool_gradient(inputs=SYMBOLIC[0], outputs=SYMBOLIC[1]),
    "half_precision": max_pool_gradient(
        inputs="float16[2,3,9,12] x, float16[2,3,5,6] dy", outputs="float16[2,3,5,6] y, float16[2,3,9,12] dx"
    ),
    # as the TorchScript exporter writes the forward pool where only the backward call falls back
    "plane_local_indices_of_a_max_pool": max_pool_gradient(forward=PLANE_INDICES),
    "indices_seen_through_copies_and_casts": max_pool_gradient(
        between="j = Cast <to=6> (i)\nc = Identity (j)", operands="dy, x, k, s, p, d, ceil, c"
    ),
}


@pytest.mark.parametrize("source", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(source: str, written: Written) -> None:
    check_lowered(source, written)


WINDOWS = {  # kernel, stride, padding, dilation, ceil_mode; the pooled sizes of 9 × 12
    "ceil": (("{4,4}", "{4,5}", "{0,0}", "{1,1}", "{1}"), "3,3"),
    "dilation": (("{3,2}", "{1,1}", "{1,0}", "{2,3}", "{0}"), "7,9"),
    "gaps": (("{2,2}", "{3,4}", "{0,0}", "{1,1}", "{0}"), "3,3"),
    "no_stride_is_the_kernel": (("{2,3}", "{}", "{0,0}", "{1,1}", "{0}"), "4,4"),
    "no_stride_as_the_older_exporter_stores_it": (("{2,3}", "float[0] {}", "{0,0}", "{1,1}", "{0}"), "4,4"),
    "one_number_for_all_axes": (("{3}", "{2}", "{1}", "{1}", "{0}"), "5,6"),
}


@pytest.mark.parametrize(("arguments", "sizes"), WINDOWS.values(), ids=WINDOWS)
def test_windows(arguments: tuple[str, ...], sizes: str, written: Written) -> None:
    lists = zip("kspd", arguments, strict=False)
    constants = "\n".join(
        [f"{name} = Constant <value = {_typed(held)}> ()" for name, held in lists]
        + [f"ceil = Constant <value = bool {arguments[-1]}> ()"]
    )
    text = max_pool_gradient(
        constants=constants,
        inputs=f"float[2,3,9,12] x, float[2,3,{sizes}] dy",
        outputs=f"float[2,3,{sizes}] y, float[2,3,9,12] dx",
    )
    check_lowered(text, written)


def _typed(numbers: str) -> str:
    count = len(list(filter(None, numbers.strip("{}").split(","))))
    return numbers if "[" in numbers else f"int64[{count}] {numbers}"


def test_three_axes(written: Written) -> None:
    constants = """k = Constant <value = int64[3] {3,2,2}> ()
        s = Constant <value = int64[3] {2,2,2}> ()
        p = Constant <value = int64[3] {1,0,0}> ()
        d = Constant <value = int64[3] {1,1,1}> ()
        ceil = Constant <value = bool {0}> ()"""
    forward = FORWARD.replace("2d", "3d")
    text = max_pool_gradient(
        constants=constants,
        forward=forward,
        backward='dx = org.pytorch.aten.ATen <operator="max_pool3d_with_indices_backward">',
        inputs="float[2,3,5,4,6] x, float[2,3,3,2,3] dy",
        outputs="float[2,3,3,2,3] y, float[2,3,5,4,6] dx",
    )
    check_lowered(text, written)


def test_forward_arguments_left_to_their_defaults(written: Written) -> None:
    constants = """k = Constant <value = int64[2] {2,3}> ()
        p = Constant <value = int64[2] {0,0}> ()
        d = Constant <value = int64[2] {1,1}> ()
        ceil = Constant <value = bool {0}> ()"""
    forward = 'y, i = org.pytorch.aten.ATen <operator="max_pool2d_with_indices"> (x, k)'
    check_lowered(
        max_pool_gradient(
            constants=constants,
            forward=forward,
            operands="dy, x, k, k, p, d, ceil, i",
            inputs="float[2,3,9,12] x, float[2,3,4,4] dy",
            outputs="float[2,3,4,4] y, float[2,3,9,12] dx",
        ),
        written,
    )


@pytest.mark.parametrize("stride", ["k", "no_integers", "no_floats"])
def test_a_kernel_made_of_symbolic_sizes_is_the_whole_plane(stride: str, written: Written) -> None:
    """`F.max_pool2d(x, x.shape[2:])`: adaptive windows of output size 1, whatever the sizes are."""
    none = {"k": "", "no_integers": "int64", "no_floats": "float"}[stride]
    none = none and f"{stride} = Constant <value = {none}[0] {{}}> ()"
    arguments = f"k, {stride}, p, d, ceil"
    forward = FORWARD.replace("k, s, p, d, ceil", arguments)
    constants = f"{WHOLE_PLANE}\n{none}"
    check_lowered(
        max_pool_gradient(
            constants=constants,
            forward=forward,
            operands=f"dy, x, {arguments}, i",
            inputs="float[N,C,H,W] x, float[N,C,1,1] dy",
            outputs="float[N,C,1,1] y, float[N,C,H,W] dx",
        ),
        written,
    )


@pytest.mark.parametrize("operator", ["max_pool2d_with_indices", "upsample_nearest2d_backward"])
def test_other_operators_are_no_anchors(operator: str) -> None:
    text = max_pool_gradient().replace(OPERATOR, operator)
    assert lower(_parse(text)).report.anchors == ()


def _parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)
