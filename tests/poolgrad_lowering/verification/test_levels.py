# SPDX-License-Identifier: Apache-2.0

"""Whole models run in onnxruntime at its default level, and without optimisations where that shows no equality."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from onnx import ModelProto, parser

from poolgrad_lowering import lower, verify
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.verification.result import LevelResult, WholeModel
from poolgrad_lowering.verification.running import whole
from poolgrad_lowering.verification.running.whole import DEFAULT, DISABLED, compare_whole
from tests.pool_graphs import ort_gradient, parse, torch_gradient

pytest.importorskip("onnxruntime")

POOL = torch_gradient([2, 3, 6, 6], kernel_shape=[2, 2], strides=[2, 2])
NO_NAME = "Attempting to get index by a name which does not exist"

UNDERFLOW = """
    {prefix}_weight = Constant <value = float[1,1,1] {{1e-30}}> ()
    {prefix}_product = Conv ({prefix}_huge, {prefix}_weight)
    {prefix}_scaled = Mul ({prefix}_product, {prefix}_weight)
"""
"""`huge` · 1e-30 · 1e-30. onnxruntime fuses a Conv and a Mul with constants and multiplies these first: 1e-60 is 0."""


def wrong_when_optimised(model: ModelProto) -> ModelProto:
    """A lowered model whose gradients are negated where a Conv and a Mul are fused."""
    lowered = lower(model).model
    [body] = [function for function in lowered.functions if "Grad" in function.name]
    [last] = [node for node in body.node if body.output[0] in node.output]
    last.output[0] = "unchanged"
    damage = parser.parse_graph(
        f"""damage (float {body.input[0]}, float unchanged) => (float {body.output[0]}) {{
            damage_size = Size ({body.input[0]})
            damage_count = Cast <to = 1> (damage_size)
            damage_factor = Constant <value = float[1,1,1] {{1e30}}> ()
            damage_huge = Mul (damage_count, damage_factor)
            {UNDERFLOW.format(prefix="damage")}
            damage_zero = Constant <value_float = 0.0> ()
            damage_exact = Greater (damage_scaled, damage_zero)
            damage_negated = Neg (unchanged)
            {body.output[0]} = Where (damage_exact, unchanged, damage_negated)
        }}"""
    )
    body.node.extend(damage.node)
    return lowered


def statuses(found: WholeModel) -> dict[str, str]:
    return {each.level: each.status for each in found.levels}


def failing(model: ModelProto, level: str) -> Callable[..., Any]:
    """What runs a model in onnxruntime, except that one model fails at one level."""
    run = whole.run_model

    def running(given: ModelProto, at: str, *arguments: Any) -> Any:
        if given is model and at == level:
            raise RuntimeError(f"{NO_NAME}\nand more")
        return run(given, at, *arguments)

    return running


def test_an_original_that_onnxruntime_does_not_run() -> None:
    training = ort_gradient([2, 3, 6, 6], kernel_shape=[2, 2])
    found = verify(training, lower(training).model).whole_model
    assert (found.status, found.ran) == ("skipped", False)
    assert statuses(found) == {DEFAULT: "skipped", DISABLED: "skipped"}
    for each in found.levels:
        assert each.reason is not None
        assert each.reason.startswith("onnxruntime does not run the original: ")
        assert "MaxPoolGrad" in each.reason


def test_a_body_that_is_wrong_when_optimised() -> None:
    """Sites run in the reference evaluator, so only the whole models at the default level show it."""
    found = verify(POOL, wrong_when_optimised(POOL))
    assert not found.proven
    assert [site.mismatch for site in found.sites] == [None]
    assert not found.differences
    assert statuses(found.whole_model) == {DEFAULT: "differs", DISABLED: "same"}
    assert found.whole_model.reason is not None
    assert found.whole_model.reason.startswith("at level default: output 'dX': ")


def test_optimisations_may_change_the_original() -> None:
    model = parse(
        f"""g (float[1,1,8] x) => (float[1,1,8] y_scaled) {{
            factor = Constant <value_float = 1e30> ()
            y_huge = Mul (x, factor)
            {UNDERFLOW.format(prefix="y")}
        }}"""
    )
    feeds = {"x": np.ones([1, 1, 8], np.float32)}
    plain, optimised = (whole.run_model(model, level, ["y_scaled"], feeds)[0] for level in (DISABLED, DEFAULT))
    assert plain.tobytes() != optimised.tobytes()
    assert compare_whole(model, model, seed=0).status == "same"


def test_models_that_are_the_same_run_at_the_default_level_only() -> None:
    assert statuses(verify(POOL, lower(POOL).model).whole_model) == {DEFAULT: "same"}


def test_a_lowered_model_that_fails_at_one_level(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = lower(POOL).model
    monkeypatch.setattr(whole, "run_model", failing(lowered, DEFAULT))
    found = verify(POOL, lowered)
    reason = f"onnxruntime runs the original, but not the lowered model: {NO_NAME}"
    assert not found.proven
    assert found.whole_model.levels == (
        LevelResult(DEFAULT, "differs", reason, ran=False),
        LevelResult(DISABLED, "same"),
    )
    assert (found.whole_model.status, found.whole_model.reason) == ("differs", f"at level {DEFAULT}: {reason}")


def test_an_original_that_fails_at_one_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "run_model", failing(POOL, DEFAULT))
    found = verify(POOL, lower(POOL).model)
    assert found.proven
    assert (found.whole_model.status, found.whole_model.reason) == ("same", None)
    reason = f"onnxruntime does not run the original: {NO_NAME}"
    assert found.whole_model.levels == (
        LevelResult(DEFAULT, "skipped", reason, ran=False),
        LevelResult(DISABLED, "same"),
    )


def test_the_command_names_the_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / name for name in ("original.onnx", "lowered.onnx")]
    for path, model in zip(paths, (POOL, wrong_when_optimised(POOL)), strict=True):
        path.write_bytes(model.SerializeToString())
    assert main(["verify", *map(str, paths)]) == 1
    printed = capsys.readouterr()
    assert "whole model, level ORT_DISABLE_ALL: same\n" in printed.out
    assert "whole model, level default: differs, output 'dX': " in printed.out
    assert printed.err.startswith("poolgrad: verify: the whole models differ at level default: output 'dX': ")
    assert main(["verify", *map(str, paths), "--no-whole-model"]) == 1
    printed = capsys.readouterr()
    assert "whole model: skipped, not requested\n" in printed.out
    assert "site 'main:sums' is unproven: the function body of MaxPool3DGradWithArgmax differs" in printed.err


def test_json() -> None:
    data = json.loads(verify(POOL, wrong_when_optimised(POOL)).to_json())
    schema = files("poolgrad_lowering").joinpath("schemas/verification.json").read_text(encoding="utf-8")
    jsonschema.Draft202012Validator(json.loads(schema)).validate(data)
    assert [(each["level"], each["status"]) for each in data["whole_model"]["levels"]] == [
        ("default", "differs"),
        ("ORT_DISABLE_ALL", "same"),
    ]


def test_the_page_names_every_level_and_field() -> None:
    page = (Path(__file__).parents[3] / "docs" / "verify.md").read_text(encoding="utf-8")
    [level, *_] = (data := verify(POOL, lower(POOL).model).to_dict()["whole_model"])["levels"]
    for name in (*data, *level, DEFAULT, DISABLED):
        assert f"`{name}`" in page, name


@pytest.mark.parametrize(
    "nodes",
    ["r = RandomUniformLike (X) Y = Add (X, r)", "r, t = Constants () Y = Dropout (X, r, t)", "Y = local.noisy (X)"],
)
def test_random_numbers_are_the_same_in_both_models(nodes: str) -> None:
    constants = "r = Constant <value_float = 0.5> () t = Constant <value = bool {1}> ()"
    model = parse(
        f"g (float[8] X) => (float[8] Y) {{ {nodes.replace('r, t = Constants ()', constants)} }}",
        imports='"local": 1',
        functions='<domain: "local", opset_import: ["": 16]> noisy (x) => (y) {'
        " r = RandomNormalLike (x) y = Add (x, r) }",
    )
    found = verify(model, model)
    assert (found.whole_model.status, found.proven, found.sites_only) == ("same", True, False)


def test_seeded_random_numbers_and_a_dropout_of_inference_are_the_same_in_every_run() -> None:
    model = parse(
        "g (float[8] X) => (float[8] Y) { r = RandomUniformLike <seed = 1.0> (X) d = Add (X, r) Y = Dropout (d) }"
    )
    assert verify(model, model).whole_model.status == "same"


def test_a_size_that_is_a_multiple_of_another() -> None:
    """A model that runs with no other sizes."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[N,4] x, float[M,2] y) => (float[M,2] z)
        <int64[2] shape = {-1,2}> { rows = Reshape (x, shape) z = Add (rows, y) }"""
    )
    assert compare_whole(model, model, 0).status == "skipped"
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "2*N"
    assert compare_whole(model, model, 0).status == "same"
