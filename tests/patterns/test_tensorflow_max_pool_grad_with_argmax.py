# SPDX-License-Identifier: Apache-2.0

"""TensorFlow's MaxPoolGradWithArgmax as tf2onnx leaves it, text in and text out; near misses and their reasons."""

from __future__ import annotations

from itertools import pairwise

import pytest
from onnx.parser import parse_model

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.graphs import Written
from tests.heads import head
from tests.patterns.lowering_checks import NearMisses, check_lowered, check_refused, near_misses
from tests.texts import Says

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
    return f"""{head(17)} g ({inputs}) => (float[2,2,3,3] y, float[2,4,6,3] dx) <
        {channels}, int64 start = {{0}}, int64 step = {{1}}, int64[1] zero = {{0}}, int64[3] others = {{1, 2, 3}}
    > {{ {nodes} }}"""


_ONE = "int64[3] channels = {0, 1, 2}, int64 one = {1}"


def products(first: str, last: str, count: int) -> str:
    """Return so many products with one, of which the first takes `first` and the last gives `last`."""
    names = [first, *(f"e{number}" for number in range(count - 1)), last]
    return "\n".join(f"{result} = Mul ({factor}, one)" for factor, result in pairwise(names))


def of_one_channel(text: str) -> str:
    """The text with one channel in place of three."""
    return text.replace("6,3]", "6,1]").replace("3,3]", "3,1]")


