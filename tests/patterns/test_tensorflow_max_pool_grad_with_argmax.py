# SPDX-License-Identifier: Apache-2.0

"""TensorFlow's MaxPoolGradWithArgmax as tf2onnx leaves it, text in and text out; near misses and their reasons."""

from __future__ import annotations

import pytest

from poolgrad_lowering.diagnostics.codes import Code
from tests.patterns.lowering_checks import NearMisses, check_lowered, check_refused, near_misses

_STEPS = {
    "before": "t = Transpose <perm=[0,3,1,2]> (x)",
    "pool": "m, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (t)",
    "after": "y = Transpose <perm=[0,2,3,1]> (m)",
    "sizes": "s = Shape (x)\ncount, height, width, depth = Split <axis=0> (s)\nplane = Mul (height, width)",
    "position": "l = Transpose <perm=[0,2,3,1]> (i)\nq = Mod (l, plane)\nd = Mul (q, depth)",
    "channel": "a = Add (d, channels)",
    "batch": "",
    "gradient": 'dx = MaxPoolGradWithArgmax <ksize=[1,2,2,1], strides=[1,2,2,1], padding="VALID", '
    "include_batch_in_index=0> (x, dy, a)",
}
_WITH_BATCH = {
    "batch": "n = Squeeze (count, zero)\nr = Range (start, n, step)\nb = Unsqueeze (r, others)\n"
    "whole = Mul (plane, depth)\no = Mul (b, whole)\nargmax = Add (a, o)",
    "gradient": 'dx = MaxPoolGradWithArgmax <ksize=[1,2,2,1], strides=[1,2,2,1], padding="VALID", '
    "include_batch_in_index=1> (x, dy, argmax)",
}


def gradient(
    inputs: str = "float[2,4,6,3] x, float[2,2,3,3] dy", channels: str = "int64[3] channels = {0, 1, 2}", **steps: str
) -> str:
    """Return the text of the form over a 2×2 window with stride 2, some of its steps replaced."""
    nodes = "\n".join((_STEPS | steps).values())
    return f"""<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (float[2,2,3,3] y, float[2,4,6,3] dx) <
        {channels}, int64 start = {{0}}, int64 step = {{1}}, int64[1] zero = {{0}}, int64[3] others = {{1, 2, 3}}
    > {{ {nodes} }}"""


LOWERED = """{before}
    m, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (t)
    y = Transpose <perm=[0,2,3,1]> (m)
    dx_plane = Constant <value = int64 {{24}}> ()
    dx_plane_index = Mod (i, dx_plane)
    dx_argmax = Cast <to=6> (dx_plane_index)
    dx_grad = Transpose <perm=[0,3,1,2]> (dy)
    dx_MaxPool3DGradWithArgmax = npu.MaxPool3DGradWithArgmax <
        ksize=[1,2,2], strides=[1,2,2], pads=[0,0,0], dilation=[1,1,1], ceil_mode=0, data_format="NCDHW"
    > (t, dx_grad, dx_argmax)
    dx = Transpose <perm=[0,2,3,1]> (dx_MaxPool3DGradWithArgmax)"""
BEFORE = _STEPS["before"]
VARIANTS = {
    "within_examples": gradient(),
    "over_the_batch": gradient(**_WITH_BATCH),
    "operands_in_the_other_order": gradient(
        position="l = Transpose <perm=[0,2,3,1]> (i)\nq = Mod (l, plane)\nd = Mul (depth, q)",
        channel="a = Add (channels, d)",
    ),
    "parts_written_out": gradient(
        sizes="",
        position="l = Transpose <perm=[0,2,3,1]> (i)\nq = Mod (l, plane)\nd = Mul (q, depth)",
        channels="int64[3] channels = {0, 1, 2}, int64[1] plane = {24}, int64 depth = {3}",
    ),
    "split_told_how": gradient(
        sizes="s = Shape (x)\ncount, area, depth = Split <axis=0> (s, parts)\nplane = ReduceProd (area)",
        channels="int64[3] channels = {0, 1, 2}, int64[3] parts = {1, 2, 1}",
    ),
    "images_counted_by_a_constant": gradient(
        channels="int64[3] channels = {0, 1, 2}, int64[2,1,1,1] o = {0, 72}",
        batch="argmax = Add (a, o)",
        gradient=_WITH_BATCH["gradient"],
    ),
}


@pytest.mark.parametrize("source", VARIANTS.values(), ids=VARIANTS)
def test_variants(source: str) -> None:
    check_lowered(source, LOWERED.format(before=BEFORE))


def of_one_channel(text: str) -> str:
    """The text with one channel in place of three."""
    return text.replace("6,3]", "6,1]").replace("3,3]", "3,1]")


def test_only_channel() -> None:
    """Optimisers remove the product with the number of channels and the sum with the channel's number."""
    source = of_one_channel(gradient(position="l = Transpose <perm=[0,2,3,1]> (i)", channel="a = Mod (l, plane)"))
    check_lowered(source, LOWERED.format(before=BEFORE))


def test_only_image() -> None:
    """Optimisers remove the sum with the image's number."""
    source = gradient(gradient=_STEPS["gradient"].replace("index=0", "index=1")).replace("float[2,", "float[1,")
    check_lowered(source, LOWERED.format(before=BEFORE))


