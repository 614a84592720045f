# SPDX-License-Identifier: Apache-2.0

"""Plugins that get one attribute, type or format wrong: the stand-in refuses the graph or computes something else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.atc import hand_made
from tests.harness.ge.checking import convert
from tests.harness.ge.driver import AnyPlugin, Attribute, Parsed
from tests.harness.ge.faults import GeError
from tests.harness.ge.parser import parse
from tests.harness.ge.prototypes import PROTOTYPES
from tests.harness.ge.python_plugin import Mangling, OtherFormat, PythonPlugin

MANGLED = {
    "pool": (hand_made.A2, "ascend910b", "MaxPool3DWithArgmaxV2"),
    "gradient": (hand_made.A2, "ascend910b", "MaxPool3DGradWithArgmax"),
    "new pool": (hand_made.NEW, "ascend950", "MaxPoolWithArgmaxV3"),
    "new gradient": (hand_made.NEW, "ascend950", "MaxPoolGradWithArgmaxV3"),
    "adaptive pool": (hand_made.ADAPTIVE, "ascend910b", "AdaptiveMaxPool3d"),
}
THREE = {
    "ksize": [1, 3, 2],
    "strides": [1, 2, 3],
    "pads": [0, 0, 1],
    "dilation": [1, 1, 2],
    "ceil_mode": True,
    "data_format": "NDHWC",
}
TWO = {"ksize": [3, 2], "strides": [2, 1], "pads": [1, 0], "dilation": [2, 1], "ceil_mode": True}
WRONG = {
    "pool": THREE | {"dtype": 9},
    "gradient": THREE,
    "new pool": TWO | {"dtype": 3, "data_format": "NHWC"},
    "new gradient": TWO | {"dtype": 3, "data_format": "NHWC"},
    "adaptive pool": {"output_size": [1, 5, 4], "indices_dtype": 9},
}


@pytest.mark.parametrize(
    ("where", "attribute"), [(where, attribute) for where, values in WRONG.items() for attribute in values]
)
def test_an_attribute_that_the_plugin_mangles_is_seen(plugin: AnyPlugin, where: str, attribute: str) -> None:
    text, soc, ge_type = MANGLED[where]
    even = [("7,9]", "8,9]")]  # with ceil_mode there is one window more
    model = hand_made.parsed(text, *(even if attribute == "ceil_mode" else []))
    mangling = Mangling(plugin, ge_type, attribute, WRONG[where][attribute])
    feeds = hand_made.feeds_of(model)
    right = convert(model, feeds, plugin, soc)
    try:
        found = convert(model, feeds, mangling, soc)
    except GeError:
        return
    assert any(
        found[name].shape != value.shape or found[name].dtype != value.dtype or not np.array_equal(found[name], value)
        for name, value in right.items()
    )


def test_every_attribute_of_every_prototype_is_mangled() -> None:
    assert {MANGLED[where][2]: set(values) for where, values in WRONG.items()} == {
        name: set(row.types()) for name, row in PROTOTYPES.items()
    }


@pytest.mark.parametrize("number", [0, 2])
def test_a_format_that_the_plugin_forgets_is_seen_on_ascend910b(plugin: AnyPlugin, number: int) -> None:
    model = hand_made.parsed(hand_made.A2)
    with pytest.raises(GeError, match="format"):
        convert(model, hand_made.feeds_of(model), OtherFormat(plugin, number), "ascend910b")


def test_an_attribute_of_another_type_of_ge_is_found() -> None:
    class Numbers(PythonPlugin):
        def parse(self, key: str, source: Any, **operator: Any) -> Parsed:
            parsed = super().parse(key, source, **operator)
            return replace(parsed, attributes={**parsed.attributes, "ceil_mode": Attribute("INT", 0)})

    with pytest.raises(GeError, match=r"E19999: attribute ceil_mode of pool .* is INT instead of BOOL"):
        parse(hand_made.parsed(hand_made.A2), Numbers())
