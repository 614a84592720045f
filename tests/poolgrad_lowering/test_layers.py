# SPDX-License-Identifier: Apache-2.0

"""The layer of a site and its identifier, which are the same wherever the site is named."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from onnx import ModelProto, NodeProto

from poolgrad_lowering import inspect, lower, read_plan, verify
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.model.ir.metadata import NAME_SCOPES, layer_of
from tests.html_report.pages import page, parsed, text_of, with_class
from tests.pool_graphs import torch_gradient

MODEL = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
SITE = "main:sums"
SCATTER, POOL, UPDATES = (
    next(n for n, node in enumerate(MODEL.graph.node) if name in node.output) for name in ("sums", "Y", "updates")
)


def scopes(layer: str) -> str:
    return repr(["", "features", layer, "max_pool2d"])


def with_layers(layers: dict[int, str]) -> ModelProto:
    """The gradient, whose nodes at these positions are in these layers."""
    model = ModelProto.FromString(MODEL.SerializeToString())
    for position, layer in layers.items():
        model.graph.node[position].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=f"of {position}")
        model.graph.node[position].metadata_props.add(key=NAME_SCOPES, value=scopes(layer))
    return model


def lowered_nodes(model: ModelProto) -> Sequence[NodeProto]:
    return [node for node in lower(model).model.graph.node if node.domain == "npu"]


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ({SCATTER: "features.3", POOL: "features.2", UPDATES: "loss"}, "features.3"),
        ({POOL: "features.2", UPDATES: "loss"}, "features.2"),
        ({UPDATES: "loss"}, "loss"),
        ({SCATTER: "", POOL: "features.2"}, "features.2"),
        ({}, None),
    ],
)
def test_where_the_layer_comes_from(layers: dict[int, str], expected: str | None) -> None:
    model = with_layers(layers)
    result = lower(model)
    [anchor] = result.report.anchors
    assert (anchor.site, anchor.layer) == (SITE, expected)
    [site] = verify(model, result.model, whole_model=False).sites
    assert (site.name, site.layer) == (SITE, expected)
    kept = lower(model, forward=False)
    [site] = verify(model, kept.model, whole_model=False).sites  # the pool is in none of the two models' difference
    assert (site.name, site.layer) == (SITE, expected)


def test_a_refused_anchor_has_the_layer_of_its_node() -> None:
    [anchor] = inspect(with_layers({SCATTER: "features.3", POOL: "other"}), target="atlas-training").anchors
    assert (anchor.status, anchor.layer) == ("refused", "features.3")


def test_lowered_nodes_keep_the_metadata() -> None:
    pool, gradient = lowered_nodes(with_layers({SCATTER: "features.3", POOL: "features.2"}))
    assert [layer_of(node) for node in (pool, gradient)] == ["features.2", "features.3"]
    entries = {entry.key: entry.value for entry in gradient.metadata_props}
    assert entries["pkg.torch.onnx.stack_trace"] == f"of {SCATTER}"
    assert len(gradient.metadata_props) == len(entries)


def test_the_metadata_of_an_earlier_lowering_is_not_kept() -> None:
    model = with_layers({})
    for key in ("poolgrad.site", "poolgrad.pattern", "poolgrad.replaced"):
        model.graph.node[SCATTER].metadata_props.add(key=key, value="old")
    [_, gradient] = lowered_nodes(model)
    assert "old" not in {entry.value for entry in gradient.metadata_props}


def test_the_plan_names_the_layer(tmp_path: Path) -> None:
    model = with_layers({SCATTER: "features.3"})
    plan = inspect(model).plan("0" * 64)
    [site] = json.loads(plan.to_json())["sites"]
    assert (site["site"], site["layer"]) == (SITE, "features.3")
    (tmp_path / "plan.json").write_text(plan.to_json())
    assert read_plan(tmp_path / "plan.json") == plan
    assert lower(model, plan=plan).model == lower(model).model


def test_texts_name_the_layer_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / name for name in ("training.onnx", "lowered.onnx")]
    model = with_layers({SCATTER: "features.3"})
    for path, one in zip(paths, (model, lower(model).model), strict=True):
        path.write_bytes(one.SerializeToString())
    assert main(["inspect", str(paths[0])]) == 0
    header, row, *_ = capsys.readouterr().out.splitlines()
    assert header.split() == ["layer", "anchor", "status", "what"]
    assert row.split()[:3] == ["features.3", SITE, "lowered"]
    assert main(["verify", *map(str, paths), "--no-whole-model"]) == 0
    header, row, *_ = capsys.readouterr().out.splitlines()
    assert header.split() == ["layer", "site", "status", "what"]
    assert row.split()[:3] == ["features.3", SITE, "proven"]


def test_pages_and_notebooks_name_the_layer() -> None:
    model = with_layers({SCATTER: "features.3"})
    [anchor] = with_class(parsed(page(model)), "anchor", "details")
    [name] = with_class(anchor, "name", "span")
    assert text_of(name) == f"features.3 {SITE}"
    result = lower(model)
    for shown in (result, verify(model, result.model, whole_model=False)):
        cells = re.findall(r"<td[^>]*>(.*?)</td>", shown._repr_html_())
        assert cells[:2] == ["features.3", SITE]
    assert "features.3 before" in result._repr_html_()


def test_without_layers_tables_have_no_column() -> None:
    assert "layer" not in lower(MODEL)._repr_html_()
