# SPDX-License-Identifier: Apache-2.0

"""The report: its JSON schema, and sums that are those of its parts."""

from __future__ import annotations

import json

from poolgrad_lowering import AnchorReport, lower
from tests.pool_graphs import parse, torch_gradient

SUMMARY = {
    "anchors": int,
    "lowered": int,
    "refused": int,
    "unrelated": int,
    "refused_by_code": dict,
    "nodes_before": int,
    "nodes_after": int,
    "bytes_before": int,
    "bytes_after": int,
    "bytes_saved": int,
    "seconds": float,
}
LISTS = ("broken_plugins", "warnings", "ways", "notes", "operators")
PLACE = ("name", "site", "op_type", "domain", "scope")
VERDICT = ("status", "pattern", "op", "attributes", "alternatives", "code", "reason")
FORWARD = ("forward_op", "forward_code", "forward_reason", "trusted_defaults", "layer")

MIXED = """g (float[2,3,4] X, float[2,3,2] dY, int64[2,3,2] I, bool c) => (A) {
    Y, J = MaxPool<kernel_shape = [2], strides = [2]>(X)
    [good] A = MaxPoolGrad(dY, J)
    B = MaxPoolGrad(dY, I)
    [choose] C = If(c) <
        then_branch = yes () => (T) { [inner] T = MaxPoolGrad(dY, I) },
        else_branch = no () => (E) { E = MaxPoolGrad(dY) }
    >
}"""


def test_every_field() -> None:
    report = lower(parse(MIXED)).report
    data = json.loads(report.to_json())
    assert data == report.to_dict()
    assert tuple(data) == ("schema_version", "target", "anchors", *LISTS, "placement", "standard", "summary")
    assert (data["schema_version"], data["target"]) == (1, "atlas-a2")
    assert {name: type(held) for name, held in data["summary"].items()} == SUMMARY
    assert [tuple(anchor) for anchor in data["anchors"]] == [PLACE + VERDICT + FORWARD] * 4


def test_anchors() -> None:
    lowered, refused, inner, other = lower(parse(MIXED)).report.anchors
    assert lowered == AnchorReport(
        name="good",
        site="main:A",
        op_type="MaxPoolGrad",
        domain="",
        scope="main",
        status="lowered",
        pattern="ort_max_pool_grad",
        op="MaxPool3DGradWithArgmax",
        attributes={
            "ksize": [1, 1, 2],
            "strides": [1, 1, 2],
            "pads": [0, 0, 0],
            "dilation": [1, 1, 1],
            "ceil_mode": 0,
            "data_format": "NCDHW",
        },
        alternatives=["AdaptiveMaxPool3DGrad"],
        forward_op="MaxPool3DWithArgmaxV2",
    )
    assert refused == AnchorReport(
        name="B",
        site="main:B",
        op_type="MaxPoolGrad",
        domain="",
        scope="main",
        status="refused",
        code="indices-source",
        reason="indices come from 'I', an input; if a forward graph computes them, merge the two graphs first",
    )
    assert (inner.name, inner.scope) == ("inner", "main/choose.then_branch")
    assert (other.name, other.scope, other.code) == ("E", "main/choose.else_branch", "arity")
    assert [anchor.site for anchor in (inner, other)] == ["main/choose.then_branch:T", "main/choose.else_branch:E"]


def test_a_refusal_of_a_proven_gradient_names_its_form() -> None:
    [anchor] = lower(torch_gradient([2, 3, 4], kernel_shape=[2]), target="atlas-training").report.anchors
    assert (anchor.pattern, anchor.code, anchor.op) == ("torch_scatter_add", "target", None)
