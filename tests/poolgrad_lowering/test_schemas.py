# SPDX-License-Identifier: Apache-2.0

"""The JSON schemas: what the package writes holds to them, what is nearly that does not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import pytest

from poolgrad_lowering import inspect, lower, verify
from poolgrad_lowering.compiler.families.registry import GRADIENT_OPERATORS
from poolgrad_lowering.dialect import OPS
from tests.pool_graphs import torch_gradient

BUILT = Path(__file__).parents[2] / "models" / "built"
MODELS = ("torch/lenet", "torch/dilated", "ort/lenet", "torch/float64")
SMALL = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])


def schema(name: str) -> Any:
    return json.loads(files("poolgrad_lowering").joinpath(f"schemas/{name}.json").read_text(encoding="utf-8"))


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema(name))


def report(name: str = "torch/lenet") -> dict[str, Any]:
    return inspect(onnx.load(BUILT / f"{name}.onnx")).to_dict()


def plan(name: str = "torch/lenet") -> dict[str, Any]:
    made = inspect(onnx.load(BUILT / f"{name}.onnx")).plan("0" * 64)
    return dict(json.loads(made.to_json()))


def verification() -> dict[str, Any]:
    result = verify(SMALL, lower(SMALL).model, runs=1, whole_model=False)
    return dict(json.loads(result.to_json()))


@pytest.mark.parametrize("name", ["plan", "report", "verification"])
def test_schemas_are_schemas(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_holds(name: str) -> None:
    validator("report").validate(report(name))
    validator("plan").validate(plan(name))


def test_verifications_hold() -> None:
    validator("verification").validate(verification())
    wrong = lower(SMALL).model
    [pool] = [node for node in wrong.graph.node if node.op_type == "MaxPool3DWithArgmaxV2"]
    [attribute] = [attribute for attribute in pool.attribute if attribute.name == "ksize"]
    attribute.ints[:] = [1, 1, 1]
    failed = json.loads(verify(SMALL, wrong, runs=1, whole_model=False).to_json())
    assert not failed["proven"]
    validator("verification").validate(failed)


Edit = Callable[[dict[str, Any]], object]
NEAR_MISSES: list[tuple[str, Edit]] = [
    ("plan", lambda data: data.pop("model_sha256")),
    ("plan", lambda data: data.update(model_sha256="0" * 63)),
    ("plan", lambda data: data.update(schema_version=2)),
    ("plan", lambda data: data.update(sides=[])),
    ("plan", lambda data: data["sites"][0].pop("forward")),
    ("plan", lambda data: data["sites"][0].update(skip=True)),
    ("plan", lambda data: data["sites"][0].update(operator=None)),
    ("plan", lambda data: data["sites"][0].update(operator="MaxPool3DWithArgmaxV2")),
    ("plan", lambda data: data["sites"][0].update(forward=data["sites"][0]["operator"])),
    ("report", lambda data: data.pop("summary")),
    ("report", lambda data: data["anchors"][0].pop("site")),
    ("report", lambda data: data["anchors"][0].update(status="unknown")),
    ("report", lambda data: data["anchors"][1].update(op=None)),
    ("report", lambda data: data["anchors"][1]["attributes"].update(ksize=["3"])),
    ("report", lambda data: data["summary"].update(lowered=-1)),
    ("report", lambda data: data["summary"]["refused_by_code"].update(target=0)),
    ("verification", lambda data: data.pop("proven")),
    ("verification", lambda data: data["sites"][0].update(status="differs")),
    ("verification", lambda data: data["sites"][0].update(status="unproven")),
    ("verification", lambda data: data["whole_model"].update(status="unknown")),
]
WRITTEN = {"plan": plan, "report": report, "verification": verification}


@pytest.mark.parametrize("name", WRITTEN)
def test_near_misses_do_not(name: str) -> None:
    written, checked = WRITTEN[name](), validator(name)
    for miss, edit in NEAR_MISSES:
        if miss == name:
            spoilt = copy.deepcopy(written)
            edit(spoilt)
            assert not checked.is_valid(spoilt), spoilt


def test_schemas_name_the_operators() -> None:
    site = schema("plan")["$defs"]["site"]["properties"]
    anchor = schema("report")["$defs"]["anchor"]["properties"]
    gradients, pools = list(GRADIENT_OPERATORS), [op for op in OPS if op not in GRADIENT_OPERATORS]
    assert site["operator"]["enum"] == anchor["op"]["enum"] == [*gradients, None]
    assert site["forward"]["enum"] == anchor["forward_op"]["enum"] == [*pools, None]
    assert site["alternatives"]["items"]["enum"] == anchor["alternatives"]["items"]["enum"] == gradients


def test_schemas_name_every_field() -> None:
    assert set(schema("report")["$defs"]["anchor"]["required"]) == set(report()["anchors"][0])
    assert set(schema("report")["$defs"]["summary"]["required"]) == set(report()["summary"])
    assert set(schema("plan")["$defs"]["site"]["properties"]) == set(plan()["sites"][0])
    assert set(schema("verification")["$defs"]["site"]["required"]) == set(verification()["sites"][0])
