# SPDX-License-Identifier: Apache-2.0

"""Lowered models are proven, wherever their gradients are; what cannot be run is not; what is not drawn is told."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

import poolgrad_lowering
from models import catalogue
from models.catalogue import Entry
from poolgrad_lowering import InvalidModelError, lower, verify
from poolgrad_lowering.verification.result import Mismatch, Verification
from poolgrad_lowering.verification.running.data import NO_INFINITE_POOLED, NO_NAN_POOLED, NO_NEGATIVE_ZERO, ONLY_WHOLE
from tests.generators.places import in_a_branch, in_a_function, in_a_loop
from tests.generators.transforms import Transform
from tests.pool_graphs import ort_gradient, parse, torch_gradient
from tests.poolgrad_lowering.model.gate.bad_models import replaced

EVERY_FORM = (  # a built model for each recognised form, and for what is special about sizes and types
    "ort/dilated",
    "ort/lenet_opset12",
    "ort/stem_dynamic_shape",
    "ort/unequal_pads",
    "ort_module/pyramid",
    "ort_module/whole_row",
    "torch/global",
    "torch/lenet_dynamic_batch",
    "torch/lenet_float16",
    "torch/maximum_over_axis",
    "torch/spatial_pyramid",
    "torch/tiling_overwritten",
    "torch/video_ceil",
    "torch_legacy/adaptive",
    "torch_legacy/axis_maximum",
    "torch_legacy/user_symbolic",
)
SAMPLE = [entry for entry in catalogue.entries() if entry.name in EVERY_FORM] + catalogue.spellings()
POOL = torch_gradient([2, 3, 6, 6], kernel_shape=[2, 2], strides=[2, 2])


def check(model: ModelProto, *, target: str = "atlas-a2", forward: bool = True) -> Verification:
    """Lower and verify: everything proven, and every lowered anchor a gradient of some site."""
    result = lower(model, target=target, forward=forward)
    found = verify(model, result.model, whole_model=False)
    assert found.proven, (found.differences, found.first_failure)
    assert sum(len(site.gradients) for site in found.sites) == len(result.report.lowered)
    return found


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in SAMPLE])
def test_built_models(entry: Entry) -> None:
    check(onnx.load(entry.file))


@pytest.mark.long
@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("target", ["atlas-a2", "ascend950"])
@pytest.mark.parametrize("entry", [pytest.param(e, id=e.name) for e in [*catalogue.entries(), *catalogue.spellings()]])
def test_every_built_model(entry: Entry, target: str, forward: bool) -> None:
    check(onnx.load(entry.file), target=target, forward=forward)


PLACED = [
    entry for entry in SAMPLE if entry.name.startswith(("ort/", "torch/", "spellings/scatter", "spellings/tensorflow"))
]


@pytest.mark.parametrize("place", [in_a_branch, in_a_loop, in_a_function])
@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in PLACED])
def test_every_form_everywhere(entry: Entry, place: Transform) -> None:
    model = onnx.load(entry.file)
    for number, node in enumerate(model.graph.node):
        node.name = f"node {number}"
    found = check(place(model, []))
    assert sum(len(site.gradients) for site in found.sites) == len(lower(model).report.lowered)


def test_an_unchanged_model_has_no_sites() -> None:
    found = verify(POOL, POOL)
    assert (found.proven, found.sites, found.differences) == (True, (), ())


@pytest.mark.parametrize(
    ("entry", "reasons"),
    [
        ("torch/lenet", ()),
        ("ort/lenet", ()),
        ("torch/tiling_overwritten", (NO_NEGATIVE_ZERO,)),
        ("torch_legacy/axis_maximum", (NO_NEGATIVE_ZERO,)),
        ("ort_module/pyramid", (NO_NAN_POOLED,)),
    ],
)
def test_what_is_not_drawn(entry: str, reasons: tuple[str, ...]) -> None:
    for site in check(onnx.load(catalogue.entry(entry).file)).sites:
        assert site.not_drawn == reasons


def test_operators_that_nobody_knows() -> None:
    """Outside of a site they only have to be the same; in one, it cannot be run."""
    text = """g (float[2,3,6,6] x, float[2,3,3,3] dy) => (float[2,3,6,6] dx, float[2,3,3,3] y) {{
            y, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
            z = com.acme.Unheard (y)
            dx = MaxPoolGrad ({grad}, i)
        }}"""
    outside = parse(text.format(grad="dy"), imports='"com.acme": 1')
    assert verify(outside, lower(outside).model).proven
    lowered = lower(outside, forward=False).model
    next(node for node in lowered.graph.node if node.domain == "npu").input[0] = "z"
    [site] = verify(outside, lowered).sites
    assert site.status == "unproven"
    assert site.reason is not None
    assert "'z' is not known" in site.reason


def test_a_pooled_tensor_of_unknown_type() -> None:
    model = ort_gradient([2, 3, 6, 6], kernel_shape=[2, 2])
    lowered = lower(model).model
    for each in (model, lowered):
        for value in (*each.graph.input, *each.graph.output):
            value.ClearField("type")
    found = verify(model, lowered)
    [site] = found.sites
    assert (site.status, found.proven) == ("unproven", False)
    assert site.reason == "the type of 'X' is not known"


@pytest.mark.parametrize(("shape", "runs"), [((2, 64, 48, 48), 2), ((1, 3, 320, 320), 3), ((1, 1, 520, 520), 9)])
def test_a_large_site_runs_until_each_kind_of_data_was_drawn(shape: tuple[int, ...], runs: int) -> None:
    model = ort_gradient(list(shape), kernel_shape=[2, 2], strides=[2, 2])
    [site] = check(model).sites
    assert (site.status, site.runs) == ("proven", runs)
    [site] = verify(model, lower(model), whole_model=False, runs=4).sites
    assert site.runs == 4


def test_constants_in_external_files(tmp_path: Path) -> None:
    model = ModelProto()
    model.CopyFrom(POOL)
    zeros = np.zeros((6, 36), np.float32)
    (tmp_path / "zeros.bin").write_bytes(zeros.tobytes())
    del model.graph.initializer[:]
    model.graph.initializer.extend(held for held in POOL.graph.initializer if held.name not in ("zero", "canvas"))
    tensor = TensorProto(
        name="zeros", data_type=TensorProto.FLOAT, dims=zeros.shape, data_location=TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value="zeros.bin")
    stored = onnx.numpy_helper.from_array(zeros, "zeros")
    expand = next(node for node in model.graph.node if node.op_type == "Expand")
    model.graph.node.remove(expand)
    lowered = ModelProto()
    model.graph.initializer.append(stored)
    lowered.CopyFrom(lower(model).model)
    model.graph.initializer[-1].CopyFrom(tensor)
    assert verify(model, lowered, folder=tmp_path, whole_model=False).proven
    [site] = verify(model, lowered, whole_model=False).sites
    assert site.reason == "'zeros' is in an external file, and no folder is given"
    (tmp_path / "zeros.bin").unlink()
    [site] = verify(model, lowered, folder=tmp_path, whole_model=False).sites
    assert site.reason is not None
    assert site.reason.startswith("'zeros' cannot be read from its external file")


@pytest.mark.parametrize(
    ("options", "message"), [({"runs": 0}, "runs must be 1 or more"), ({"backend": "gpu"}, "unknown backend 'gpu'")]
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        verify(POOL, POOL, **options)  # type: ignore[arg-type]


def test_the_provider_runs_lowered_sites() -> None:
    pytest.importorskip("onnxruntime")
    lowered = lower(POOL).model
    found = verify(POOL, lowered, backend="host")
    assert (found.proven, found.backend) == (True, "host")
    assert found.sites[0].not_drawn == (NO_NAN_POOLED, NO_INFINITE_POOLED)
    node = next(node for node in lowered.graph.node if "Grad" in node.op_type)
    next(attribute for attribute in node.attribute if attribute.name == "strides").ints[2] = 3
    [site] = verify(POOL, lowered, backend="host").sites
    assert site.status != "proven"


def test_types_that_no_data_is_drawn_for() -> None:
    model = parse(
        """g (float[2,3,6,6] x, float[2,3,3,3] dy, float8e5m2[2] t) => (float[2,3,6,6] dx) {
            y, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
            dx = MaxPoolGrad (dy, i)
        }""",
        opset=19,
        ir=9,
    )
    lowered = lower(model, forward=False).model
    next(node for node in lowered.graph.node if "Grad" in node.op_type).input[0] = "t"
    [site] = verify(model, lowered).sites
    assert site.reason == "'t' has an element type for which no data is generated"


def test_names_that_are_no_text() -> None:
    broken = ModelProto.FromString(POOL.SerializeToString().replace(b"dY", b"\xff\xfe"))
    with pytest.raises(InvalidModelError, match="name-not-utf8"):
        verify(broken, POOL)


def test_the_check_does_not_know_the_compiler() -> None:
    """Of this package it may use the dialect, and what knows neither the index of a model nor facts about values."""
    folder = Path(poolgrad_lowering.__file__).parent / "verification"
    allowed = ("dialect", "model.diagnostics", "model.gate", "model.io", "verification")
    data = {f"model.ir.{name}" for name in ("external", "graphs", "metadata", "order", "tensors")}
    for path in folder.rglob("*.py"):
        used = re.findall(
            r"(?:from|import) poolgrad_lowering(?:\.([\w.]+)| import (\w+))", path.read_text(encoding="utf-8")
        )
        for name in {one or other for one, other in used} - data:
            assert any(f"{name}.".startswith(f"{room}.") for room in allowed), (path, name)


def test_page_names_every_field() -> None:
    page = (Path(__file__).parents[3] / "docs" / "verify.md").read_text(encoding="utf-8")
    model = torch_gradient([2, 3, 6, 6], kernel_shape=[2, 2], strides=[2, 2])
    data = verify(model, lower(model).model).to_dict()
    for name in (*data, *data["sites"][0], *(field.name for field in dataclasses.fields(Mismatch))):
        assert f"`{name}`" in page, name
    for reason in (NO_NAN_POOLED, NO_INFINITE_POOLED, ONLY_WHOLE):
        assert reason in page


@pytest.mark.parametrize("text", [b"the-graph", b"the-producer", b"the-model", b"the-description"])
def test_texts_that_nobody_reads_need_not_be_utf_8(text: bytes) -> None:
    """Protobuf returns them as bytes, which it does not take for another message."""
    original = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
    original.graph.name, original.graph.doc_string = "the-graph", "the-description"
    original.producer_name, original.doc_string = "the-producer", "the-model"
    unread = replaced(original, text, text.replace(b"the", b"\xff\xfe\xfd"))
    assert verify(unread, lower(unread).model).proven


def test_results_are_taken_for_their_models() -> None:
    """What `lower` returns can be given as the lowered model; the original is a model."""
    model = torch_gradient([2, 3, 6, 6], kernel_shape=[2, 2], strides=[2, 2])
    result = lower(model)
    found, expected = verify(model, result, whole_model=False), verify(model, result.model, whole_model=False)
    assert found.proven
    assert dataclasses.replace(found, seconds=0) == dataclasses.replace(expected, seconds=0)
    with pytest.raises(TypeError, match="the model is of type str"):
        verify(model, "lowered.onnx")  # type: ignore[arg-type]
    exchanged = verify(result.model, model, whole_model=False)
    assert exchanged.differences[0].what.endswith("they are exchanged, the original is given first")
    other = torch_gradient([2, 3, 6, 6], kernel_shape=[3, 3], strides=[2, 2])
    assert not any("exchanged" in difference.what for difference in verify(model, other).differences)


def test_unrelated_models() -> None:
    """A model without the original's outputs is not the original lowered, which is said before what else differs."""
    model = torch_gradient([2, 3, 6, 6], kernel_shape=[2, 2], strides=[2, 2])
    other = lower(onnx.load(catalogue.entry("ort/ceil").file)).model
    (output,) = (value.name for value in model.graph.output)
    assert verify(model, other, whole_model=False).differences[0].what == (
        f"output '{output}' of the first model is none of the second one: it is not the first one lowered"
    )


def test_a_lowered_model_that_nothing_can_load() -> None:
    """The result of a Div has another name, as exports give scalars; the node that reads it still has the old one."""
    original = ort_gradient([2, 3, 8, 8], kernel_shape=[2, 2], strides=[2, 2])
    original.graph.node.extend(
        [
            helper.make_node("Size", ["X"], ["count"]),
            helper.make_node("Div", ["count", "count"], ["quotient"]),
            helper.make_node("Neg", ["quotient"], ["negative"]),
        ]
    )
    lowered = lower(original).model
    assert verify(original, lowered, whole_model=False).proven
    for node in lowered.graph.node:
        if node.op_type == "Div":
            node.output[0] = "renamed"
    found = verify(original, lowered, whole_model=False)
    assert not found.proven
    assert "the value 'quotient' is not defined (unmade-value)" in found.differences[0].what