UNPROVEN = "'a' is not proven to be the Indices of MaxPool 'm' counted channels last"
NEAR_MISSES: NearMisses = {
    "argmax_is_an_input": (
        Code.NO_FORWARD_POOL,
        "'a' does not come from the Indices of a MaxPool",
        gradient(
            "float[2,4,6,3] x, float[2,2,3,3] dy, int64[2,2,3,3] a",
            position="",
            channel="",
            sizes="",
        ),
    ),
    "argmax_of_the_pooled_values": (
        Code.NO_FORWARD_POOL,
        "'a' does not come from the Indices of a MaxPool",
        gradient(position="l = Transpose <perm=[0,2,3,1]> (m)\nq = Mod <fmod=1> (l, plane)\nd = Mul (q, depth)"),
    ),
    "batch_is_not_counted": (
        Code.INDICES_NUMBERING,
        UNPROVEN,
        gradient(gradient=_STEPS["gradient"].replace("index=0", "index=1")),
    ),
    "batch_is_counted_after_all": (
        Code.INDICES_NUMBERING,
        UNPROVEN.replace("'a'", "'argmax'"),
        gradient(batch=_WITH_BATCH["batch"], gradient=_WITH_BATCH["gradient"].replace("index=1", "index=0")),
    ),
    "channels_in_another_order": (
        Code.INDICES_NUMBERING,
        UNPROVEN,
        gradient(channels="int64[3] channels = {0, 2, 1}"),
    ),
    "channels_are_not_added": (
        Code.INDICES_NUMBERING,
        "'d' is not proven to be the Indices of MaxPool 'm' counted channels last",
        gradient(channel="", gradient=_STEPS["gradient"].replace("dy, a", "dy, d")),
    ),
    "channels_twice": (
        Code.INDICES_NUMBERING,
        UNPROVEN,
        gradient(channel="e = Add (d, channels)\na = Add (e, channels)"),
    ),
    "remainder_by_another_size": (
        Code.INDICES_NUMBERING,
        UNPROVEN,
        gradient(sizes="s = Shape (x)\ncount, height, width, depth = Split <axis=0> (s)\nplane = Mul (height, depth)"),
    ),
    "times_another_size": (
        Code.INDICES_NUMBERING,
        UNPROVEN,
        gradient(position="l = Transpose <perm=[0,2,3,1]> (i)\nq = Mod (l, plane)\nd = Mul (q, width)"),
    ),
    "indices_transposed_otherwise": (
        Code.INDICES_NUMBERING,
        UNPROVEN,
        gradient(position="l = Transpose <perm=[0,3,2,1]> (i)\nq = Mod (l, plane)\nd = Mul (q, depth)"),
    ),
    "examples_counted_from_one": (
        Code.INDICES_NUMBERING,
        UNPROVEN.replace("'a'", "'argmax'"),
        gradient(**_WITH_BATCH | {"batch": _WITH_BATCH["batch"].replace("(start, n, step)", "(step, n, step)")}),
    ),
    "images_counted_by_another_constant": (
        Code.INDICES_NUMBERING,
        UNPROVEN.replace("'a'", "'argmax'"),
        gradient(
            channels="int64[3] channels = {0, 1, 2}, int64[2,1,1,1] o = {0, 71}",
            batch="argmax = Add (a, o)",
            gradient=_WITH_BATCH["gradient"],
        ),
    ),
    "images_counted_along_the_rows": (
        Code.INDICES_NUMBERING,
        UNPROVEN.replace("'a'", "'argmax'"),
        gradient(
            channels="int64[3] channels = {0, 1, 2}, int64[1,2,1,1] o = {0, 72}",
            batch="argmax = Add (a, o)",
            gradient=_WITH_BATCH["gradient"],
        ),
    ),
    "examples_along_another_axis": (
        Code.INDICES_NUMBERING,
        UNPROVEN.replace("'a'", "'argmax'"),
        gradient(
            channels="int64[3] channels = {0, 1, 2}, int64[2] few = {1, 2}",
            **_WITH_BATCH | {"batch": _WITH_BATCH["batch"].replace("(r, others)", "(r, few)")},
        ),
    ),
    "deeper_than_converters_write": (
        Code.INDICES_NUMBERING,
        UNPROVEN,
        gradient(
            channels="int64[3] channels = {0, 1, 2}, int64 one = {1}",
            channel="e0 = Add (d, channels)\n"
            + "\n".join(f"e{number + 1} = Mul (e{number}, one)" for number in range(8))
            + "\na = Mul (e8, one)",
        ),
    ),
    "pool_over_another_tensor": (
        Code.NO_FORWARD_POOL,
        "MaxPool 'm' is not over 'x' in channels-last order",
        gradient(before="z = Relu (x)\nt = Transpose <perm=[0,3,1,2]> (z)"),
    ),
    "other_windows": (
        Code.ATTRIBUTE_MISMATCH,
        "the windows of MaxPoolGradWithArgmax 'dx' are not proven to be those of MaxPool 'm'",
        gradient(gradient=_STEPS["gradient"].replace("ksize=[1,2,2,1]", "ksize=[1,2,3,1]")),
    ),
    "no_windows": (
        Code.POOL_ATTRIBUTES,
        "MaxPoolGradWithArgmax 'dx' has missing or malformed attributes",
        gradient(gradient="dx = MaxPoolGradWithArgmax (x, dy, a)"),
    ),
    "no_argmax": (
        Code.ARITY,
        "MaxPoolGradWithArgmax 'dx' lacks an input",
        gradient(gradient=_STEPS["gradient"].replace(", a)", ")")),
    ),
}


@pytest.mark.parametrize(("code", "reason", "model"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, reason: str, model: str) -> None:
    check_refused(model, code, reason)
