# SPDX-License-Identifier: Apache-2.0

"""Initializers that are also graph inputs: they prove nothing, unless the user says that nobody overrides them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import ModelProto, TrainingInfoProto, helper, numpy_helper

from poolgrad_lowering import PlanError, inspect, lower
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.model.diagnostics.codes import Code
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import Dim
from poolgrad_lowering.model.ir.index import ModelIndex
from tests.oracles import assert_same_bits, run_reference
from tests.pool_graphs import parse, random_feeds, torch_gradient

NEEDED = ["axes", "canvas", "ends", "rows", "starts", "whole", "zero"]


def overridable(model: ModelProto, names: Sequence[str] | None = None, *, static: bool = True) -> ModelProto:
    """The model with some initializers, by default all, as inputs with defaults, as IR version 3 has them."""
    for tensor in model.graph.initializer:
        if names is None or tensor.name in names:
            shape = list(tensor.dims) if static else [f"{tensor.name}{axis}" for axis in range(len(tensor.dims))]
            model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, shape))
    return model


def gradient() -> ModelProto:
    return torch_gradient([2, 3, 8, 8], kernel_shape=[2, 2], strides=[2, 2])


@pytest.mark.refusal("input-default")
@pytest.mark.parametrize("name", NEEDED)
def test_each_default_proves_nothing(name: str) -> None:
    """Zeros, shapes, lengths of rows, bounds of slices: the site is refused for one of them alone, and says so."""
    [refused] = inspect(overridable(gradient(), [name])).anchors
    assert (refused.status, refused.code, refused.trusted_defaults) == ("refused", "input-default", None)
    assert f"'{name}'" in (refused.reason or "")
    [trusted] = inspect(overridable(gradient(), [name]), trust_defaults=True).anchors
    assert (trusted.status, trusted.trusted_defaults) == ("lowered", [name])


def test_all_defaults() -> None:
    model = overridable(gradient())
    feeds = random_feeds(gradient())
    result = lower(model, trust_defaults=True)
    [anchor] = result.report.anchors
    assert anchor.trusted_defaults == NEEDED
    assert_same_bits(run_reference(result.model, feeds)["dX"], run_reference(model, feeds)["dX"])
    assert [value.name for value in result.model.graph.input] == [value.name for value in model.graph.input]


def test_nothing_changes_without_defaults() -> None:
    trusting, usual = (lower(gradient(), trust_defaults=trusted) for trusted in (True, False))
    assert trusting.model == usual.model
    assert trusting.report.anchors == usual.report.anchors
    assert trusting.report.anchors[0].trusted_defaults is None


def facts_of(model: ModelProto, *, trust: bool) -> Facts:
    return Facts(ModelIndex(model), trust_defaults=trust)


def with_default(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], sizes: Sequence[int | str]) -> ModelProto:
    model = parse("g (float[2] X) => (Y) { Y = Identity(d)  S = Shape(d) }")
    model.graph.initializer.append(numpy_helper.from_array(array, "d"))
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    model.graph.input.append(helper.make_tensor_value_info("d", kind, sizes))
    return model


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize("name", ["d", "Y"])
def test_every_kind_of_fact(name: str, trust: bool) -> None:
    facts = facts_of(with_default(np.zeros(3, np.int64), ["n"]), trust=trust)
    value = facts._index.scopes[0].resolve(name)
    assert value is not None
    for fact in (facts.constant, facts.table, facts.integers):
        with facts.watched() as reads:
            assert (fact(value) is not None) is trust
        assert reads.defaults == {"d"}
    assert facts.is_zero(value) is trust
    assert facts.shape(value) == ((Dim(3),) if trust else (Dim.parse("n"),))


def test_a_declared_size_holds_for_every_value() -> None:
    """A runtime refuses a value of another size, so the size needs no trust."""
    facts = facts_of(with_default(np.zeros(3, np.float32), [3]), trust=True)
    value = facts._index.scopes[0].resolve("d")
    assert value is not None
    with facts.watched() as reads:
        assert facts.shape(value) == (Dim(3),)
    assert reads.defaults == frozenset()


def test_what_a_training_step_sets_is_no_default() -> None:
    model = with_default(np.zeros(3, np.float32), [3])
    step = TrainingInfoProto()
    step.algorithm.CopyFrom(parse("g (float[3] Z) => (U) { U = Neg(Z) }").graph)
    step.update_binding.add(key="d", value="U")
    model.training_info.append(step)
    facts = facts_of(model, trust=True)
    value = facts._index.scopes[0].resolve("d")
    assert value is not None
    assert not facts.is_zero(value)


def saved(folder: Path) -> Path:
    path = folder / "training.onnx"
    onnx.save(overridable(gradient()), path)
    return path


def test_only_a_plan_that_trusts_trusts() -> None:
    model = overridable(gradient(), ["zero"])
    trusting = inspect(model, trust_defaults=True).plan("")
    assert len(lower(model, plan=trusting).report.lowered) == 1
    with pytest.raises(PlanError, match="'zero' is an input of the graph with a default"):
        lower(model, plan=replace(trusting, trust_defaults=False))


def test_the_command_and_its_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page, report = saved(tmp_path), tmp_path / "page.html", tmp_path / "report.json"
    assert main(["inspect", str(path)]) == 0
    assert "input-default" in capsys.readouterr().out
    assert main(["inspect", str(path), "--trust-defaults"]) == 0
    assert "; trusts the default of 'axes', 'canvas'" in capsys.readouterr().out
    flags = ["--trust-defaults", "--html", str(page), "--report", str(report)]
    assert main(["lower", str(path), "-o", str(tmp_path / "out.onnx"), *flags]) == 0
    assert "overrides the defaults of these graph inputs" in page.read_text("utf-8")
    document = json.loads(report.read_text("utf-8"))
    schema = json.loads((files("poolgrad_lowering") / "schemas" / "report.json").read_text("utf-8"))
    jsonschema.validate(document, schema)
    assert document["anchors"][0]["trusted_defaults"] == NEEDED


def test_the_advice_names_the_flag() -> None:
    assert "--trust-defaults" in Code.INPUT_DEFAULT.advice
