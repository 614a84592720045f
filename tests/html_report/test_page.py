# SPDX-License-Identifier: Apache-2.0

"""The page is well-formed, complete and deterministic, and names of the model are only text in it."""

from __future__ import annotations

import base64
import hashlib
import re
from xml.etree import ElementTree as ET

import onnx
import pytest

from poolgrad_lowering.report.drawing.markup import MAX_NAME
from poolgrad_lowering.report.drawing.parts import MAX_NODES
from poolgrad_lowering.report.html import html_report
from poolgrad_lowering.report.html.page import index_page
from poolgrad_lowering.report.html.record import MAX_DRAWN
from poolgrad_lowering.report.report import FileResult
from tests.html_report.pages import (
    BUILT,
    HOSTILE,
    MIXED,
    many_sites,
    observed,
    page,
    parsed,
    renamed,
    text_of,
    with_class,
)
from tests.pool_graphs import parse, torch_gradient


@pytest.mark.parametrize(
    "path", ["torch/lenet", "torch/spatial_pyramid", "ort/nested", "torch_legacy/adaptive_generic"]
)
@pytest.mark.parametrize("target", ["atlas-a2", "atlas-training"])
def test_built_models(path: str, target: str) -> None:
    model = onnx.load(BUILT / f"{path}.onnx")
    content = page(model, f"{path}.onnx", target)
    assert content == page(model, f"{path}.onnx", target)
    root = parsed(content)
    report, _ = observed(model, target)
    anchors = with_class(root, "anchor", "details")
    assert [anchor.get("data-status") for anchor in anchors] == [anchor.status for anchor in report.for_people]
    for element, anchor in zip(anchors, report.for_people, strict=True):
        text = text_of(element)
        assert anchor.name in text
        assert (anchor.op or anchor.code or "") in text
        assert len(list(element.iter("figure"))) == (2 if anchor.op else 1)


def test_every_kind_of_anchor() -> None:
    root = parsed(page(parse(MIXED)))
    good, bad, inner, other = map(text_of, with_class(root, "anchor", "details"))
    assert "run by aclnnMaxPool3dWithArgmaxBackward." in good
    assert "Its forward pool becomes npu.MaxPool3DWithArgmaxV2, run by aclnnMaxPool3dWithArgmax." in good
    assert "a pool with kernel 2, strides 2, pads 0, rounded down" in good
    assert "⌊(4 + 2·0 − 2) / 2⌋ + 1 = 2" in good
    assert "indices come from 'I', an input; if a forward graph computes them, merge the two graphs first" in bad
    assert "Otherwise take the indices from a MaxPool in the same graph." in bad
    assert "main/choose.then_branch" in inner
    assert "Give the node the inputs that its operator takes" in other


def test_a_pool_of_two_nodes() -> None:
    """The ReduceMax is drawn with the gradient before, and what it became after."""
    [anchor] = with_class(parsed(page(onnx.load(BUILT / "torch" / "global.onnx"))), "anchor", "details")
    before, after = map(text_of, anchor.iter("figure"))
    assert "ReduceMax" in before
    assert "AdaptiveMaxPool3d" in after
    assert "ReduceMax" not in after


