# SPDX-License-Identifier: Apache-2.0

"""What ATC must be told of an exported model; gradients of average pools that a graph of CANN cannot have."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import ModelProto

from poolgrad_lowering import export_atc
from poolgrad_lowering.dialect.op import Prototype
from poolgrad_lowering.dialect.targets import find_target
from poolgrad_lowering.ge.atc.conversion import Conversion, conversion
from poolgrad_lowering.ge.registered import is_registered, least_release
from poolgrad_lowering.model.diagnostics.obstacles import Obstacle
from tests.average_models import CASES, average_model
from tests.harness.processes import environment
from tests.pool_graphs import parse, torch_gradient
from tests.poolgrad_lowering.ge.atc.average_exports import exported, with_computed_sizes

GRADIENT = torch_gradient([2, 3, 6, 8], kernel_shape=[2, 2], strides=[2, 2])


def converted(model: ModelProto, target: str = "Ascend910B3", file: str = "model.onnx") -> Conversion:
    soc = target if target.startswith("Ascend") else None
    return conversion(export_atc(model, target=target).model, find_target(target), soc, file)


def options(found: Conversion) -> dict[str, str]:
    """ATC's options as a shell passes them."""
    words = shlex.split(found.command)
    assert words[0] == "atc"
    return dict(word.removeprefix("--").split("=", 1) for word in words[1:])


def test_the_command() -> None:
    assert options(converted(GRADIENT)) == {
        "framework": "5",
        "model": "model.onnx",
        "output": "model",
        "soc_version": "Ascend910B3",
        "precision_mode": "must_keep_origin_dtype",
        "input_format": "NCHW",
    }


def test_a_product_leaves_the_exact_name_to_the_user() -> None:
    exact, product = converted(GRADIENT), converted(GRADIENT, "atlas-a2")
    names = find_target("atlas-a2").socs
    assert (exact.socs, product.socs) == (("Ascend910B3",), names)
    assert options(product)["soc_version"] == "$SOC_VERSION"
    assert product.environment == (
        *exact.environment,
        f"SOC_VERSION={names[0]}  # replace it by the name that npu-smi info prints",
    )


def test_a_name_with_spaces_is_quoted() -> None:
    found = options(converted(GRADIENT, file="my model's.onnx"))
    assert (found["model"], found["output"]) == ("my model's.onnx", "my model's")


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ("float[1,2,3,4] X", "NCHW"),
        ("float[1,2,3,4,5] X", "NCDHW"),
        ("float[1,2,3] X", "ND"),
        ("float[1,2,3,4] X, int64[1] t", "NCHW"),
        ("float[1,2,3,4] X, float[1,2,3,4,5] Z", "ND"),
        ("float[1,2,3] X, float[1,2,3,4] W = {}", "ND"),
    ],
)
def test_the_format_of_the_inputs(inputs: str, expected: str) -> None:
    weights = ", ".join(["1.0"] * 24)
    model = parse(f"g ({inputs.replace('{}', '{' + weights + '}')}) => (Y) {{ Y = Relu(X) }}")
    assert converted(model).input_format == expected


def test_symbolic_sizes_are_for_the_user_to_replace() -> None:
    model = parse("g (float[batch,3,8,8] X, int64[batch] t, float[?] W) => (Y) { Y = Relu(X) }")
    assert converted(model).input_shape == "X:batch,3,8,8;t:batch;W:SIZE"
    assert options(converted(model))["input_shape"] == "X:batch,3,8,8;t:batch;W:SIZE"
    assert "input_shape" not in options(converted(GRADIENT))
    assert converted(GRADIENT).input_shape == ""


def test_the_environment_as_a_shell_reads_it(tmp_path: Path) -> None:
    source, plugin = converted(GRADIENT).environment
    assert source == "source /usr/local/Ascend/cann/set_env.sh"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = f'{plugin}\nprintf "%s" "$ASCEND_CUSTOM_OPP_PATH"'
    for before in ("", "/other"):
        settings = environment() | {"PATH": path, "ASCEND_CUSTOM_OPP_PATH": before}
        ran = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=settings, capture_output=True, check=True)
        folders = [str(tmp_path / "npu-plugin"), *filter(None, [before])]
        assert ran.stdout.decode() == ":".join(folders)
    assert (tmp_path / "npu-plugin" / "source" / "build.sh").is_file()


def test_without_nodes_of_the_dialect_no_plugin_is_needed() -> None:
    found = converted(parse("g (float[2] X) => (float[2] Y) { Y = Relu(X) }"))
    assert len(found.environment) == 1
    other = parse("g (float[2] X) => (Y) { Y = acme.MaxPool3DWithArgmaxV2(X) }", imports='"acme": 1')
    assert len(converted(other).environment) == 1
    assert found.cann == "8.5.0"


@pytest.mark.parametrize(("target", "cann"), [("Ascend910B3", "9.0.0"), ("Ascend950PR_9599", "9.0.0")])
def test_the_least_release_of_cann(target: str, cann: str) -> None:
    assert converted(GRADIENT, target).cann == cann


@pytest.mark.parametrize(("target", "cann"), [("atlas-a3", "8.5.0"), ("ascend950", "9.0.0"), ("ascend350", "9.1.0")])
def test_the_least_release_that_knows_the_target(target: str, cann: str) -> None:
    assert least_release([], find_target(target)) == cann


def test_releases_are_compared_as_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    from poolgrad_lowering.ge import registered

    prototypes = {name: Prototype(5, since, "NCDHW") for name, since in (("A", "10.0.0"), ("B", "9.1.0"))}
    monkeypatch.setattr(registered, "PROTOTYPES", prototypes)
    assert least_release(["A", "B"], find_target("atlas-a2")) == "10.0.0"


@pytest.mark.parametrize(
    ("domain", "op_type", "version", "expected"),
    [
        ("", "Relu", 18, True),
        ("", "Relu", 19, False),
        ("", "GreaterOrEqual", 8, True),
        ("", "GreaterOrEqual", 11, False),
        ("", "GreaterOrEqual", 12, True),
        ("", "Constant", 13, True),
        ("npu", "MaxPool3DGradWithArgmax", 1, True),
        ("npu", "AdaptiveMaxPool3DGrad", 1, False),
        ("npu", "NPUOneHot", 1, True),
        ("com.microsoft", "ConvGrad", 1, False),
    ],
)
def test_the_table_of_registered_operators(domain: str, op_type: str, version: int, expected: bool) -> None:
    assert is_registered(domain, op_type, version) is expected


def codes(model: ModelProto, target: str) -> list[str]:
    return [obstacle.code for obstacle in exported(model, target)[2]]


@pytest.mark.obstacle("computed-sizes")
@pytest.mark.parametrize(("name", "target"), [("2d in 3d", "atlas-a2"), ("2d", "ascend950")])
def test_sizes_that_nothing_tells(name: str, target: str) -> None:
    model = with_computed_sizes(average_model(CASES[name], 16), declared=False)
    assert codes(model, target) == [Obstacle.COMPUTED_SIZES.value]


@pytest.mark.obstacle("channels-last")
def test_adaptive_windows_on_other_products() -> None:
    assert codes(average_model(CASES["adaptive 2d"], 16), "atlas-a2") == [Obstacle.CHANNELS_LAST.value]


def test_operators_that_a_target_lacks() -> None:
    assert codes(average_model(CASES["2d"], 16), "atlas-a2") == [Obstacle.WRONG_TARGET.value]
    assert codes(average_model(CASES["adaptive, shape"], 16), "atlas-a2") == [Obstacle.WRONG_TARGET.value]
