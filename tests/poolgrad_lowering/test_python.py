# SPDX-License-Identifier: Apache-2.0

"""The package in an interpreter and in a notebook: help with examples that run, short texts, useful errors."""

from __future__ import annotations

import doctest
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import html5lib
import pytest
from onnx import ModelProto

import poolgrad_lowering
from docs.api_reference import TASKS, reference
from poolgrad_lowering import Limits, inspect, lower, lower_file, verify
from poolgrad_lowering.model.diagnostics.text import MAX_ROWS, html_table
from tests.pool_graphs import GRADIENT, parse

LENET = Path(__file__).parents[2] / "models" / "built" / "torch" / "lenet.onnx"
REFUSED = parse("g (float[2,3,4] dY, int64[2,3,4] I) => (dX) { [name] dX = MaxPoolGrad(dY, I) }")


@pytest.mark.parametrize("function", [lower, inspect, lower_file])
def test_examples_in_the_help_run(function: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(LENET, tmp_path / "training.onnx")
    monkeypatch.chdir(tmp_path)
    [example] = doctest.DocTestFinder(recurse=False).find(function, function.__name__, globs={})
    assert len(example.examples) > 1
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("function", [lower, lower_file])
def test_the_help_names_every_parameter_and_error(function: Any) -> None:
    names = re.findall(r"^ {8}(\w+): ", function.__doc__, re.MULTILINE)
    parameters = [name for name in function.__annotations__ if name != "return"]
    assert names[: len(parameters)] == parameters
    errors = names[len(parameters) :]
    assert set(errors) >= {"UnknownTargetError", "InvalidModelError", "PlanError"}


def test_the_help_has_the_default_limits() -> None:
    limits = Limits()
    assert (limits.max_bytes, limits.max_nodes) == (2 * 2**30 - 1, 2**22)
    assert (limits.max_nesting, limits.max_external_bytes) == (32, 64 * 2**30)
    assert "2 GiB, 2^22 nodes, 32 levels of subgraphs, and 64 GiB of external data" in str(lower.__doc__)


@pytest.mark.parametrize("function", [lower, inspect])
@pytest.mark.parametrize("model", ["model.onnx", Path("model.onnx"), b"model", None])
def test_what_is_no_model(function: Any, model: object) -> None:
    message = (
        rf"of type {type(model).__name__}, not onnx.ModelProto: load a file with onnx.load\(path\), or call the "
        r"function for files \(lower_file, "
    )
    with pytest.raises(TypeError, match=message):
        function(model)


def test_short_texts() -> None:
    result = lower(GRADIENT)
    nodes = f"nodes {len(GRADIENT.graph.node)} → {len(result.model.graph.node)}"
    assert repr(result.report) == f"<Report for atlas-a2: 1 anchor, 1 lowered, 0 refused; {nodes}>"
    assert repr(result) == f"<LoweringResult: {result.report!r}>"
    whole = "whole model: not run"
    proven = verify(GRADIENT, result.model, whole_model=False)
    assert repr(proven) == f"<Verification: proven, 1 site, 0 differences outside of sites, {whole}>"
    nothing = verify(GRADIENT, REFUSED, whole_model=False)
    assert repr(nothing).startswith("<Verification: not proven, 0 sites, ")


LEFT = ' style="text-align: left"'


def plain(table: str) -> str:
    """The table without the alignment of its cells, which all have it: notebooks align to the right."""
    cells = re.findall(r"<(?:th|td|caption)\b[^>]*>", table)
    assert cells
    assert all(cell.endswith(f"{LEFT}>") for cell in cells)
    return table.replace(LEFT, "")


def test_tables_in_notebooks() -> None:
    evil = ModelProto.FromString(REFUSED.SerializeToString())
    evil.graph.node[0].output[0] = evil.graph.output[0].name = "<script>\x1b[2J"
    result = lower(evil)
    table = result._repr_html_()
    assert table == result.report._repr_html_()
    assert "&lt;script&gt;\\x1b[2J</td><td>refused</td><td>indices-source: " in plain(table)
    proven = verify(GRADIENT, lower(GRADIENT).model, whole_model=False)._repr_html_()
    assert "<td>main:sums</td><td>proven</td>" in plain(proven)
    differs = verify(GRADIENT, REFUSED, whole_model=False)._repr_html_()
    assert "<td>differs</td>" in plain(differs)
    shown = lower(GRADIENT)._repr_html_()
    for text in (table, proven, differs, shown):
        html5lib.HTMLParser(strict=True).parseFragment(text)


def test_notebooks_draw_the_first_site() -> None:
    """Before and after, with a style sheet that no other drawing of the notebook gets."""
    result = lower(GRADIENT)
    shown = result._repr_html_()
    before, after = re.findall(r"<figure.*?</figure>", shown, re.DOTALL)
    assert "<figcaption>main:sums before</figcaption>" in before
    assert "ScatterElements" in before
    assert "MaxPool3DGradWithArgmax" in after
    assert "ScatterElements" not in after
    [style] = re.findall(r"<style>(.*?)</style>", shown, re.DOTALL)
    selectors = [
        one for rule in re.findall(r"^([^{}\n-][^{}\n]*?) \{", style, re.MULTILINE) for one in rule.split(", ")
    ]
    assert len(selectors) > 5
    assert all(selector.startswith(".poolgrad-drawing") for selector in selectors)
    assert pickle.loads(pickle.dumps(result))._repr_html_() == shown
    assert "<svg" not in lower(REFUSED)._repr_html_()


@pytest.mark.parametrize("change", ["lowered", "invalid"])
def test_a_model_that_was_changed_since_is_not_drawn(change: str) -> None:
    model = ModelProto.FromString(GRADIENT.SerializeToString())
    for plan in (None, inspect(model).plan("")):
        model.CopyFrom(GRADIENT)
        result = lower(model, plan=plan)
        model.CopyFrom(result.model if change == "lowered" else ModelProto())
        assert result._repr_html_() == result.report._repr_html_()


def test_a_result_is_drawn_each_time_alike() -> None:
    result = lower(GRADIENT, limits=Limits(max_nodes=len(GRADIENT.graph.node)))
    assert {result._repr_html_() for _ in range(3)} != {result.report._repr_html_()}
    assert len({result._repr_html_() for _ in range(3)}) == 1


def test_a_long_table_is_cut() -> None:
    rows = [[str(number)] for number in range(MAX_ROWS + 7)]
    assert html_table("c", ["n"], rows).count("<tr>") == MAX_ROWS + 2
    assert "<td>and 7 more</td>" in plain(html_table("c", ["n"], rows))
    assert plain(html_table("c", ["n"], [])) == "<table><caption>c</caption></table>"


def test_the_reference_is_ordered_by_task() -> None:
    page = reference()
    assert {name for names in TASKS.values() for name in names} == set(poolgrad_lowering.__all__) - {"__version__"}
    assert [task for task in re.findall(r"^### (.* .*)$", page, re.MULTILINE) if task in TASKS] == list(TASKS)
    signatures = re.findall(r"^```text\n((?:class|def).*?)\n```$", page, re.MULTILINE | re.DOTALL)
    assert len(signatures) > 30
    assert max(len(line) for signature in signatures for line in signature.splitlines()) <= 110


def test_names_that_are_completed() -> None:
    """Public names and modules, and nothing that the package itself imports."""
    script = """if True:
        import sys
        import poolgrad_lowering
        assert dir(poolgrad_lowering) == sorted([*poolgrad_lowering.__all__, "runtime", "torch"])
        assert "poolgrad_lowering.runtime" not in sys.modules
        poolgrad_lowering.runtime.create_session"""
    subprocess.run([sys.executable, "-c", script], check=True)
