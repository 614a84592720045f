# SPDX-License-Identifier: Apache-2.0

"""Models that mix pools of the dialect with nodes of the CPU, and their results on onnxruntime's CPU provider."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import onnxruntime as ort

from poolgrad_lowering.dialect import function_body
from poolgrad_lowering.runtime import assignment, create_session, get_ep_name
from tests.heads import head
from tests.oracles import assert_same_bits

Array = npt.NDArray[Any]

OPSET = 18  # the newest one that CANN's parser takes
_HEADER = f"{head(OPSET, 'npu', ir=10)}"
# 2x2 windows side by side: every index is in one window, so that no sum depends on an order.
_WINDOW = 'ksize=[1,2,2], strides=[1,2,2], pads=[0,0,0], dilation=[1,1,1], ceil_mode=0, data_format="NCDHW"'
_IN_ONNX = "onnx_kernel_shape=[2,2], onnx_strides=[2,2], onnx_pads=[0,0,0,0], onnx_dilations=[1,1], onnx_ceil_mode=0"
POOL = f"npu.MaxPool3DWithArgmaxV2 <{_WINDOW}, dtype=3, {_IN_ONNX}>"
GRADIENT = f"npu.MaxPool3DGradWithArgmax <{_WINDOW}>"

# The pool's y goes through the CPU on its way to the gradient; its argmax need not.
CHAIN = f"""
chain (float[N, C, H, W] x) => (float[N, C, H, W] dx, float[N, C, h, w] y) {{
  y, argmax = {POOL} (x)
  grad = Neg (y)
  dx = {GRADIENT} (x, grad, argmax)
}}"""

# The gradient alone: its argmax is an input.
ALONE = f"""
alone (float[N, C, H, W] x, float[N, C, h, w] grad, int32[N, C, h, w] argmax) => (float[N, C, H, W] dx) {{
  dx = {GRADIENT} (x, grad, argmax)
}}"""

# Branches that take values of the provider from outside, compute on it, and give them out again.
BRANCH = f"""
branch (float[N, C, H, W] x, bool first) => (float[N, C, H, W] dx, float[N, C, H, W] twice) {{
  y, argmax = {POOL} (x)
  dx = If (first) <
    then_branch = one () => (float[N, C, H, W] a) {{
      ga = Abs (y)
      a = {GRADIENT} (x, ga, argmax)
    }},
    else_branch = other () => (float[N, C, H, W] b) {{
      yb, argmaxb = {POOL} (x)
      gb = {GRADIENT} (x, y, argmaxb)
      b = Neg (gb)
    }}
  >
  twice = Add (dx, dx)
}}"""

# Each pool's results are freed while the device still has to read them, and are too large for the next.
DEEP = f"""
deep (float[N, C, H, W] x) => (float[N, C, g, h] last)
<float[N, C, a, b] y1, float[N, C, c, d] y2, float[N, C, e, f] y3> {{
  y1, argmax1 = {POOL} (x)
  y2, argmax2 = {POOL} (y1)
  y3, argmax3 = {POOL} (y2)
  last, argmax4 = {POOL} (y3)
}}"""

# The same pool again and again, each time on what the gradient gave.
LOOP = f"""
loop (float[N, C, H, W] x, int64 count) => (float[N, C, H, W] last) {{
  go = Constant <value = bool {{1}}> ()
  last = Loop (count, go, x) <
    body = step (int64 i, bool keep, float[N, C, H, W] v) => (bool again, float[N, C, H, W] next) {{
      y, argmax = {POOL} (v)
      next = {GRADIENT} (v, y, argmax)
      again = Identity (keep)
    }}
  >
}}"""


def model_of(text: str, element_type: int = onnx.TensorProto.FLOAT) -> onnx.ModelProto:
    """The model of a graph's text, with the bodies of the operators it uses and a name for every node."""
    model = onnx.parser.parse_model(_HEADER + text)
    _name_nodes(model.graph, "")
    operators = [name for name in ("MaxPool3DWithArgmaxV2", "MaxPool3DGradWithArgmax") if name in text]
    model.functions.extend(function_body(name, OPSET, [element_type]) for name in operators)
    return model


def _name_nodes(graph: onnx.GraphProto, prefix: str) -> None:
    for number, node in enumerate(graph.node):
        node.name = f"{prefix}{node.op_type}_{number}"
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _name_nodes(attribute.g, f"{node.name}/{attribute.name}/")


def image(*shape: int, seed: int = 0) -> Array:
    """Few distinct values, so that windows have ties."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def alone_feeds(*shape: int, seed: int = 0) -> dict[str, Array]:
    """Feeds of ALONE for x of this shape."""
    n, c, height, width = shape
    pooled = (n, c, height // 2, width // 2)
    rng = np.random.default_rng(seed)
    corner = 2 * np.arange(height // 2)[:, None] * width + 2 * np.arange(width // 2)
    inside = rng.choice([0, 1, width, width + 1], pooled)
    return {
        "x": image(*shape),
        "grad": rng.standard_normal(pooled).astype(np.float32),
        "argmax": (corner + inside).astype(np.int32),
    }


def open_session(text: str, session_options: ort.SessionOptions | None = None, **options: str) -> ort.InferenceSession:
    """A session in which the provider runs every node of the dialect."""
    quiet = session_options or ort.SessionOptions()
    quiet.log_severity_level = 3
    session = create_session(model_of(text), session_options=quiet, **{"backend": "host", **options})
    providers = [node.provider for node in assignment(session) if node.domain == "npu"]
    assert providers == [get_ep_name()] * text.count("= npu.")
    return session


def expected(text: str, feeds: dict[str, Array]) -> list[Array]:
    """The results of the function bodies on the CPU."""
    return list(_on_cpu(text).run(None, feeds))


@functools.cache
def _on_cpu(text: str) -> ort.InferenceSession:
    return ort.InferenceSession(model_of(text).SerializeToString(), providers=["CPUExecutionProvider"])


def assert_right(session: ort.InferenceSession, text: str, feeds: dict[str, Array]) -> None:
    """Require that the session's results have the bits of `expected`."""
    for found, wanted in zip(session.run(None, feeds), expected(text, feeds), strict=True):
        assert_same_bits(found, wanted)
