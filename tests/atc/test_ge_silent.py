# SPDX-License-Identifier: Apache-2.0

"""What GE takes without a word and computes differently: the stand-in computes it as GE would."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from tests.atc import hand_made
from tests.harness.ge.checking import convert, parse_and_run
from tests.harness.ge.driver import AnyPlugin
from tests.harness.ge.parser import parse
from tests.harness.ge.prototypes import SOCS, Soc
from tests.harness.ge.python_plugin import PythonPlugin
from tests.heads import head
from tests.oracles import assert_same_bits, max_pool, pool_gradient

Array = npt.NDArray[Any]
RANK_4 = (
    head(16, "npu")
    + """
g (float[2,3,7,9] x, float[2,3,4,5] dy, int32[2,3,4,5] argmax) => (float[2,3,7,9] dx) {
  [site] dx = npu.MaxPool3DGradWithArgmax <ksize=[1,3,3], strides=[1,2,2], pads=[0,1,1], dilation=[1,1,1],
    ceil_mode=0, data_format="NCDHW"> (x, dy, argmax)
}
"""
)


def run(text: str, feeds: dict[str, Array], soc: Soc) -> dict[str, Array]:
    return convert(onnx.parser.parse_model(text), feeds, PythonPlugin(), soc)


def pool_text(shape: str, attributes: str) -> str:
    header = head(16) + ""
    return f"{header} g (float[{shape}] x) => (float[?] y) {{y = MaxPool <{attributes}> (x)}}"


def test_rank_4_of_a_gradient_on_ascend950_is_read_as_c_d_h_w(plugin: AnyPlugin) -> None:
    model = onnx.parser.parse_model(RANK_4)
    feeds = hand_made.feeds_of(model)
    planes, argmax = max_pool(feeds["x"][:, :, None], [1, 3, 3], [1, 2, 2], [0, 1, 1] * 2)
    feeds["argmax"] = (argmax % 63).astype(np.int32).reshape(planes.shape[:2] + planes.shape[3:])
    found = convert(model, feeds, plugin, "ascend950")["dx"]
    # Indices below 63 are all in the first of three layers, and only that layer's windows contain them.
    first = pool_gradient((2, 63), feeds["dy"][:, 0], feeds["argmax"][:, 0] + 63 * np.arange(2).reshape(2, 1, 1))
    assert_same_bits(found[:, 0], first.reshape(2, 7, 9))
    assert not found[:, 1:].any()
    assert not np.array_equal(found, pool_gradient((2, 3, 7, 9), feeds["dy"], argmax.reshape(2, 3, 4, 5)))


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize(
    ("shape", "said", "taken"),
    [
        ("1,2,9,9", "kernel_shape=[3,3], dilations=[2,1]", "kernel_shape=[3,3]"),
        ("1,2,9", "kernel_shape=[3], dilations=[2]", "kernel_shape=[3]"),
        (
            "1,1,8,8",
            'kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_LOWER"',
            'kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_UPPER"',
        ),
    ],
)
def test_a_pool_loses_its_dilation_and_takes_same_lower_for_same_upper(
    shape: str, said: str, taken: str, soc: Soc
) -> None:
    feeds = hand_made.feeds_of(onnx.parser.parse_model(pool_text(shape, said)))
    found = run(pool_text(shape, said), feeds, soc)["y"]
    assert_same_bits(found, run(pool_text(shape, taken), feeds, soc)["y"])
    model = onnx.parser.parse_model(pool_text(shape, said))
    with pytest.raises(AssertionError):
        parse_and_run(model, model, feeds, PythonPlugin(), soc)


@pytest.mark.parametrize("soc", SOCS)
def test_a_pool_over_three_axes_keeps_its_dilation(soc: Soc) -> None:
    model = onnx.parser.parse_model(pool_text("1,1,5,5,5", "kernel_shape=[2,2,2], dilations=[1,2,3]"))
    parse_and_run(model, model, hand_made.feeds_of(model), PythonPlugin(), soc)


@pytest.mark.parametrize(
    ("said", "same_on"),
    [
        ("kernel_shape=[16,16], strides=[3,3], ceil_mode=1", {"ascend950"}),
        ("kernel_shape=[2,2], strides=[1,64], ceil_mode=1", {"ascend950"}),
        ("kernel_shape=[2,2], strides=[1,63], ceil_mode=1", set(SOCS)),
        ("kernel_shape=[15,17], strides=[3,3], ceil_mode=1", set(SOCS)),
        ("kernel_shape=[16,16], strides=[3,3]", set(SOCS)),
        ('kernel_shape=[16,16], strides=[3,3], auto_pad="SAME_UPPER"', {"ascend950"}),
        ("kernel_shape=[16,16], strides=[3,3], pads=[2,2,2,2]", set(SOCS)),
    ],
)
@pytest.mark.parametrize("soc", SOCS)
def test_a_large_pool_goes_to_the_devices_cpu_and_loses_its_rounding(said: str, same_on: set[str], soc: Soc) -> None:
    model = onnx.parser.parse_model(pool_text("1,1,67,129", said))
    feeds = hand_made.feeds_of(model)
    if soc in same_on:
        parse_and_run(model, model, feeds, PythonPlugin(), soc)
    else:
        with pytest.raises(AssertionError):
            parse_and_run(model, model, feeds, PythonPlugin(), soc)


def test_a_large_pool_is_padded_with_a_finite_number() -> None:
    feeds = {"x": np.full((1, 1, 16, 16), -1e6, np.float32)}
    text = pool_text("1,1,16,16", "kernel_shape=[16,16], pads=[1,1,1,1]")
    assert run(text, feeds, "ascend910b")["y"].max() == -65504
    assert run(text, feeds, "ascend950")["y"].max() == -1e6


def test_a_missing_operand_is_joined_to_an_output_without_a_name() -> None:
    text = (
        head(16)
        + """ g (float[4] x, int64[1] begin, int64[1] end) => (float[?] y, float[2] last) {
      [a] first, last = Split (x)
      [b] y = Slice (x, begin, end, , begin)
    }"""
    )
    model = onnx.parser.parse_model(text)
    assert parse(model, PythonPlugin()).model.graph.node[1].input[3] == ""
    model.graph.node[0].output[0] = ""
    joined = parse(model, PythonPlugin()).model.graph.node
    assert joined[1].input[3] == joined[0].output[0] != ""


def test_a_missing_bound_of_clip_is_not_joined() -> None:
    text = (
        head(16)
        + """ g (float[4] x, float high) => (float[4] y, float[2] last) {
      [a] first, last = Split (x)
      [b] y = Clip (x, , high)
    }"""
    )
    model = onnx.parser.parse_model(text)
    model.graph.node[0].output[0] = ""
    feeds = {"x": np.array([-1, 2, 3, 4], np.float32), "high": np.array(3, np.float32)}
    assert convert(model, feeds, PythonPlugin(), "ascend910b")["y"].tolist() == [-1, 2, 3, 3]