VARIANTS = {
    "within_examples": gradient(),
    "over_the_batch": gradient(**_WITH_BATCH),
    "operands_in_the_other_order": gradient(
        position="l = Transpose <perm=[0,2,3,1]> (i)\nq = Mod (l, plane)\nd = Mul (depth, q)",
        channel="a = Add (channels, d)",
    ),
    "with_a_copy": gradient(
        position="l = Transpose <perm=[0,2,3,1]> (i)\nc = Identity (l)\nq = Mod (c, plane)\nd = Mul (q, depth)"
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
    "as_deep_as_converters_write": gradient(channels=_ONE, channel="e = Add (d, channels)\n" + products("e", "a", 6)),
    "as_deep_in_front_of_a_sum": gradient(channels=_ONE, channel=products("d", "e", 6) + "\na = Add (e, channels)"),
    "as_deep_behind_a_sum": gradient(channels=_ONE, channel=products("d", "e", 6) + "\na = Add (channels, e)"),
    "as_int32_at_the_end": gradient(channel="e = Add (d, channels)\na = Cast <to=6> (e)"),
    "over_the_batch_as_int32": gradient(
        **_WITH_BATCH | {"batch": _WITH_BATCH["batch"].replace("argmax =", "wide =") + "\nargmax = Cast <to=6> (wide)"}
    ),
    "images_numbered_in_int32": gradient(
        **_WITH_BATCH
        | {
            "batch": _WITH_BATCH["batch"]
            .replace("Unsqueeze (r,", "Unsqueeze (v,")
            .replace("b =", "u = Cast <to=6> (r)\nv = Cast <to=7> (u)\nb =")
        }
    ),
    "counted_in_int32": gradient(
        sizes="",
        position="l = Transpose <perm=[0,2,3,1]> (i)\nn = Cast <to=6> (l)\nq = Mod (n, plane)\nd = Mul (q, depth)",
        channels="int32[3] channels = {0, 1, 2}, int32[1] plane = {24}, int32 depth = {3}",
    ),
    "indices_as_int32": gradient(
        sizes="",
        position="n = Cast <to=6> (i)\nl = Transpose <perm=[0,2,3,1]> (n)\nq = Mod (l, plane)\nd = Mul (q, depth)",
        channels="int32[3] channels = {0, 1, 2}, int32[1] plane = {24}, int32 depth = {3}",
    ),
    "images_counted_by_a_constant": gradient(
        channels="int64[3] channels = {0, 1, 2}, int64[2,1,1,1] o = {0, 72}",
        batch="argmax = Add (a, o)",
        gradient=_WITH_BATCH["gradient"],
    ),
    # Optimisers remove the product with the number of channels and the sum with the channel's number,
    "only_channel": of_one_channel(
        gradient(position="l = Transpose <perm=[0,2,3,1]> (i)", channel="a = Mod (l, plane)")
    ),
    # and the sum with the image's number.
    "only_image": gradient(gradient=_STEPS["gradient"].replace("index=0", "index=1")).replace("float[2,", "float[1,"),
}


@pytest.mark.parametrize("source", VARIANTS.values(), ids=VARIANTS)
def test_variants(source: str, written: Written) -> None:
    check_lowered(source, written)


NEAR_MISSES: NearMisses = {
    (Code.NO_FORWARD_POOL, "argmax_is_an_input"): gradient(
        "float[2,4,6,3] x, float[2,2,3,3] dy, int64[2,2,3,3] a", position="", channel="", sizes=""
    ),
    (Code.NO_FORWARD_POOL, "argmax_of_the_pooled_values"): gradient(
        position="l = Transpose <perm=[0,2,3,1]> (m)\nq = Mod <fmod=1> (l, plane)\nd = Mul (q, depth)"
    ),
    (Code.INDICES_ALTERED, "cut_short"): gradient(
        "float[1,32768,16384,5] x, float[1,16384,8192,5] dy",
        channels="int64[5] channels = {0, 1, 2, 3, 4}",
        channel="e = Add (d, channels)\na = Cast <to=6> (e)",
    ).replace("float[2,2,3,3] y, float[2,4,6,3] dx", "float[1,16384,8192,5] y, float[1,32768,16384,5] dx"),
    (Code.INDICES_ALTERED, "of_symbolic_size"): gradient(
        "float[2,H,W,3] x, float[2,P,Q,3] dy", channel="e = Add (d, channels)\na = Cast <to=6> (e)"
    ).replace("float[2,2,3,3] y, float[2,4,6,3] dx", "float[2,P,Q,3] y, float[2,H,W,3] dx"),
    (Code.INDICES_ALTERED, "indices_of_a_symbolic_batch"): gradient(
        "float[N,4,6,3] x, float[N,2,3,3] dy",
        sizes="",
        position="n = Transpose <perm=[0,2,3,1]> (i)\nl = Cast <to=6> (n)\nq = Mod (l, plane)\nd = Mul (q, depth)",
        channels="int32[3] channels = {0, 1, 2}, int32[1] plane = {24}, int32 depth = {3}",
    ).replace("float[2,2,3,3] y, float[2,4,6,3] dx", "float[N,2,3,3] y, float[N,4,6,3] dx"),
    (Code.INDICES_NUMBERING, "as_int16"): gradient(channel="e = Add (d, channels)\na = Cast <to=5> (e)"),
    (Code.INDICES_NUMBERING, "batch_is_not_counted"): gradient(
        gradient=_STEPS["gradient"].replace("index=0", "index=1")
    ),
    (Code.INDICES_NUMBERING, "batch_is_counted_after_all"): gradient(
        batch=_WITH_BATCH["batch"], gradient=_WITH_BATCH["gradient"].replace("index=1", "index=0")
    ),
    (Code.INDICES_NUMBERING, "channels_in_another_order"): gradient(channels="int64[3] channels = {0, 2, 1}"),
    (Code.INDICES_NUMBERING, "channels_are_not_added"): gradient(
        channel="", gradient=_STEPS["gradient"].replace("dy, a", "dy, d")
    ),
    (Code.INDICES_NUMBERING, "channels_twice"): gradient(channel="e = Add (d, channels)\na = Add (e, channels)"),
    (Code.INDICES_NUMBERING, "remainder_by_another_size"): gradient(
        sizes="s = Shape (x)\ncount, height, width, depth = Split <axis=0> (s)\nplane = Mul (height, depth)"
    ),
    (Code.INDICES_NUMBERING, "times_another_size"): gradient(
        position="l = Transpose <perm=[0,2,3,1]> (i)\nq = Mod (l, plane)\nd = Mul (q, width)"
    ),
    (Code.INDICES_NUMBERING, "indices_transposed_otherwise"): gradient(
        position="l = Transpose <perm=[0,3,2,1]> (i)\nq = Mod (l, plane)\nd = Mul (q, depth)"
    ),
    (Code.INDICES_NUMBERING, "examples_counted_from_one"): gradient(
        **_WITH_BATCH | {"batch": _WITH_BATCH["batch"].replace("(start, n, step)", "(step, n, step)")}
    ),
    (Code.INDICES_NUMBERING, "images_counted_by_another_constant"): gradient(
        channels="int64[3] channels = {0, 1, 2}, int64[2,1,1,1] o = {0, 71}",
        batch="argmax = Add (a, o)",
        gradient=_WITH_BATCH["gradient"],
    ),
    (Code.INDICES_NUMBERING, "images_counted_along_the_rows"): gradient(
        channels="int64[3] channels = {0, 1, 2}, int64[1,2,1,1] o = {0, 72}",
        batch="argmax = Add (a, o)",
        gradient=_WITH_BATCH["gradient"],
    ),
    (Code.INDICES_NUMBERING, "examples_along_another_axis"): gradient(
        channels="int64[3] channels = {0, 1, 2}, int64[2] few = {1, 2}",
        **_WITH_BATCH | {"batch": _WITH_BATCH["batch"].replace("(r, others)", "(r, few)")},
    ),
    (Code.INDICES_NUMBERING, "times_a_size_for_each_channel"): gradient(
        channels="int64[3] channels = {0, 1, 2}, int64[3] depths = {1, 1, 3}",
        position="l = Transpose <perm=[0,2,3,1]> (i)\nq = Mod (l, plane)\nd = Mul (q, depths)",
    ),
    (Code.NO_FORWARD_POOL, "channels_taken_off"): gradient(channel="a = Sub (d, channels)"),
    (Code.INDICES_NUMBERING, "channels_from_outside"): gradient(
        "float[2,4,6,3] x, float[2,2,3,3] dy, int64[3] given", channel="a = Add (d, given)"
    ),
    (Code.INDICES_NUMBERING, "deeper_than_converters_write"): gradient(
        channels=_ONE, channel="e = Add (d, channels)\n" + products("e", "a", 7)
    ),
    (Code.INDICES_NUMBERING, "deeper_in_front_of_a_sum"): gradient(
        channels=_ONE, channel=products("d", "e", 7) + "\na = Add (e, channels)"
    ),
    (Code.INDICES_NUMBERING, "deeper_behind_a_sum"): gradient(
        channels=_ONE, channel=products("d", "e", 7) + "\na = Add (channels, e)"
    ),
    (Code.INDICES_NUMBERING, "images_counted_in_another_order"): gradient(
        "float[3,4,6,3] x, float[3,2,3,3] dy",
        channels="int64[3] channels = {0, 1, 2}, int64[1] one = {1}",
        **_WITH_BATCH
        | {"batch": _WITH_BATCH["batch"].replace("Range (start, n, step)", "Concat <axis=0> (zero, count, one)")},
    ).replace("float[2,2,3,3] y, float[2,", "float[3,2,3,3] y, float[3,"),
    (Code.INDICES_NUMBERING, "images_counted_along_rows_and_columns"): gradient(
        "float[6,4,4,3] x, float[6,2,2,3] dy",
        **_WITH_BATCH | {"batch": _WITH_BATCH["batch"].replace("Unsqueeze", "Reshape")},
    ).replace("float[2,2,3,3] y, float[2,4,6,3] dx", "float[6,2,2,3] y, float[6,4,4,3] dx"),
    (Code.INDICES_NUMBERING, "images_from_outside"): gradient(
        "float[2,4,6,3] x, float[2,2,3,3] dy, int64[2] given",
        **_WITH_BATCH | {"batch": _WITH_BATCH["batch"].replace("(r, others)", "(given, others)")},
    ),
    (Code.INDICES_NUMBERING, "pool_of_one_axis"): gradient(
        "float[2,4,6,3] x, float[2,2,3,3] dy, float[24] line",
        pool="m, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (line)",
    ),
    (Code.POOL_ATTRIBUTES, "channels_first"): gradient(
        "float[2,3,4,6] x, float[2,3,2,3] dy",
        sizes="",
        before="",
        pool="m, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)",
        channels="int64[3] channels = {0, 1, 2}, int64 plane = {24}, int64 depth = {3}",
        gradient=_STEPS["gradient"]
        .replace("[1,2,2,1]", "[1,1,2,2]")
        .replace("include_batch", 'data_format="NCHW", include_batch'),
    ).replace("float[2,4,6,3] dx", "float[2,3,4,6] dx"),
    (Code.NO_FORWARD_POOL, "pool_over_another_tensor"): gradient(
        before="z = Relu (x)\nt = Transpose <perm=[0,3,1,2]> (z)"
    ),
    (Code.ATTRIBUTE_MISMATCH, "other_windows"): gradient(
        gradient=_STEPS["gradient"].replace("ksize=[1,2,2,1]", "ksize=[1,2,3,1]")
    ),
    (Code.POOL_ATTRIBUTES, "no_windows"): gradient(gradient="dx = MaxPoolGradWithArgmax (x, dy, a)"),
    (Code.ARITY, "no_argmax"): gradient(gradient=_STEPS["gradient"].replace(", a)", ")")),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, model: str, says: Says) -> None:
    says(check_refused(model, code))


def test_an_operator_of_the_models_own_is_no_anchor() -> None:
    """A function of the model says what the node does, whatever its name."""
    text = gradient(gradient=_STEPS["gradient"].replace("= Max", "= ai.onnx.converters.tensorflow.Max")).replace(
        '"": 17', '"": 17, "ai.onnx.converters.tensorflow" : 1'
    )
    own = """<domain: "ai.onnx.converters.tensorflow", opset_import: ["" : 17]>
        MaxPoolGradWithArgmax (x, dy, argmax) => (dx) { dx = Neg (x) }"""
    assert len(lower(parse_model(text)).report.lowered) == 1
    assert lower(parse_model(text + own)).report.anchors == ()
