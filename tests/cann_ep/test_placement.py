# SPDX-License-Identifier: Apache-2.0

"""The predicted places, sub-models and copies are those of sessions with onnxruntime's CANN provider.

Those of steps are compared where the steps are measured, in `test_steps`.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from models import catalogue
from poolgrad_lowering import lower
from poolgrad_lowering.ge.placement import Place
from tests.cann_ep.placements import assert_predicted, node_count, predicted
from tests.harness.sessions.coverage import measure
from tests.harness.sessions.mixed_sessions import CANN, image
from tests.runtime.device_models import GRADIENT, POOL, model_of

pytestmark = pytest.mark.cann_ep

EXACT = (
    "torch/audio",
    "torch/ceil",
    "torch/lenet",
    "torch/lenet_dynamic_batch",
    "torch/nested",
    "torch/resnet_stem_float16",
    "torch/spatial_pyramid",
    "torch/unbatched",
    "torch/unet_level",
    "torch_legacy/axis_maximum",
    "torch_legacy/user_symbolic",
)
"""Models of which onnxruntime removes no nodes in ways that are not followed."""
WITHOUT_SESSION = (
    *("torch/lenet_opset21", "torch/lenet_opset23"),  # GE has no plugins for these opsets
    *("torch/float64", "torch/maximum_shared_by_ties", "torch_legacy/traced"),  # nothing is lowered
)
BUILT = [
    entry.name
    for entry in catalogue.entries()
    if entry.name.startswith("torch") and entry.file.with_suffix(".npz").exists() and entry.name not in WITHOUT_SESSION
]
"""The models out of PyTorch. Those of onnxruntime-training run as steps in standard ONNX only."""

OTHERS = {
    "both ways between host and device": (
        f"""m (float[2, 2, 4, 4] x, float[4] w) => (float[2, 2, 4, 4] out, float[2, 2, 4, 4] again) {{
          r = Relu (x)
          v = Exp (w)
          n = LayerNormalization (r, v)
          y, argmax = {POOL} (n)
          g = Neg (y)
          dx = {GRADIENT} (n, g, argmax)
          m = LayerNormalization (dx, v)
          out = Tanh (m)
          again = Neg (n)
        }}""",
        {"x": image(2, 2, 4, 4), "w": image(4, seed=1)},
    ),
    "a random number": (
        f"""m (float[2, 2, 4, 4] x) => (float[2, 2, 2, 2] y, float[2, 2, 4, 4] dx) {{
          u = RandomUniform <shape = [1], seed = 1.0> ()
          zero = Sub (u, u)
          s = Add (x, zero)
          y, argmax = {POOL} (s)
          dx = {GRADIENT} (s, y, argmax)
        }}""",
        {"x": image(2, 2, 4, 4)},
    ),
    "computed once": (
        f"""m (float[2, 2, 4, 4] x) => (float[2, 2, 2, 2] y, float[2, 2, 4, 4] dx) <float[1] c = {{3}}> {{
          d = Exp (c)
          e = Exp (x)
          s = Shape (e)
          i = Identity (x)
          t = Mul (i, d)
          two = ConstantOfShape <value: tensor = float[1] {{2}}> (s)
          z = Mul (t, two)
          y, argmax = {POOL} (z)
          dx = {GRADIENT} (z, y, argmax)
        }}""",
        {"x": image(2, 2, 4, 4)},
    ),
    "a product and a sum, as one node behind all others": (
        """m (float[4, 3] x, float[3, 2] w, float[1, 2] b, float rate) => (float[4, 2] y, float[4, 2] again) {
          p = MatMul (x, w)
          s = Add (b, p)
          y = Mul (s, rate)
          again = Neg (y)
        }""",
        {"x": image(4, 3), "w": image(3, 2, seed=1), "b": image(1, 2, seed=2), "rate": np.array(0.5, np.float32)},
    ),
    "equal nodes, as the first of them": (
        f"""m (float[2, 2, 4, 4] x, float[2] s) => (float[2, 2, 2, 2] y, float[2, 2, 4, 4] dx, float[1] z) {{
          r = Relu (x)
          a = Exp (s)
          c = Neg (a)
          y, argmax = {POOL} (r)
          b = Exp (s)
          d = Neg (b)
          g = Neg (y)
          dx = {GRADIENT} (r, g, argmax)
          e = Mul (c, d)
          z = ReduceSum (e)
        }}""",
        {"x": image(2, 2, 4, 4), "s": image(2)},
    ),
    "joined Reshapes, behind all nodes": (
        """m (float[4, 3] x, float[4, 3] w, float rate) => (float loss, float[4, 3] new) {
          p = Mul (x, w)
          loss = ReduceMean <keepdims = 0> (p)
          g = Mul (x, p)
          s = Mul (rate, g)
          new = Sub (w, s)
        }""",
        {"x": image(4, 3), "w": image(4, 3, seed=1), "rate": np.array(0.5, np.float32)},
    ),
}


@pytest.mark.parametrize("name", BUILT)
def test_built_models(name: str) -> None:
    entry = catalogue.entry(name)
    model = lower(onnx.load(entry.file), target="ascend950").model
    session = measure(model, entry.feeds())
    assert_predicted(model, session)
    assert name not in EXACT or session.nodes.get(CANN, 0) == node_count(predicted(model), Place.CANN)


@pytest.mark.parametrize("name", OTHERS)
def test_places(name: str) -> None:
    text, feeds = OTHERS[name]
    model = model_of(text)
    session = measure(model, feeds)
    assert_predicted(model, session)
    assert session.nodes[CANN] == node_count(predicted(model), Place.CANN)


def test_sizes_that_the_provider_reads_back() -> None:
    windows = "<kernel_shape = [2, 2], strides = [2, 2]>"
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> m (float[N, 2, 4, 4] x, float[N, 2, 2, 2] g)'
        " => (float[N, 2, 4, 4] dx, float[N, 2, 2, 2] y) {"
        f" r = Relu (x) y = AveragePool {windows} (r) dy = Neg (g) dx = AveragePoolGrad {windows} (dy) }}"
    )
    lowered = lower(model, target="ascend950").model
    assert predicted(lowered).copies == 1
    assert_predicted(lowered, measure(lowered, {"x": image(2, 2, 4, 4), "g": image(2, 2, 2, 2)}))
