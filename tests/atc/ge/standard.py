# SPDX-License-Identifier: Apache-2.0

"""ATC's plugins of standard operators: which keys they take, what they refuse, and what they change without a word.

`registered.json` was collected from the sources of ops-nn, ops-math and ops-cv. What is known of a plugin beyond that
is known of MaxPool, from its source.
"""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, helper

from tests.atc.ge.prototypes import Soc
from tests.oracles import max_pool, same_pads

Array = npt.NDArray[Any]

TABLE = Path(__file__).parent / "registered.json"
LARGEST_KERNEL, LARGEST_STRIDE = 255, 63
"""Of a 2-D pool on a core of ascend910b and ascend910_93; a larger one goes to the CPU of the device."""
CPU_PADDING = -65504.0
"""What the plugin pads with there: the least number of float16, not minus infinity."""


@functools.cache
def registered() -> dict[str, frozenset[int]]:
    """Return the registered versions of each `<domain>::<operator>`."""
    rows: dict[str, str] = json.loads(TABLE.read_text(encoding="utf-8"))["operators"]
    return {name: frozenset(_versions(text)) for name, text in rows.items()}


def _versions(text: str) -> list[int]:
    """Return the numbers of a text like 8-9,11-16."""
    ends = [list(map(int, part.split("-"))) for part in text.split(",")]
    return [number for each in ends for number in range(each[0], each[-1] + 1)]


def is_registered(key: str) -> bool:
    """Return whether one of ATC's own plugins takes `<domain>::<version>::<operator>`."""
    domain, version, operator = key.split("::")
    return int(version) in registered().get(f"{domain}::{operator}", ())


def plugin_refusal(node: NodeProto) -> str:
    """Return why the plugin of a standard operator fails; empty if it does not."""
    if node.op_type != "MaxPool" or node.domain:
        return ""
    attributes = _attributes(node)
    if len(node.output) != 1:
        return "The output of Indices is not support"
    if attributes.get("storage_order") == 1:
        return "storage_order is 1"
    if len(attributes.get("kernel_shape", ())) not in (1, 2, 3):
        return "a kernel_shape of 1, 2 or 3 axes is needed"
    return ""


@dataclass(frozen=True)
class MaxPoolOfAtc:
    """A MaxPool as ATC's plugin hands it on: the rest of the node is lost.

    Attributes:
        same: pads are those of SAME_UPPER.
        padding: the value of an element in the padding; None if it is never the maximum.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    same: bool
    ceil_mode: bool
    padding: float | None = None

    def __call__(self, x: Array) -> Array:
        """Return the pooled tensor."""
        pads = same_pads(x.shape[2:], self.kernel, self.strides, upper=True) if self.same else list(self.pads)
        axes = len(self.kernel)
        if self.padding is not None:
            widths = [(0, 0), (0, 0), *zip(pads[:axes], pads[axes:], strict=True)]
            x, pads = np.pad(x, widths, constant_values=self.padding), [0] * 2 * axes
        pooled: Array = max_pool(x, self.kernel, self.strides, pads, self.dilations, ceil_mode=self.ceil_mode)[0]
        return pooled


def max_pool_of_atc(node: NodeProto, soc: Soc) -> MaxPoolOfAtc | None:
    """Return what ATC makes of a MaxPool; None if it is what the node says, or if the node is another operator."""
    if node.op_type != "MaxPool" or node.domain:
        return None
    attributes = _attributes(node)
    kernel = tuple(attributes["kernel_shape"])
    ones = (1,) * len(kernel)
    said = MaxPoolOfAtc(
        kernel,
        tuple(attributes.get("strides", ones)),
        tuple(attributes.get("pads", (0, 0) * len(kernel))),
        tuple(attributes.get("dilations", ones)),
        same=attributes.get("auto_pad", b"").startswith(b"SAME"),
        ceil_mode=bool(attributes.get("ceil_mode")),
    )
    taken = said if len(kernel) == 3 else replace(said, dilations=ones)
    if len(kernel) < 3 and soc != "ascend950" and _is_large(taken):
        taken = replace(taken, same=False, ceil_mode=False, padding=CPU_PADDING if any(taken.pads) else None)
    return taken if taken != said or attributes.get("auto_pad") == b"SAME_LOWER" else None


def _is_large(pool: MaxPoolOfAtc) -> bool:
    return math.prod(pool.kernel) > LARGEST_KERNEL or max(pool.strides) > LARGEST_STRIDE


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
