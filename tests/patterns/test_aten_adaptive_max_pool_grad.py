# SPDX-License-Identifier: Apache-2.0

"""Adaptive gradients as PyTorch's operators, text in and text out: every spelling that is lowered, and to what."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.patterns.aten_graphs import PLANE_INDICES, adaptive_gradient
from tests.patterns.lowering_checks import NearMisses, backward, check_lowered, check_refused, near_misses
from tests.texts import Says

SIZE = "size = Constant <value = int64[2] {4,5}> ()"
FORWARD = 'y, i = org.pytorch.aten.ATen <operator="adaptive_max_pool2d"> (x, size)'
ADAPTIVE = "dx = npu.AdaptiveMaxPool3DGrad (x, dy, dx_argmax)"
DIVIDING = backward(window="ksize=[1,3,4], strides=[1,3,4], pads=[0,0,0], dilation=[1,1,1], ceil_mode=0")


def lowered(node: str, *, size: str = SIZE, forward: str = FORWARD) -> str:
    return f"{size}\n{forward}\ndx_argmax = Cast <to=6> (i)\n{node}"


@pytest.mark.parametrize("target", ["atlas-a2", "ascend950"])
def test_sizes_that_do_not_divide(target: str) -> None:
    check_lowered(adaptive_gradient(), lowered(ADAPTIVE), target=target)


def test_sizes_that_divide_become_a_pool() -> None:
    check_lowered(adaptive_gradient("3,3"), lowered(DIVIDING, size=SIZE.replace("4,5", "3,3")))


def test_sizes_that_divide_on_ascend950() -> None:
    node = """dx = npu.MaxPoolGradWithArgmaxV3 <
        ksize=[3,4], strides=[3,4], pads=[0,0], dilation=[1,1], ceil_mode=0, dtype=3, data_format="NCHW"
    > (x, dy, dx_argmax)"""
    check_lowered(adaptive_gradient("3,3"), lowered(node, size=SIZE.replace("4,5", "3,3")), target="ascend950")


def test_more_windows_than_elements() -> None:
    check_lowered(adaptive_gradient("11,5"), lowered(ADAPTIVE, size=SIZE.replace("4,5", "11,5")))


@pytest.mark.parametrize(
    ("sizes", "node"),
    [
        ("2,3,4", ADAPTIVE),
        ("1,2,3", backward(window="ksize=[5,2,2], strides=[5,2,2], pads=[0,0,0], dilation=[1,1,1], ceil_mode=0")),
    ],
)
def test_three_axes(sizes: str, node: str) -> None:
    forward = FORWARD.replace("2d", "3d")
    text = adaptive_gradient(
        sizes,
        extent="5,4,6",
        forward=forward,
        backward='dx = org.pytorch.aten.ATen <operator="adaptive_max_pool3d_backward"> (dy, x, i)',
    )
    check_lowered(text, lowered(node, size=f"size = Constant <value = int64[3] {{{sizes}}}> ()", forward=forward))


@pytest.mark.parametrize("operator", ["ATen", "op_type"])
def test_forward_spelt_by_its_own_name(operator: str) -> None:
    """The TorchScript exporter's fallback modes: the backward node is in either spelling."""
    forward = "y, i = org.pytorch.aten.adaptive_max_pool2d (x, size)"
    node = {
        "ATen": 'dx = org.pytorch.aten.ATen <operator="adaptive_max_pool2d_backward", overload_name=""> (dy, x, i)',
        "op_type": "dx = org.pytorch.aten.adaptive_max_pool2d_backward (dy, x, i)",
    }[operator]
    check_lowered(adaptive_gradient(forward=forward, backward=node), lowered(ADAPTIVE, forward=forward))


def test_symbolic_sizes() -> None:
    text = adaptive_gradient(outputs="float[N,C,4,5] y, float[N,C,H,W] dx")
    text = text.replace("float[2,3,9,12] x, float[2,3,4,5] dy", "float[N,C,H,W] x, float[N,C,4,5] dy")
    check_lowered(text, lowered(ADAPTIVE))


def test_output_size_from_outside() -> None:
    """Nothing needs it: the operator takes the windows from the shapes."""
    text = adaptive_gradient(constant="size = Identity (given)")
    text = text.replace("float[2,3,4,5] dy)", "float[2,3,4,5] dy, int64[2] given)")
    assert [anchor.op for anchor in lower(onnx.parser.parse_model(text)).report.lowered] == ["AdaptiveMaxPool3DGrad"]


def test_indices_of_a_max_pool_made_plane_local() -> None:
    """An exporter writes a forward whose sizes divide as MaxPool."""
    forward = PLANE_INDICES.replace("[3,3], strides=[2,2], pads=[1,1,1,1]", "[3,4], strides=[3,4]")
    check_lowered(
        adaptive_gradient("3,3", constant="unused = Identity (x)", forward=forward),
        f"unused = Identity (x)\n{forward}\ndx_argmax = Cast <to=6> (i)\n{DIVIDING}",
    )


NEAR_MISSES: NearMisses = {
    "indices_as_the_incoming_gradient": (
        Code.DTYPE_MIX,
        adaptive_gradient(backward='dx = org.pytorch.aten.ATen <operator="adaptive_max_pool2d_backward"> (i, x, i)'),
    ),
    "traced_indices": (
        Code.CONSTANT_INDICES,
        adaptive_gradient(
            "1,1", extent="2,2", forward="i = Constant <value = int64[2,3,1,1] {0,1,2,3,0,1}> ()"
        ).replace("float[2,3,1,1] y, ", ""),
    ),
    "indices_of_another_operator": (
        Code.INDICES_SOURCE,
        adaptive_gradient(forward=FORWARD.replace("adaptive_max", "adaptive_min")),
    ),
    "indices_of_a_pool_over_three_axes": (Code.POOL_ATTRIBUTES, adaptive_gradient(forward=FORWARD.replace("2d", "3d"))),
    "output_size_zero": (Code.POOL_ATTRIBUTES, adaptive_gradient("0,5")),
    "no_indices": (
        Code.ARITY,
        adaptive_gradient(backward='dx = org.pytorch.aten.ATen <operator="adaptive_max_pool2d_backward"> (dy, x)'),
    ),
    "another_x": (
        Code.DX_SHAPE,
        adaptive_gradient(backward='dx = org.pytorch.aten.ATen <operator="adaptive_max_pool2d_backward"> (dy, dy, i)'),
    ),
    "no_batch": (Code.UNBATCHED, adaptive_gradient().replace("float[2,3", "float[3")),
    "gradient_of_another_shape": (
        Code.GRAD_SHAPE,
        adaptive_gradient(constant="size = Constant <value = int64[2] {5,4}> ()", outputs="float[2,3,9,12] dx"),
    ),
}


@pytest.mark.parametrize(("code", "text"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, text: str, says: Says) -> None:
    says(check_refused(text, code))
