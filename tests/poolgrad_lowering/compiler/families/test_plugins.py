# SPDX-License-Identifier: Apache-2.0

"""Forms of other packages: found by their entry points, left out with a reason where they are broken."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from poolgrad_lowering import lower, patterns
from poolgrad_lowering.compiler.families.gradient import OWN_FORMS, Form, form
from poolgrad_lowering.entry import cli
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.pool_graphs import parse
from tests.texts import Says

Register = Callable[..., None]
"""Installs a distribution with these entry points, name=value."""

ACME = """
from poolgrad_lowering.compiler.families.max_pool.matching.forward import forward_pool
from poolgrad_lowering.compiler.families.gradient import Operand, Form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.analysis.provenance import indices


def match(facts, node):
    grad, recorded, dx = node.input(0), node.input(1), node.output(0)
    found = indices(facts, recorded)
    forward = forward_pool(facts, found.pool)
    return MaxPoolGradient(
        x=Operand(forward.x), grad=Operand(grad), argmax=Operand(found.argmax), dx=Operand(dx),
        numbering=found.argmax_numbering,
        element_type=forward.element_type, windows=forward.attributes,
        x_shape=forward.x_shape, pooled_shape=forward.pooled_shape,
    )


FORM = Form("acme", (("com.acme", "PoolBackward"),), "acme's gradient", match)
OTHER = Form("another", (("com.acme", "Another"),), "declines", lambda facts, node: None)
RAISES = Form("raises", (("com.acme", "PoolBackward"),), "breaks", lambda facts, node: 1 / 0)
ANSWERS = Form("answers", (("com.acme", "PoolBackward"),), "answers nonsense", lambda facts, node: "yes")
OWN_NAME = Form("torch_scatter_add", (), "takes a name", match)
NO_ANCHORS = Form("none", None, "has no anchors", match)
NOT_A_PATTERN = 3
"""


@pytest.fixture
def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Register]:
    """Installs a distribution with these entries, and takes it away again."""
    (tmp_path / "acme_forms.py").write_text(ACME, encoding="utf-8")
    (tmp_path / "acme_module.py").write_text("from acme_forms import OTHER as FORM\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def install(**entries: str) -> None:
        info = tmp_path / "acme-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", encoding="utf-8")
        lines = [f"{name} = {value}" for name, value in entries.items()]
        (info / "entry_points.txt").write_text(
            "\n".join(["[poolgrad_lowering.patterns]", *lines, ""]), encoding="utf-8"
        )
        patterns._plugins.cache_clear()

    yield install
    patterns._plugins.cache_clear()
    for name in ("acme_forms", "acme_module"):
        sys.modules.pop(name, None)


MODEL = parse(
    """g (float[2,3,8,8] x, float[2,3,4,4] dy) => (float[2,3,8,8] dx) {
        y, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
        dx = com.acme.PoolBackward (dy, i)
    }""",
    imports='"com.acme": 1',
)


def names() -> list[str]:
    return [pattern.name for pattern in patterns.all_forms()]


def test_without_plugins() -> None:
    patterns._plugins.cache_clear()
    assert names() == sorted(names()) == [pattern.name for pattern in patterns.own_forms()]
    assert patterns.broken_plugins() == ()
    report = lower(MODEL).report
    assert report.anchors == ()
    assert report.to_dict()["broken_plugins"] == []


def test_forms_of_other_packages_come_after_those_of_this_one() -> None:
    other = Form("a_form", (("", "MaxPoolGrad"),), "A form.", lambda *_: None)
    assert max(patterns.own_forms(), key=lambda pattern: pattern.priority).priority < other.priority


def test_a_form_of_another_package(register: Register, capsys: pytest.CaptureFixture[str]) -> None:
    register(zeta="acme_module", acme="acme_forms:FORM")
    own = [pattern.name for pattern in patterns.own_forms()]
    assert names() == [*own, "acme", "another"]
    [anchor] = lower(MODEL).report.anchors
    assert (anchor.status, anchor.pattern, anchor.op) == ("lowered", "acme", "MaxPool3DGradWithArgmax")
    assert cli.main(["patterns"]) == 0
    assert "acme's gradient" in capsys.readouterr().out


BROKEN = {
    "no_module": ("acme_nowhere", "acme_nowhere cannot be loaded: ModuleNotFoundError: No module named 'acme_nowhere'"),
    "no_attribute": (
        "acme_forms:NOTHING",
        "acme_forms:NOTHING cannot be loaded: AttributeError: module 'acme_forms' has no attribute 'NOTHING'",
    ),
    "no_pattern": (
        "acme_forms:NOT_A_PATTERN",
        "acme_forms:NOT_A_PATTERN is neither a Form nor a module with a FORM",
    ),
    "name_of_another": (
        "acme_forms:OWN_NAME",
        "acme_forms:OWN_NAME has the same name as another form, 'torch_scatter_add'",
    ),
    "malformed": (
        "acme_forms:NO_ANCHORS",
        "acme_forms:NO_ANCHORS needs a name, anchors as pairs (domain, op type), a match function and a priority",
    ),
}


@pytest.mark.parametrize(("value", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_form_is_named_and_left_out(
    register: Register, value: str, reason: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    register(broken=value, acme="acme_forms:FORM")
    with caplog.at_level(logging.WARNING):
        result = lower(MODEL)
    assert [anchor.status for anchor in result.report.anchors] == ["lowered"]
    assert result.report.to_dict()["broken_plugins"] == [{"name": "broken", "reason": reason}]
    assert f"form 'broken' of another package is not used: {reason}" in caplog.text
    assert cli.main(["patterns"]) == 0
    assert f"not used: broken: {reason}" in capsys.readouterr().out


def test_of_two_forms_with_one_name_the_first_entry_counts(register: Register) -> None:
    register(b="acme_forms:FORM", a="acme_forms:FORM")
    assert names()[-1] == "acme"
    assert [plugin.name for plugin in patterns.broken_plugins()] == ["b"]


@pytest.mark.refusal(Code.PLUGIN_FAILED.value)
@pytest.mark.parametrize("value", ["acme_forms:RAISES", "acme_forms:ANSWERS"])
def test_a_form_that_fails_on_a_node(register: Register, value: str, says: Says) -> None:
    register(failing=value)
    result = lower(MODEL)
    [anchor] = result.report.anchors
    assert anchor.code == "plugin-failed"
    says(anchor.reason)
    assert result.model.SerializeToString() == MODEL.SerializeToString()


def test_a_module_has_one_form_of_this_package() -> None:
    import_module("poolgrad_lowering.patterns.torch_scatter_add")
    before = OWN_FORMS["torch_scatter_add"]
    with pytest.raises(ValueError, match=r"'poolgrad_lowering\..*torch_scatter_add' has a form already"):
        form(*before.anchors, summary=before.summary, priority=before.priority)(before.match)
    assert OWN_FORMS["torch_scatter_add"] is before
