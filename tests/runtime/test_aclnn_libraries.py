# SPDX-License-Identifier: Apache-2.0

"""Which libraries of a CANN installation are opened, in which order, and what is reported about the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poolgrad_lowering.runtime import get_host_library_path
from tests.harness.cann.installations import build_library, build_over_host, host_library_without, install
from tests.harness.sessions.ep_process import run_python

GRADIENT = "aclnnMaxPool3dWithArgmaxBackward"
CUSTOM = Path("op_api") / "lib" / "libcust_opapi.so"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return install(tmp_path / "cann")


def describe(home: Path, **environment: str) -> Any:
    """The provider library's description of the backend cann."""
    code = """
import json
from poolgrad_lowering.runtime import get_library_path, probing
answer(json.loads(probing.describe(get_library_path(), "cann")))
"""
    return run_python(code, ASCEND_HOME_PATH=str(home), **environment)


def library_of(described: Any, function: str = GRADIENT) -> str | None:
    (found,) = [row["library"] for row in described["functions"] if row["name"] == function]
    assert found is None or isinstance(found, str)
    return found


def passed_over(described: Any) -> dict[str, str]:
    """The libraries that are not used, and why."""
    return {row["path"]: row["problem"] for row in described["libraries"] if row["problem"]}


def link(path: Path, target: Path | str | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target or get_host_library_path())
    return path


def test_all_is_found(home: Path) -> None:
    described = describe(home)
    assert described["problem"] is None
    assert passed_over(described) == {}
    assert [row["path"] for row in described["libraries"]] == [
        str(home / "lib64" / name) for name in ("libacl_rt.so", "libnnopbase.so", "libopapi_nn.so")
    ]
    assert {row["library"] for row in described["functions"]} == {str(home / "lib64" / "libopapi_nn.so")}
    assert described["missing_symbols"] == []


def test_order_of_the_operator_libraries(home: Path, tmp_path: Path) -> None:
    """Custom libraries in their order, vendors by priority, libopapi_nn.so, the other split libraries; each gives way
    to the next when it is taken away."""
    vendors = tmp_path / "opp" / "vendors"
    places = [
        link(tmp_path / "first" / CUSTOM),
        link(tmp_path / "second" / CUSTOM),
        link(vendors / "preferred" / CUSTOM),
        link(vendors / "other" / CUSTOM),
        home / "lib64" / "libopapi_nn.so",
        link(home / "lib64" / "libopapi_cv.so"),
        link(home / "lib64" / "libopapi_math.so"),
    ]
    link(vendors / "unlisted" / CUSTOM)
    (vendors / "config.ini").write_text("[vendors]\nload_priority = preferred, other\n")
    environment = {
        "ASCEND_CUSTOM_OPP_PATH": f"{tmp_path}/first/:{tmp_path}/nowhere::{tmp_path}/second",
        "ASCEND_OPP_PATH": f"{tmp_path}/opp/",
    }
    for place in places:
        assert Path(library_of(describe(home, **environment)) or "") == place
        place.unlink()
    described = describe(home, **environment)
    assert GRADIENT in described["problem"]
    assert "there is no library, such as libopapi_nn.so" in described["problem"]


def test_relative_paths_are_not_followed(home: Path, tmp_path: Path) -> None:
    """They would depend on the working directory of the process, which is / here."""
    link(tmp_path / "custom" / CUSTOM)
    link(tmp_path / "opp" / "vendors" / "one" / CUSTOM)
    (tmp_path / "opp" / "vendors" / "config.ini").write_text("load_priority=one\n")
    here = str(tmp_path).lstrip("/")
    described = describe(home, ASCEND_CUSTOM_OPP_PATH=f"{here}/custom:nowhere", ASCEND_OPP_PATH=f"{here}/opp")
    assert library_of(described) == str(home / "lib64" / "libopapi_nn.so")
    assert passed_over(described) == {
        f"{here}/custom": "it is a relative path in ASCEND_CUSTOM_OPP_PATH, which is not followed",
        "nowhere": "it is a relative path in ASCEND_CUSTOM_OPP_PATH, which is not followed",
        f"{here}/opp": "it is a relative path in ASCEND_OPP_PATH, which is not followed",
    }
    described = describe(Path(str(home).lstrip("/")))
    assert f"ASCEND_HOME_PATH is {here}/cann, a relative path, which is not followed" in described["problem"]
    assert described["libraries"] == []


def test_the_whole_library_is_not_used_beside_split_ones(home: Path) -> None:
    lib64 = home / "lib64"
    whole = link(lib64 / "libopapi.so")
    described = describe(home)
    assert library_of(described) == str(lib64 / "libopapi_nn.so")
    assert passed_over(described) == {str(whole): f"it must not be used together with {lib64 / 'libopapi_nn.so'}"}
    (lib64 / "libopapi_nn.so").unlink()
    described = describe(home)
    assert library_of(described) == str(whole)
    assert passed_over(described) == {}


