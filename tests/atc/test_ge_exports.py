# SPDX-License-Identifier: Apache-2.0

"""Small graphs that GE refuses as they are and takes once they are exported, with the same bits."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import export_atc
from tests.atc import hand_made
from tests.harness.ge.checking import convert, parse_and_run
from tests.harness.ge.driver import AnyPlugin
from tests.harness.ge.faults import GeError
from tests.heads import head

HEADER = head(16) + ""
POOL = "MaxPool <kernel_shape=[3,3], strides=[2,2]> (x)"
GRAPHS = {
    "Indices that nobody reads": ("E11010", f"g (float[1,2,9,9] x) => (float[?] y) {{ y, i = {POOL} }}"),
    "a node with the name of an input": ("E13009", "g (float[2] x) => (float[2] y) { [x] y = Neg (x) }"),
    "a name that GE makes itself": ("E13009", "g (float[2] x) => (float[2] y) { z = Neg (x) [Neg_0] y = Abs (z) }"),
}


@pytest.mark.parametrize(("code", "text"), GRAPHS.values(), ids=GRAPHS)
def test_the_export_of_a_graph_that_ge_refuses(plugin: AnyPlugin, code: str, text: str) -> None:
    model = onnx.parser.parse_model(f"{HEADER} {text}")
    feeds = hand_made.feeds_of(model)
    with pytest.raises(GeError, match=code):
        convert(model, feeds, plugin, "ascend910b")
    export = export_atc(model)
    assert export.report.converts
    parse_and_run(model, export.model, feeds, plugin, "ascend910b")
