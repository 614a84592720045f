# SPDX-License-Identifier: Apache-2.0

"""`poolgrad doctor`: its report on machines with each kind of fault."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

import poolgrad_lowering
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.model.diagnostics.errors import LibraryMissingError
from poolgrad_lowering.runtime import doctor, get_host_library_path, get_library_path, probing
from tests.harness.cann.installations import build_over_host, host_library_without, install

CANN_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH", "ACLNN_HOST_SOC")


@pytest.fixture(autouse=True)
def without_cann(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CANN_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def as_json(capsys: pytest.CaptureFixture[str], code: int = 0) -> Any:
    assert main(["doctor", "--json"]) == code
    return json.loads(capsys.readouterr().out)


def backend(report: Any, name: str) -> Any:
    (found,) = [row for row in report["backends"] if row["backend"] == name]
    return found


def test_a_machine_without_cann(capsys: pytest.CaptureFixture[str]) -> None:
    report = as_json(capsys)
    assert report["works"] is True
    assert report["python"] == f"{sys.version.split()[0]} ({sys.executable})"
    assert report["package"] == poolgrad_lowering.__version__
    assert report["onnxruntime"] == {"found": onnxruntime.__version__, "problem": None}
    assert report["provider"] == {"found": get_library_path(), "problem": None}
    assert report["host_library"] == {"found": get_host_library_path(), "problem": None}
    host = backend(report, "host")
    assert host["problem"] is None
    assert (host["devices"], host["soc"], host["product"]) == (1, "Ascend950PR_9599", "Ascend 950")
    assert host["libraries"] == [{"path": get_host_library_path(), "problem": None}]
    assert len(host["functions"]) == 12
    assert {row["library"] for row in host["functions"]} == {get_host_library_path()}
    assert "ASCEND_HOME_PATH is not set" in backend(report, "cann")["problem"]
    assert report["auto"]["backend"] == "host"
    assert "ASCEND_HOME_PATH is not set" in report["auto"]["reason"]


def test_the_text_has_the_same_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for pattern in (
        rf"^poolgrad-lowering: {poolgrad_lowering.__version__}$",
        rf"^onnxruntime: {onnxruntime.__version__}$",
        rf"^provider: {get_library_path()}$",
        r"^backend cann: cannot be used: .*ASCEND_HOME_PATH is not set",
        r"^backend host: works$",
        r"^  device: Ascend950PR_9599 \(Ascend 950\), 1 in all$",
        r"^  operator: AdaptiveMaxPool3DGrad runs by aclnnAdaptiveMaxPool2dBackward, aclnnAdaptiveMaxPool3dBackward$",
        r"^backend auto: takes host: no NPU is used",
    ):
        assert re.search(pattern, text, re.MULTILINE), pattern


def test_the_operators_are_those_of_the_product(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACLNN_HOST_SOC", "Ascend910B3")
    host = backend(as_json(capsys), "host")
    assert host["product"] == "Atlas A2/A3"
    assert {row["name"]: row["functions"] for row in host["operators"]} == {
        "MaxPool3DGradWithArgmax": ["aclnnMaxPool3dWithArgmaxBackward"],
        "MaxPoolGradWithArgmaxV3": ["aclnnMaxPool3dWithArgmaxBackward"],
        "AdaptiveMaxPool3DGrad": ["aclnnAdaptiveMaxPool2dBackward", "aclnnAdaptiveMaxPool3dBackward"],
        "MaxPool3DWithArgmaxV2": ["aclnnMaxPool3dWithArgmax"],
        "MaxPoolWithArgmaxV3": ["aclnnMaxPool2dWithIndices"],
        "AdaptiveMaxPool3d": ["aclnnAdaptiveMaxPool3d", "aclnnAdaptiveMaxPool2d"],
        "AvgPool3DGrad": ["aclnnAvgPool2dBackward", "aclnnAvgPool3dBackward"],
        "AvgPoolV2Grad": ["aclnnAvgPool2dBackward"],
        "AdaptiveAvgPool3dGrad": ["aclnnAdaptiveAvgPool2dBackward", "aclnnAdaptiveAvgPool3dBackward"],
        "AdaptiveAvgPool2dGrad": ["aclnnAdaptiveAvgPool2dBackward"],
    }


def test_cann_with_a_missing_operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = host_library_without(
        tmp_path / "libhost.so", "aclnnAdaptiveMaxPool2dBackward", "aclnnMaxPool3dWithArgmax"
    )
    monkeypatch.setenv("ASCEND_HOME_PATH", str(install(tmp_path / "cann", library)))
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "backend cann: works\n" in text
    assert f"  library: {tmp_path}/cann/lib64/libopapi_nn.so\n" in text
    assert "  package: runtime 8.5.0.host\n" in text
    assert "AdaptiveMaxPool3DGrad runs by aclnnAdaptiveMaxPool3dBackward; missing is aclnnAdaptiveMaxPool2dBac" in text
    assert "operator: MaxPool3DWithArgmaxV2 missing is aclnnMaxPool3dWithArgmax\n" in text
    assert "backend auto: takes cann: an NPU answers\n" in text


def test_cann_with_missing_symbols(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = host_library_without(tmp_path / "libhost.so", "aclrtMalloc", "aclDestroyTensor")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(install(tmp_path / "cann", library)))
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert re.search("^backend cann: cannot be used: .*libacl_rt.so has no symbol aclrtMalloc; CANN 8.5", text, re.M)
    assert "  missing symbol: aclrtMalloc\n  missing symbol: aclDestroyTensor\n" in text


def test_no_backend_works(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLNN_HOST_SOC", "Ascend310P3")
    report = as_json(capsys, code=1)
    assert report["works"] is False
    host = backend(report, "host")
    assert (host["soc"], host["product"]) == ("Ascend310P3", "unsupported")
    assert host["problem"] == "Ascend310P3 has no operators for gradients of pools"
    assert main(["doctor"]) == 1
    assert "operator: MaxPoolWithArgmaxV3 cannot run on this product" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["libacl_rt.so", "libopapi_nn.so"])
def test_a_cann_that_crashes_takes_only_its_probe_with_it(
    tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = install(tmp_path / "cann")
    crash = "#include <csignal>\nstruct Crash { Crash() { raise(SIGKILL); } } crash;"
    build_over_host(home / "lib64" / place, crash)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
    report = as_json(capsys)
    assert backend(report, "cann")["problem"] == "its process was ended by signal 9 (Killed)"
    assert backend(report, "host")["problem"] is None
    assert report["auto"] == {"backend": None, "reason": "its process was ended by signal 9 (Killed)"}


def test_a_cann_that_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = install(tmp_path / "cann")
    chatter = '#include <cstdio>\nstruct Chatter { Chatter() { puts("{}"); } ~Chatter() { puts("bye"); } } chatter;'
    build_over_host(home / "lib64" / "libacl_rt.so", chatter)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
    assert backend(as_json(capsys), "cann")["problem"] is None


def test_an_answer_that_does_not_come(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_TIMEOUT", 0.001)
    report = as_json(capsys, code=1)
    assert report["provider"]["problem"] == "does not load: no answer within 0.001 s"
    assert report["auto"]["backend"] is None


def test_a_provider_that_is_not_built(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise LibraryMissingError("libpoolgrad_ep.so is not there")

    monkeypatch.setattr(doctor, "get_library_path", missing)
    report = as_json(capsys, code=1)
    assert report["provider"] == {"found": None, "problem": "libpoolgrad_ep.so is not there"}
    assert backend(report, "host")["problem"] == "the provider's library cannot be used"


def test_a_provider_that_is_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "libpoolgrad_ep.so"
    broken.write_text("no library")
    monkeypatch.setattr(doctor, "get_library_path", lambda: str(broken))
    report = as_json(capsys, code=1)
    assert report["provider"]["found"] == str(broken)
    assert "does not load: OSError" in report["provider"]["problem"]


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (
            "raise ImportError('no numpy')",
            "cannot be imported: ImportError: no numpy; pip install 'onnxruntime>=1.24.1'",
        ),
        ("import os; os.abort()", "cannot be imported: its process was ended by signal 6 (Aborted); pip install "),
        ("__version__ = '1.23.2'", "too old for the provider; pip install 'onnxruntime>=1.24.1'"),
    ],
)
def test_an_onnxruntime_of_no_use(
    tmp_path: Path, module: str, expected: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onnxruntime.py").write_text(module)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    report = as_json(capsys)  # the backends work all the same
    assert report["onnxruntime"]["problem"].startswith(expected)


@pytest.mark.parametrize(
    ("package", "advice"),
    [
        (
            "onnxruntime-training-cpu",
            "onnxruntime-training-cpu trains lowered models with runtime.training.session_options() "
            "(docs/training.md); for the provider, make a separate environment and there "
            "pip install 'onnxruntime>=1.24.1'",
        ),
        ("onnxruntime-cann", "pip install 'onnxruntime-cann>=1.24.1'"),
    ],
)
def test_the_advice_replaces_no_other_package_of_the_module(
    tmp_path: Path, package: str, advice: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onnxruntime.py").write_text("__version__ = '1.19.2'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    metadata = tmp_path / f"{package.replace('-', '_')}-1.19.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.19.2\n")
    (metadata / "top_level.txt").write_text("onnxruntime\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert as_json(capsys)["onnxruntime"]["problem"] == f"too old for the provider; {advice}"


def test_no_install_is_advised_to_a_python_without_wheels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onnxruntime.py").write_text("__version__ = '1.23.2'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("poolgrad_lowering.model.io.onnxruntime.OLDEST_PYTHON", (4, 0))
    problem = as_json(capsys)["onnxruntime"]["problem"]
    advice = "make an environment with Python 3.11 or newer, for which it has wheels, and there pip install "
    assert problem == f"too old for the provider; {advice}'onnxruntime>=1.24.1'"


def test_neither_onnxruntime_nor_onnx_is_imported(tmp_path: Path) -> None:
    for name in ("onnx", "onnxruntime"):
        (tmp_path / f"{name}.py").write_text("raise SystemError('broken')")
    package = Path(poolgrad_lowering.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "poolgrad_lowering.entry.cli", "doctor", "--json"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{package}"},
        cwd="/",
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["onnxruntime"]["problem"].startswith("cannot be imported: SystemError: broken")
