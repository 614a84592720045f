"""What importing the package loads, and how long that and `poolgrad --help` take."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from processes import environment

BUDGET = 0.1
"""Seconds that the package may add to `import onnx`."""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], env=environment(), capture_output=True, check=True, text=True)


def loaded(statement: str) -> set[str]:
    return set(run("-c", f"import sys; {statement}; print(*sys.modules)").stdout.split())


def test_the_package_itself_loads_nothing() -> None:
    modules = loaded("import poolgrad_lowering")
    assert not modules & {"onnx", "numpy", "networkx", "onnxruntime", "google.protobuf"}


def test_the_compiler_loads_no_runtime() -> None:
    model = '<ir_version: 8, opset_import: ["": 16]> g (float[2] x) => (float[2] x) { }'
    modules = loaded(f"import onnx, poolgrad_lowering as p; p.lower(onnx.parser.parse_model({model!r}))")
    assert {"onnx", "numpy"} <= modules
    assert not modules & {"onnxruntime", "torch", "poolgrad_lowering.runtime", "onnx.reference"}


def test_help_loads_nothing() -> None:
    modules = set(
        run(
            "-c",
            "import sys\nfrom poolgrad_lowering.cli import main\n"
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


def seconds(statement: str) -> float:
    """Import time of a statement by Python's own account, at best of five processes."""
    return min(_seconds(statement) for _ in range(5))


def _seconds(statement: str) -> float:
    """The sum of the times that each module took itself."""
    lines = run("-X", "importtime", "-c", statement).stderr.splitlines()
    return sum(int(found[1]) for line in lines if (found := re.match(r"import time:\s+(\d+) \|", line))) / 1e6


def test_import_time() -> None:
    assert seconds("import onnx; import poolgrad_lowering") - seconds("import onnx") <= BUDGET
