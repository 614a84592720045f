# SPDX-License-Identifier: Apache-2.0

"""Gradients of ceil_mode pools that stay on the CPU: onnxruntime's inference counts windows that its kernel drops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import onnxruntime as ort
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.runtime import assignment, create_session, get_ep_name
from tests.oracles import assert_same_bits
from tests.pool_graphs import torch_gradient

Geometry = tuple[int, int, int, int]  # size, kernel, stride, padding


def dropping() -> Iterator[Geometry]:
    """The geometries whose last window starts behind x and the padding before it."""
    for size, kernel, stride, padding in itertools.product(range(4, 9), (1, 2, 3), (2, 3, 4), (0, 1)):
        last = -(-(size + 2 * padding - kernel) // stride) * stride
        if 2 * padding <= kernel and last >= size + padding:
            yield size, kernel, stride, padding


def test_there_are_such_geometries() -> None:
    assert len(list(dropping())) == 29


@pytest.mark.parametrize("geometry", dropping(), ids=str)
def test_the_provider_takes_the_gradient(geometry: Geometry) -> None:
    size, kernel, stride, padding = geometry
    model = torch_gradient(
        [1, 2, size, size], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[padding] * 4, ceil_mode=1
    )
    options = ort.SessionOptions()
    options.log_severity_level = 4  # its inference and its kernel differ, of which it warns
    session = create_session(lower(model, forward=False).model, backend="host", session_options=options)
    assert [node.provider for node in assignment(session) if node.domain == "npu"] == [get_ep_name()]
    random = np.random.default_rng(0)
    feeds = {value.name: random.standard_normal(value.shape).astype(np.float32) for value in session.get_inputs()}
    cpu = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for found, wanted in zip(session.run(None, feeds), cpu.run(None, feeds), strict=True):
        assert_same_bits(found, wanted)
