# SPDX-License-Identifier: Apache-2.0

"""The stand-in has tables of its own; the product's must say the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poolgrad_lowering.dialect import OPS
from poolgrad_lowering.ge import registered
from tests.harness.ge import standard
from tests.harness.ge.prototypes import PROTOTYPES, RELEASES, prototype


def test_the_packages_table_of_registered_operators_is_the_stand_ins() -> None:
    package = Path(registered.__file__).with_name("operators.json")
    domains = json.loads(package.read_text(encoding="utf-8"))["domains"]
    rows = {f"{domain}::{name}": row for domain, names in domains.items() for name, row in names.items()}
    assert rows == json.loads(standard.TABLE.read_text(encoding="utf-8"))["operators"]


def test_the_package_knows_the_same_prototypes_since_the_same_releases() -> None:
    assert {name: row.since for name, row in registered.PROTOTYPES.items()} == {
        name: row.since for name, row in PROTOTYPES.items()
    }


@pytest.mark.parametrize("name", PROTOTYPES)
def test_the_dialect_has_the_names_and_the_order_of_the_prototypes(name: str) -> None:
    declared, ours = PROTOTYPES[name], OPS[name]
    own = {attribute.name for attribute in ours.attributes if not attribute.name.startswith("onnx_")}
    assert own == set(declared.types())
    assert [len(ours.inputs), len(ours.outputs)] == [len(declared.inputs), len(declared.outputs)]


def test_versions_are_read_from_ranges() -> None:
    assert standard.is_registered("ai.onnx::8::MaxPool")
    assert standard.is_registered("ai.onnx::18::MaxPool")
    assert not standard.is_registered("ai.onnx::7::MaxPool")
    assert not standard.is_registered("ai.onnx::19::MaxPool")
    assert standard.is_registered("npu::1::NPUMish")
    assert not standard.is_registered("npu::1::MaxPool3DGradWithArgmax")


def test_the_three_dimensional_max_pools_came_with_9_0_0() -> None:
    had = {release: {name for name in PROTOTYPES if prototype(name, release)} for release in RELEASES}
    adaptive = {"AdaptiveAvgPool2dGrad", "AdaptiveAvgPool3dGrad"}
    assert had == {
        "8.5.0": {"MaxPoolGradWithArgmaxV3", "MaxPoolWithArgmaxV3", "AvgPool3DGrad"},
        "9.0.0": PROTOTYPES.keys() - adaptive,
        "9.1.0": PROTOTYPES.keys(),
    }
