# SPDX-License-Identifier: Apache-2.0

"""What importing the package loads, what `poolgrad --help` and lowering do: start-up is made of that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.harness.processes import environment
from tests.heads import head

ROOT = Path(__file__).parents[2]
LENET = ROOT / "models" / "built" / "torch" / "lenet.onnx"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], env=environment(), capture_output=True, check=True, text=True)


def loaded(statement: str) -> set[str]:
    return set(run("-c", f"import sys; {statement}; print(*sys.modules)").stdout.split())


def test_the_package_itself_loads_nothing() -> None:
    modules = loaded("import poolgrad_lowering")
    assert not modules & {"onnx", "numpy", "networkx", "onnxruntime", "google.protobuf", "inspect"}
    assert {name for name in modules if name.startswith("poolgrad_lowering")} == {
        "poolgrad_lowering",
        "poolgrad_lowering.model",
        "poolgrad_lowering.model.diagnostics",
        "poolgrad_lowering.model.diagnostics.version",
    }


def test_the_compiler_loads_no_runtime() -> None:
    model = head(16) + " g (float[2] x) => (float[2] x) { }"
    modules = loaded(f"import onnx, poolgrad_lowering as p; p.lower(onnx.parser.parse_model({model!r}))")
    assert {"onnx", "numpy"} <= modules
    assert not modules & {"onnxruntime", "torch", "poolgrad_lowering.runtime", "onnx.reference"}


def test_lowering_loads_no_networkx() -> None:
    """It takes longer to load than all of the compiler, which shows regions with it and finds them without."""
    lowering = f"p.lower(onnx.load({str(LENET)!r})).report.lowered"
    assert "networkx" not in loaded(f"import onnx, poolgrad_lowering as p; assert {lowering}")


def test_help_loads_nothing() -> None:
    modules = set(
        run(
            "-c",
            "import sys\nfrom poolgrad_lowering.entry.cli import main\n"
            "try: main(['--help'])\nexcept SystemExit: print(*sys.modules)",
        ).stdout.split()
    )
    assert not modules & {"onnx", "numpy", "networkx"}


@pytest.mark.parametrize("name", ["lower", "lower_file", "inspect", "verify", "Limits", "Report", "PoolgradError"])
def test_names_are_loaded_when_used(name: str) -> None:
    assert run("-c", f"from poolgrad_lowering import {name}; print({name}.__module__)").stdout.startswith(
        "poolgrad_lowering."
    )


def test_every_public_name_exists() -> None:
    import poolgrad_lowering

    for name in poolgrad_lowering.__all__:
        assert getattr(poolgrad_lowering, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'no_such'"):
        _ = poolgrad_lowering.no_such


def test_the_package_is_imported_from_a_source_tree() -> None:
    """In the root of the repository, without an installation: no editable one is found without site (-S)."""
    dependencies = str(Path(onnx.__file__).parents[1])
    statement = "import poolgrad_lowering as p, poolgrad_lowering.patterns as f, poolgrad_lowering.runtime as r"
    printed = subprocess.run(
        [sys.executable, "-S", "-c", f"{statement}; print(p.__file__, f.__file__, r.__file__); p.lower"],
        cwd=ROOT,
        env={"PYTHONPATH": dependencies},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert printed.split() == [
        str(ROOT / name / "__init__.py") for name in ("poolgrad_lowering", "patterns", "runtime")
    ]


def test_a_source_tree_without_libraries_says_what_is_missing() -> None:
    code = "from poolgrad_lowering.runtime import get_library_path; get_library_path()"
    failed = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT, env={}, capture_output=True, check=False, text=True
    )
    assert "LibraryMissingError" in failed.stderr
    assert "without the native libraries" in failed.stderr
