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
from tests.harness.ge.prototypes import PROTOTYPES, RELEASES
from tests.harness.ge.python_plugin import Mangling, OtherFormat, PythonPlugin

MANGLED = {
    "pool": (hand_made.A2, "ascend910b", "MaxPool3DWithArgmaxV2"),
    "gradient": (hand_made.A2, "ascend910b", "MaxPool3DGradWithArgmax"),
    "new pool": (hand_made.NEW, "ascend950", "MaxPoolWithArgmaxV3"),
    "new gradient": (hand_made.NEW, "ascend950", "MaxPoolGradWithArgmaxV3"),
    "adaptive pool": (hand_made.ADAPTIVE, "ascend910b", "AdaptiveMaxPool3d"),
    "average": (hand_made.AVERAGE, "ascend910b", "AvgPool3DGrad"),
    "new average": (hand_made.AVERAGE_2D, "ascend950", "AvgPoolV2Grad"),
    "adaptive average": (hand_made.ADAPTIVE_AVERAGE, "ascend950", "AdaptiveAvgPool3dGrad"),
    "new adaptive average": (hand_made.ADAPTIVE_AVERAGE_2D, "ascend950", "AdaptiveAvgPool2dGrad"),
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
WRONG: dict[str, dict[str, Any]] = {
    "pool": THREE | {"dtype": 9},
    "gradient": THREE,
    "new pool": TWO | {"dtype": 3, "data_format": "NHWC"},
    "new gradient": TWO | {"dtype": 3, "data_format": "NHWC"},
    "adaptive pool": {"output_size": [1, 5, 4], "indices_dtype": 9},
    "average": {
        "ksize": [1, 3, 2],
        "strides": [1, 2, 3],
        "pads": [0, 0, 1, 1, 0, 0],
        "ceil_mode": True,
        "count_include_pad": True,
        "divisor_override": 5,
        "data_format": "NDHWC",
    },
    "new average": {
        "ksize": [1, 1, 3, 2],
        "strides": [1, 1, 2, 3],
        "padding_mode": "SAME",
        "pads": [1, 1, 0, 0],
        "data_format": "NHWC",
        "global_pooling": True,
        "ceil_mode": True,
        "exclusive": False,
        "divisor_override": 5,
    },
    "adaptive average": {"data_format": "NDHWC"},
    "new adaptive average": {"orig_input_shape": [2, 3, 7, 8]},
}


@pytest.mark.parametrize(
    ("where", "attribute"), [(where, attribute) for where, values in WRONG.items() for attribute in values]
)
def test_an_attribute_that_the_plugin_mangles_is_seen(plugin: AnyPlugin, where: str, attribute: str) -> None:
    text, soc, ge_type = MANGLED[where]
    even = [("7,9]", "8,9]"), *([("7,9}", "8,9}")] if "7,9}" in text else [])]  # with ceil_mode, one window more
    model = hand_made.parsed(text, *(even if attribute == "ceil_mode" else []))
    mangling = Mangling(plugin, ge_type, attribute, WRONG[where][attribute])
    feeds = hand_made.feeds_of(model)
    right = convert(model, feeds, plugin, soc, RELEASES[-1])
    try:
        found = convert(model, feeds, mangling, soc, RELEASES[-1])
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
