# SPDX-License-Identifier: Apache-2.0

"""What a right plugin for the dialect leaves in GE, in Python; and plugins that get one thing wrong.

The stand-in is tested with it, without the library, and the library is compared with it. It looks at names, types and
lengths only, so that GE's own checks are seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.harness.ge.average import TYPES as AVERAGE
from tests.harness.ge.driver import ONNX, SUCCESS, AnyPlugin, Attribute, Parsed, Registration, Tensor
from tests.harness.ge.prototypes import PROTOTYPES

TVM = 1
FAILED = 1
ND = 2
FORMATS = {"NCHW": 0, "NCDHW": 30}
FOR_BODIES = "onnx_"
"""What attributes begin with that only the function bodies of the dialect use."""

TYPES = (*PROTOTYPES, "AdaptiveMaxPool3DGrad")


class PythonPlugin:
    """Takes the operators of domain npu, version 1, as they are."""

    registrations: Mapping[str, Registration] = {
        f"npu::1::{name}": Registration(name, ONNX, TVM, by_operator=True) for name in TYPES
    }

    def parse(
        self,
        key: str,
        source: Mapping[str, Any],
        *,
        inputs: Sequence[str],
        outputs: Sequence[str],
        defaults: Mapping[str, Any],
    ) -> Parsed:
        """Return the attributes with types of GE, and NCDHW or NCHW everywhere; fail for what is not the dialect."""
        ge_type = self.registrations[key].type
        declared = PROTOTYPES[ge_type]
        kinds = declared.types()
        rows = {row["name"]: row for row in _rows(source) if not row["name"].startswith(FOR_BODIES)}
        found = {name: _value(row, kinds.get(name, "")) for name, row in rows.items()}
        bad = sorted(declared.required.keys() - rows.keys()) + [name for name in found if found[name] is None]
        values = {name: value for name, value in found.items() if value}
        if bad or any(len(each.value) != _length(ge_type, n) for n, each in values.items() if each.type == "LIST_INT"):
            return Parsed(FAILED, {}, [], [], f"attributes {bad or 'lists'} of {ge_type}")
        layout = ND if ge_type in AVERAGE else FORMATS["NCHW" if ge_type.endswith("V3") else "NCDHW"]
        tensors = [[Tensor(name, layout, layout) for name in names] for names in (inputs, outputs)]
        return Parsed(SUCCESS, _attributes(defaults) | values, *tensors, "")


def _attributes(defaults: Mapping[str, Any]) -> dict[str, Attribute]:
    names = {bool: "BOOL", int: "INT", str: "STRING", list: "LIST_INT"}
    return {name: Attribute(names[type(value)], value) for name, value in defaults.items()}


def _rows(source: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(source.get("attribute", '{"attribute":[]}'))["attribute"]
    return rows


def _value(row: Mapping[str, Any], kind: str) -> Attribute | None:
    """Return an attribute of the JSON text as `kind`; None if it has another type."""
    number = row.get("i", 0)
    if kind == "BOOL" and row["type"] == 2 and number in (0, 1):
        return Attribute(kind, bool(number))
    values = {2: ("INT", number), 3: ("STRING", row.get("s", "")), 7: ("LIST_INT", row.get("ints", []))}
    found = Attribute(*values.get(row["type"], ("", None)))
    return found if found.type == kind else None


def _length(ge_type: str, attribute: str) -> int:
    if ge_type in ("AvgPoolV2Grad", "AdaptiveAvgPool2dGrad"):
        return 4
    if (ge_type, attribute) == ("AvgPool3DGrad", "pads"):
        return 6
    return 2 if ge_type.endswith("V3") else 3


@dataclass(frozen=True)
class Mangling:
    """A plugin that does what another does, but for one attribute of one operator."""

    plugin: AnyPlugin
    type: str
    attribute: str
    value: Any

    @property
    def registrations(self) -> Mapping[str, Registration]:
        """What the other plugin registers."""
        return self.plugin.registrations

    def parse(self, key: str, source: Mapping[str, Any], **operator: Any) -> Parsed:
        """Return what the other plugin leaves, with the attribute replaced."""
        parsed = self.plugin.parse(key, source, **operator)
        if self.registrations[key].type != self.type:
            return parsed
        replaced = replace(parsed.attributes[self.attribute], value=self.value)
        return replace(parsed, attributes={**parsed.attributes, self.attribute: replaced})


@dataclass(frozen=True)
class OtherFormat:
    """A plugin that does what another does, but leaves one format in all tensors."""

    plugin: AnyPlugin
    format: int

    @property
    def registrations(self) -> Mapping[str, Registration]:
        """What the other plugin registers."""
        return self.plugin.registrations

    def parse(self, key: str, source: Mapping[str, Any], **operator: Any) -> Parsed:
        """Return what the other plugin leaves, with the format replaced."""
        parsed = self.plugin.parse(key, source, **operator)
        tensors = [
            [Tensor(tensor.name, self.format, self.format) for tensor in each]
            for each in (parsed.inputs, parsed.outputs)
        ]
        return replace(parsed, inputs=tensors[0], outputs=tensors[1])