def test_links_lead_somewhere_and_nowhere_else() -> None:
    """Links lead to ids in the page, nothing is loaded, and the policy allows only the page's script and style."""
    content = page(onnx.load(BUILT / "torch" / "lenet.onnx"))
    root = parsed(content)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    links = [str(element.get("href")) for element in root.iter() if element.get("href")]
    assert links
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert all(link.startswith("#") for link in links)
    assert not [element for element in root.iter() if element.get("src") or element.tag in ("link", "img", "iframe")]
    assert not re.search(r"url\(|@import|https?:", content.decode())
    [policy] = [e.get("content", "") for e in root.iter("meta") if e.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        [element] = root.iter(tag)
        digest = base64.b64encode(hashlib.sha256(text_of(element).encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names(name: str) -> None:
    """Names create no elements: the elements are those of the same model with harmless names."""
    graph = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
    values = ("X", "dY", "Y", "I", "sums", "dX", "zero")
    hostile = page(renamed(graph, {value: name + value for value in values}), name)
    harmless = page(renamed(graph, {value: f"name_{value}" for value in values}), "name")
    shapes = [[(element.tag, sorted(element.attrib)) for element in parsed(one).iter()] for one in (hostile, harmless)]
    without_width = [
        [(tag, [key for key in keys if key not in ("textLength", "lengthAdjust")]) for tag, keys in shape]
        for shape in shapes
    ]
    assert without_width[0] == without_width[1]
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u200b\u2028\u202e\ufeff]", hostile.decode())
    assert len(hostile) < len(harmless) + 100 * 6 * (MAX_NAME + 100)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_sizes(name: str) -> None:
    """Symbols of sizes are escaped like names."""
    text = """g (float[N,3,L] X, float[N,3,M] dY) => (float[N,3,L] dX) {
        Y, I = MaxPool<kernel_shape = [2], strides = [2]>(X)
        dX = MaxPoolGrad(dY, I)
    }"""
    model = parse(text)
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param += name
    hostile, harmless = page(model), page(parse(text))
    tags = [[element.tag for element in parsed(one).iter()] for one in (hostile, harmless)]
    assert tags[0] == tags[1]
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u200b\u2028\u202e\ufeff]", hostile.decode())
    assert len(hostile) < len(harmless) + 50 * 6 * (MAX_NAME + 100)


def test_names_are_told_whole_or_with_their_length() -> None:
    name = "n" * (MAX_NAME + 1)
    model = renamed(parse(MIXED), {"A": name})
    assert f"{'n' * MAX_NAME}… ({MAX_NAME + 1} characters)" in text_of(parsed(page(model)))


def test_a_page_without_anchors() -> None:
    root = parsed(page(parse("g (float[2] X) => (float[2] Y) { Y = Relu(X) }")))
    assert "No node of the model could be the gradient of a pool." in text_of(root)


def test_a_thousand_sites() -> None:
    """The number of drawings is limited, the list of anchors is not."""
    content = page(many_sites(1000)).decode()
    assert content.count('<details id="anchor-') == 1000
    assert content.count("<svg") == 2 * MAX_DRAWN
    assert f"Graphs are drawn for the first {MAX_DRAWN} of 1000 anchors." in content
    assert len(content) < 8_000_000


@pytest.mark.parametrize("name", ["", *HOSTILE], ids=range(len(HOSTILE) + 1))
def test_details_are_text_until_they_are_built(name: str) -> None:
    """A browser that runs scripts sees the details as text, and this text is what a browser without scripts shows."""
    graph = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
    content = page(renamed(graph, {value: name + value for value in ("X", "dY", "Y", "I", "sums", "dX", "zero")}))
    [text] = parsed(content, scripting=True).iter("noscript")
    [details] = parsed(content).iter("noscript")
    assert len(text) == 0
    assert len(list(details.iter("figure"))) == 2
    [built] = parsed(f"<!DOCTYPE html><title>built</title><main>{text_of(text)}</main>".encode()).iter("main")
    assert [ET.tostring(element) for element in built] == [ET.tostring(element) for element in details]


def test_a_large_region_is_cut() -> None:
    """A chain of copies between indices and scatter is drawn up to the limit, and the page says so."""
    length = MAX_NODES + 20
    chain = "\n".join(f"C{n + 1} = Identity(C{n})" for n in range(length))
    model = parse(
        f"""g (float[2,3,4] X, float[2,3,2] dY) => (dX) {{
            Y, C0 = MaxPool<kernel_shape = [2], strides = [2]>(X)
            {chain}
            dX = MaxPoolGrad(dY, C{length})
        }}"""
    )
    root = parsed(page(model))
    assert "Nodes further back are not drawn" in text_of(root)
    before, after = (len(list(svg.iter("g"))) for svg in root.iter("svg"))
    assert MAX_NODES <= before < MAX_NODES + 10
    assert after < 10


def test_what_sites_share_is_drawn_in_each() -> None:
    """Index arithmetic that two gradients share is drawn in both, although it is removed with the second only."""
    model = parse(
        """g (float[2,3,4] X, float[2,3,2] dY, float[2,3,2] dZ) => (dX, dW) {
            Y, I = MaxPool<kernel_shape = [2], strides = [2]>(X)
            J = Identity(I)
            dX = MaxPoolGrad(dY, J)
            dW = MaxPoolGrad(dZ, J)
        }"""
    )
    report, recorder = observed(model)
    assert len(report.lowered) == 2
    for record in recorder.anchors:
        assert record.before is not None
        assert "Identity" in [box.heading for box in record.before.boxes]


def test_notes_on_the_model_come_first() -> None:
    """The summary begins with the warnings and notes of the report, and names in them are only text."""
    forward = "g (float[2,3,4] X) => (Y) { Y = MaxPool<kernel_shape = [2]>(X) }"
    root = parsed(page(parse(forward), target="atlas-training"))
    report, _ = observed(parse(forward), "atlas-training")
    warnings, notes = with_class(root, "notes")
    assert [f"Warning: {note.text}" for note in report.notes if note.warning] == [text_of(warnings)]
    assert [f"Note: {note.text}" for note in report.notes if not note.warning] == [text_of(notes)]
    assert "as in a forward graph: 1 MaxPool" in text_of(notes)
    assert not with_class(parsed(page(parse(MIXED))), "notes")


def test_the_first_lowered_anchor_is_open() -> None:
    """Lowered anchors come first, then refused ones; those that are no gradients come last."""
    root = parsed(page(onnx.load(BUILT / "torch" / "lenet.onnx")))
    anchors = with_class(root, "anchor", "details")
    assert [anchor.get("open") is not None for anchor in anchors] == [True, False, False]
    assert [anchor.get("data-status") for anchor in anchors] == ["lowered", "lowered", "unrelated"]
    last = text_of(anchors[-1])
    assert "Why it is no gradient of a pool" in last
    assert "What would have to change" not in last
    refused = parsed(page(onnx.load(BUILT / "torch" / "lenet.onnx"), target="atlas-training"))
    assert [anchor.get("open") for anchor in with_class(refused, "anchor", "details")] == [None] * 3


def test_the_index_has_a_bar_for_each_model() -> None:
    """Each bar shows the share of lowered and refused anchors; a heading is not repeated above its table."""
    half, _ = observed(parse(MIXED))
    none, _ = observed(parse("g (float[2] X) => (float[2] Y) { Y = Relu(X) }"))
    rows = [FileResult(name, report) for name, report in (("half", half), ("none", none))]
    root = parsed(index_page("models", rows))
    headings = [text_of(heading) for heading in root.iter("h2")]
    assert headings == ["Models", "Refused, by code"]
    assert not list(root.iter("caption"))
    [bar] = with_class(root, "bar", "svg")
    assert text_of(bar) == "1 lowered, 3 refused"
    assert [(rect.get("class"), rect.get("x"), rect.get("width")) for rect in bar.iter("rect")] == [
        ("lowered", "0", "30"),
        ("refused", "30", "90"),
    ]


def test_operators_of_training_runtimes() -> None:
    model = onnx.load(BUILT / "ort/lenet.onnx")
    model.graph.node.add(op_type="YieldOp", domain="com.microsoft", name="recurrent", input=["x"], output=["<odd>"])
    plain = text_of(parsed(page(model)))
    assert "training runtimes" not in plain
    text = text_of(parsed(html_report(*observed(model, standard=True), "model.onnx")))
    assert "Operators of training runtimes, replaced by standard ONNX" in text
    assert "com.microsoft.ConvGrad" in text
    assert "Operators of training runtimes without a definition" in text
    assert "part-of-a-step: " in text
