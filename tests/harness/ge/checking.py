# SPDX-License-Identifier: Apache-2.0

"""A model through the stand-in from end to end: what GE would compute, against what the original computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
from onnx import ModelProto, TensorProto

from tests.harness.ge.driver import AnyPlugin
from tests.harness.ge.execution import Engine, execute, run_plainly
from tests.harness.ge.parser import GeGraph, parse
from tests.harness.ge.prototypes import Release, Soc
from tests.oracles import assert_same_bits, run_reference

Array = npt.NDArray[Any]


def convert(
    model: ModelProto, feeds: Mapping[str, Array], plugin: AnyPlugin, soc: Soc, release: Release = "9.0.0"
) -> dict[str, Array]:
    """Return what a model computes once ATC has converted it, by name of output.

    Raises:
        GeError: it is not converted.
    """
    return execute(parse(model, plugin, release), feeds, soc)


def engine_for(model: ModelProto) -> Engine:
    """Return the engine that computes a node of this model by itself as it computes it among others.

    onnxruntime computes float16 operators without a kernel in float32, and rounds only where one with a kernel follows;
    and it does not know PyTorch's operators.
    """
    has_float16 = any(value.type.tensor_type.elem_type == TensorProto.FLOAT16 for value in model.graph.input)
    return run_reference if has_float16 or any(node.domain for node in model.graph.node) else run_plainly


def parse_and_run(
    original: ModelProto,
    exported: ModelProto,
    feeds: Mapping[str, Array],
    plugin: AnyPlugin,
    soc: Soc,
    *,
    release: Release = "9.0.0",
) -> GeGraph:
    """Assert that an exported model is converted and computes the original's bits; return the graph of GE.

    The standard operators of both run in `engine_for(original)`.

    Raises:
        GeError: the model is not converted.
        AssertionError: an output differs, or is missing.
    """
    engine = engine_for(original)
    graph = parse(exported, plugin, release)
    found = execute(graph, feeds, soc, engine)
    expected = engine(original, feeds)
    assert list(found) == [value.name for value in original.graph.output]
    for name, value in expected.items():
        assert_same_bits(found[name], value)
    return graph
