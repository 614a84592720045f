# SPDX-License-Identifier: Apache-2.0

"""The built training graphs on the provider's host backend: every pool and gradient runs there, with the same bits."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from models import catalogue
from models.catalogue import Entry
from poolgrad_lowering import lower, runtime
from poolgrad_lowering.dialect import DOMAIN
from tests.oracles import assert_same_bits, run_ort

# onnxruntime's CPU computes float16 nodes in float32 and drops the casts between neighbours, so that a gradient inlined
# among them is never rounded to float16; one that the provider runs is, as the graph says. One rounding of the largest
# element, 2^-11 of it, in what is computed from the gradient, and one of the result.
FLOAT16_ROUNDING = 2.0**-10

# An adaptive pool to more windows than x has elements: the provider leaves it to the function bodies.
ENLARGING = "spellings/adaptive_tables_upsize"

RUNNING = [entry for entry in catalogue.spellings() if entry.file.with_suffix(".npz").exists()]
ENTRIES = [pytest.param(entry, id=entry.name) for entry in (*catalogue.entries("torch"), *RUNNING) if entry.sites]


@pytest.mark.parametrize("forward", [True, False], ids=["pools_move", "pools_stay"])
@pytest.mark.parametrize("target", ["atlas-a2", "ascend950"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_lowered_on_the_provider(entry: Entry, target: str, forward: bool) -> None:
    model = onnx.load(entry.file)
    result = lower(model, target=target, forward=forward)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = runtime.create_session(result.model, backend="host", session_options=options)
    nodes = [node for node in runtime.assignment(session) if node.domain == DOMAIN]
    moved = sum(node.domain == DOMAIN and "Grad" not in node.op_type for node in result.model.graph.node)
    assert len(nodes) == (0 if entry.name == ENLARGING else entry.site_count + moved)
    assert {node.provider for node in nodes} <= {runtime.get_ep_name()}
    feeds = entry.feeds()
    expected = run_ort(model, feeds)
    found = dict(zip(expected, session.run(list(expected), feeds), strict=True))
    for name, array in expected.items():
        if array.dtype == np.float16:
            assert np.allclose(found[name], array, rtol=0, atol=FLOAT16_ROUNDING * float(np.abs(array).max()))
        else:
            assert_same_bits(np.asarray(found[name]), np.asarray(array))
