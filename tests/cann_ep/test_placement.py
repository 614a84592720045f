# SPDX-License-Identifier: Apache-2.0

"""The predicted places, sub-models and copies are those of sessions with onnxruntime's CANN provider."""

from __future__ import annotations

import onnx
import pytest

from models import catalogue
from poolgrad_lowering import lower
from poolgrad_lowering.ge.graph_mode import inline_functions, rewrite_nodes
from poolgrad_lowering.ge.placement import Place, Placement, find_placement
from poolgrad_lowering.ge.values import value_types
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.runtime import get_ep_name
from tests.harness.sessions.coverage import Coverage, measure
from tests.harness.sessions.mixed_sessions import CANN, Feeds, image
from tests.runtime.device_models import GRADIENT, POOL, model_of

pytestmark = pytest.mark.cann_ep

MODELS = (
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
REWRITTEN = ("torch/lenet_unoptimised", "torch/maximum_over_channels", "torch/maximum_over_points")
"""Models of which onnxruntime removes nodes in ways that are not followed."""

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
}


def predicted(model: onnx.ModelProto) -> Placement:
    inline_functions(model)
    types = value_types(model, Gate().index(model), ExternalData())
    rewrite_nodes(model, types)
    return find_placement(model, types)


def check(model: onnx.ModelProto, feeds: Feeds) -> None:
    session = measure(model, feeds)
    assert not session.error
    found = predicted(model)
    providers = {Place.PROVIDER: get_ep_name(), Place.CANN: CANN, Place.CPU: "CPUExecutionProvider"}
    assert {place: session.nodes.get(name, 0) for place, name in providers.items()} == {
        place: found.node_count(place) for place in Place
    }
    assert session.sub_models == found.sub_models
    assert between(session) == len(feeds) + len(model.graph.output) + found.copies


def between(session: Coverage) -> int:
    """The number of copies between host and device, those of inputs and outputs included."""
    return session.copies["to device"] + session.copies["to host"]


@pytest.mark.parametrize("name", MODELS)
def test_built_models(name: str) -> None:
    entry = catalogue.entry(name)
    check(lower(onnx.load(entry.file), target="ascend950").model, entry.feeds())


@pytest.mark.parametrize("name", REWRITTEN)
def test_what_onnxruntime_rewrites_is_on_the_cann_provider(name: str) -> None:
    entry = catalogue.entry(name)
    model = lower(onnx.load(entry.file), target="ascend950").model
    session, found = measure(model, entry.feeds()), predicted(model)
    assert (session.nodes[get_ep_name()], session.nodes_on_the_cpu) == (found.node_count(Place.PROVIDER), 0)
    assert (session.sub_models, found.copies) == (found.sub_models, 0)
    assert session.nodes[CANN] < found.node_count(Place.CANN)


@pytest.mark.parametrize("name", OTHERS)
def test_places(name: str) -> None:
    text, feeds = OTHERS[name]
    check(model_of(text), feeds)
