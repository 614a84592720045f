# SPDX-License-Identifier: Apache-2.0

"""The layer of a node is read from what torch's exporter writes; anything else is ignored."""

from __future__ import annotations

import pytest
from onnx import NodeProto

from poolgrad_lowering.model.ir.metadata import NAME_SCOPES, SITE, layer_of, site_of


def node(*entries: tuple[str, str]) -> NodeProto:
    made = NodeProto(op_type="Relu")
    for key, value in entries:
        made.metadata_props.add(key=key, value=value)
    return made


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("['', 'features', 'features.3', 'max_pool2d']", "features.3"),
        ("""['', "it's", 'max_pool2d']""", "it's"),
        ("['','block','pool']", "block"),
        ("['', 'Schicht ü', 'pool']", "Schicht ü"),
        ("['', 'max_pool2d']", None),  # the model itself is no layer
        ("['max_pool2d']", None),
        ("[]", None),
        ("", None),
        ("['', 'features.3', 'max_pool2d'", None),
        ("['', 3, 'max_pool2d']", None),
        ("['', ['features.3'], 'max_pool2d']", None),
        ("('', 'features.3', 'max_pool2d')", None),
        ("['', 'features.3' 'max_pool2d']", None),
        ("['', '\\x66eatures', 'max_pool2d']", None),
        ("['', __import__('os').sep, 'max_pool2d']", None),
        ("[" * 4000, None),
        (f"['', 'features.3', '{'x' * 5000}']", None),
        ("['', 'a\nb', 'c']", None),
    ],
)
def test_layer(text: str, layer: str | None) -> None:
    assert layer_of(node((NAME_SCOPES, text))) == layer


def test_the_first_entry_that_can_be_read_counts() -> None:
    good, other = (NAME_SCOPES, "['', 'a', 'pool']"), (NAME_SCOPES, "['', 'b', 'pool']")
    assert layer_of(node(("key", "['', 'c', 'pool']"), (NAME_SCOPES, "odd"), good, other)) == "a"
    assert layer_of(node()) is None


def test_site() -> None:
    assert site_of(node(("key", "value"), (SITE, "main:dX"))) == "main:dX"
    assert site_of(node((SITE, "x" * 5000))) is None
