# SPDX-License-Identifier: Apache-2.0

"""The prepared cases: originals that stand for others give the same bits, and rows name what there is to run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto

from models import catalogue
from tests.harness.releases import runner
from tests.harness.releases.prepare import VARIANTS, built, write_case
from tests.harness.releases.runner import LEVELS
from tests.heads import head
from tests.oracles import assert_same_bits, run_reference
from tests.releases.cases import Case, drawn_feeds, gradient_sites, site_feeds, standard
from tests.releases.sweep import OVERLAPPING, SIBLINGS, Graph, PoolWindows, usual
from tests.releases.texts import block, pooled_value, two_types


@pytest.mark.parametrize("opset", [11, 16, 21])
@pytest.mark.parametrize("symbols", [0, 1, 2])
def test_standard_gradients_have_the_bits_of_the_operator(opset: int, symbols: int) -> None:
    [case] = Graph("F1", opset, PoolWindows((OVERLAPPING,) * 2), 2, symbols).cases()
    check_same(case.model, case)


@pytest.mark.parametrize("form", ["F2", "F11", "F11a", "F15"])
def test_siblings_have_the_bits_of_the_form(form: str) -> None:
    assert form in SIBLINGS
    for case in usual(form, 18):
        check_same(case.model, case)


def check_same(model: ModelProto, case: Case) -> None:
    assert case.original is not None
    found, expected = (run_reference(each, case.feeds) for each in (case.original, model))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert_same_bits(found[name], value)


def test_older_gradients_beside_other_operators_have_no_standard_model() -> None:
    text = (
        head(12)
        + """ g (float[1,1,4] a, float[1,1,2] dy) => (float[1,1,4] dx) {
        x = Softmax(a)
        y, i = MaxPool<kernel_shape = [2], strides = [2]>(x)
        dx = MaxPoolGrad(dy, i)
    }"""
    )
    assert standard(onnx.parser.parse_model(text)) is None
    assert standard(onnx.parser.parse_model(text.replace("12", "16"))) is not None


def test_sites_are_cut_out_with_their_pools() -> None:
    entry = catalogue.entry("ort/lenet_dynamic_batch")
    sites = list(gradient_sites(onnx.load(entry.file)))
    assert len(sites) == entry.site_count
    for site, names in sites:
        assert [node.op_type for node in site.graph.node] == ["MaxPool", "MaxPoolGrad"]
        assert site_feeds(site, names).keys() == set(names.values())


def test_drawn_feeds_are_the_same_each_time() -> None:
    model = onnx.parser.parse_model(head(17) + " g (float[N,3] x, int64[2] t) => (z) {}")
    feeds = drawn_feeds(model)
    assert {name: (array.dtype, array.shape) for name, array in feeds.items()} == {
        "x": (np.float32, (2, 3)),
        "t": (np.int64, (2,)),
    }
    assert_same_bits(feeds["x"], drawn_feeds(model)["x"])


def test_equal_models_are_there_once(tmp_path: Path) -> None:
    [whole] = Graph("F1", 17, PoolWindows((OVERLAPPING,)), 1).cases()
    row = write_case(tmp_path, whole)
    assert row is not None
    assert sorted(name for names in row["lowered"].values() for name in names) == sorted(VARIANTS)
    assert len(row["lowered"]) == 2  # a 1-D pool is the same operator for both products
    assert {path.name for path in tmp_path.iterdir()} == {row["original"], row["feeds"], *row["lowered"]}


def test_models_of_which_nothing_is_lowered_have_no_row(tmp_path: Path) -> None:
    [refused] = built(catalogue.entry("torch/maximum_shared_by_ties"))
    assert write_case(tmp_path, refused) is None
    assert not list(tmp_path.iterdir())


def test_lowered_models_run_in_this_onnxruntime(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    cases = [*block(13), *block(17), *pooled_value(17), *two_types(17)]
    rows = [write_case(tmp_path, case) for case in cases]
    assert None not in rows
    (tmp_path / "cases.json").write_text(json.dumps(rows), encoding="utf-8")
    subprocess.run([sys.executable, runner.__file__, tmp_path, tmp_path / "rows"], check=True)
    found = [json.loads(line) for line in (tmp_path / "rows").read_text(encoding="utf-8").splitlines()]
    assert len([row for row in found if row["outcome"] == "runs"]) == len(cases) * len(LEVELS)
    assert not [row for row in found if row["outcome"] not in ("runs", "same")]