@pytest.mark.parametrize("folder", ["devlib/linux/x86_64", "lib64/stub"])
def test_stubs_are_passed_over_by_name(home: Path, folder: str) -> None:
    stub = home / folder / "libopapi_nn.so"
    stub.parent.mkdir(parents=True)
    stub.write_bytes(Path(get_host_library_path()).read_bytes())
    place = home / "lib64" / "libopapi_nn.so"
    place.unlink()
    place.symlink_to(stub)
    described = describe(home)
    assert passed_over(described)[str(place)] == f"it is {stub}, which is for linking only"
    assert "there is no library" in described["problem"]


def test_a_library_that_does_not_open_gives_way(home: Path, tmp_path: Path) -> None:
    custom = tmp_path / "custom" / CUSTOM
    needed = build_library(tmp_path / "libneeded.so", 'extern "C" void needed() {}')
    build_library(custom, 'extern "C" void needed(); extern "C" void use() { needed(); }', over=needed)
    needed.unlink()
    described = describe(home, ASCEND_CUSTOM_OPP_PATH=str(tmp_path / "custom"))
    assert library_of(described) == str(home / "lib64" / "libopapi_nn.so")
    assert f"cannot open {custom}: {needed}: cannot open" in passed_over(described)[str(custom)]


def test_where_no_operator_library_opens_the_reason_is_told(home: Path) -> None:
    place = home / "lib64" / "libopapi_nn.so"
    place.unlink()
    place.write_text("no library")
    described = describe(home)
    assert f"looked in {place}; cannot open {place}" in described["problem"]
    assert library_of(described) is None


def test_both_phases_come_from_one_library(home: Path, tmp_path: Path) -> None:
    """A custom library with one phase of its own: the loader finds the other one in what the library needs."""
    phase_1 = f'extern "C" int {GRADIENT}GetWorkspaceSize() {{ return 0; }}'
    custom = build_over_host(tmp_path / "custom" / CUSTOM, phase_1)
    described = describe(home, ASCEND_CUSTOM_OPP_PATH=str(tmp_path / "custom"))
    assert library_of(described) == str(home / "lib64" / "libopapi_nn.so")
    assert str(custom) in [row["path"] for row in described["libraries"]]


@pytest.mark.parametrize("phase", [GRADIENT, GRADIENT + "GetWorkspaceSize"])
def test_a_missing_operator_leaves_only_its_nodes(tmp_path: Path, phase: str) -> None:
    home = install(tmp_path / "cann", host_library_without(tmp_path / "libhost.so", phase))
    described = describe(home)
    assert described["problem"] is None
    assert [row["name"] for row in described["functions"] if row["library"] is None] == [GRADIENT]
    assert {row["name"]: row["missing"] for row in described["operators"]} == {
        "MaxPool3DGradWithArgmax": [GRADIENT],
        "MaxPoolGradWithArgmaxV3": [],
        "AdaptiveMaxPool3DGrad": [],
        "MaxPool3DWithArgmaxV2": [],
        "MaxPoolWithArgmaxV3": [],
        "AdaptiveMaxPool3d": [],
        "AvgPool3DGrad": [],
        "AvgPoolV2Grad": [],
        "AdaptiveAvgPool3dGrad": [],
        "AdaptiveAvgPool2dGrad": [],
    }
    code = """
from tests.runtime.ep_models import Case, make_feeds, make_model, window
from poolgrad_lowering.runtime import assignment, create_session
answers = []
for case in (Case("MaxPool3DGradWithArgmax", (2, 3, 6, 6), window([1, 2, 2], [1, 2, 2], [0, 0, 0], [1, 1, 1])),
             Case("MaxPoolGradWithArgmaxV3", (2, 3, 6, 6), window([2, 2], [2, 2], [0, 0], [1, 1]))):
    session = create_session(make_model(case.op, case.attributes(), x=case.x_shape, grad=(2, 3, 3, 3)), backend="cann")
    feeds, expected = make_feeds(case)
    assert session.run(None, feeds)[0].tobytes() == expected.tobytes()
    answers.append([case.op, "npu" in [node.domain for node in assignment(session)]])
answer(answers)
"""
    assert run_python(code, ASCEND_HOME_PATH=str(home)) == [
        ["MaxPool3DGradWithArgmax", False],
        ["MaxPoolGradWithArgmaxV3", True],
    ]


def test_missing_symbols_are_all_named(tmp_path: Path) -> None:
    library = host_library_without(tmp_path / "libhost.so", "aclrtCreateStream", "aclCreateTensor")
    described = describe(install(tmp_path / "cann", library))
    assert described["missing_symbols"] == ["aclrtCreateStream", "aclCreateTensor"]
    assert "libacl_rt.so has no symbol aclrtCreateStream; CANN 8.5 or newer" in described["problem"]
