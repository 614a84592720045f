# SPDX-License-Identifier: Apache-2.0

"""The entry points: the same result for the same model, in any representation, and only this package's errors."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable

import onnx
import pytest
from onnx import ModelProto

import poolgrad_lowering
from models import catalogue
from poolgrad_lowering import UnknownTargetError, inspect, lower
from tests.harness.processes import environment
from tests.pool_graphs import graph_table, ort_gradient, parse, torch_gradient

SMALL = [entry for entry in catalogue.entries() if entry.file.stat().st_size < 200_000]
F1 = {"kernel_shape": [2, 2], "strides": [2, 2]}


def only_anchor(model: ModelProto) -> poolgrad_lowering.AnchorReport:
    before = model.SerializeToString()
    result = lower(model)
    [anchor] = result.report.anchors
    assert anchor.status == "lowered" or result.model.SerializeToString() == before
    return anchor


def test_unknown_target() -> None:
    with pytest.raises(UnknownTargetError):
        lower(ModelProto(), target="Ascend910")
    with pytest.raises(ValueError, match="Ascend910"):
        inspect(ModelProto(), target="Ascend910")


def test_inspect_is_the_report_of_lower() -> None:
    model = torch_gradient([2, 3, 4, 4], **F1)
    before = model.SerializeToString()
    found, expected = inspect(model, target="ascend950").to_dict(), lower(model, target="ascend950").report.to_dict()
    del found["summary"]["seconds"], expected["summary"]["seconds"]
    assert found == expected
    assert model.SerializeToString() == before


TWO = parse(
    """g (float[2,3,8,8] X, float[2,3,4,4] dY, int64[2,3,4,4] J) => (float[2,3,8,8] A, float[2,3,8,8] B) {
        Y, I = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (X)
        A = MaxPoolGrad (dY, I)
        B = MaxPoolGrad (dY, J)
    }"""
)
"""A gradient, and one whose indices nobody has recorded."""


def test_what_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "poolgrad_lowering.compiler.lowering"):
        lowered, refused = lower(TWO).report.anchors
    assert caplog.messages == [
        f"{lowered.site} lowered: MaxPool3DGradWithArgmax",
        f"{refused.site} refused: indices-source, {refused.reason}",
        "lowered 1 of 2 anchors for atlas-a2",
    ]


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    script = (
        "import hashlib, sys, onnx, poolgrad_lowering as p\n"
        "for path in sys.argv[1:]:\n"
        "    print(hashlib.sha256(p.lower(onnx.load(path)).model.SerializeToString()).hexdigest())\n"
    )
    paths = [str(entry.file) for entry in SMALL[::4]]
    sums = [
        subprocess.run(
            [sys.executable, "-c", script, *paths],
            env=environment() | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "4242")
    ]
    assert len(sums[0].split()) == len(paths) > 5
    assert sums[0] == sums[1] == sums[2]


# -- odd models: a verdict or an InvalidModelError, never another exception


def set_size(model: ModelProto, size: int) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = size
    model.graph.output[0].type.tensor_type.ClearField("shape")


def without_result(model: ModelProto) -> None:
    model.graph.node[1].ClearField("output")
    model.graph.output[0].name = "Y"


def of_the_pool(name: str, numbers: list[int]) -> Callable[[ModelProto], None]:
    """Give an attribute of the pool these numbers."""

    def change(model: ModelProto) -> None:
        node = model.graph.node[0]
        kept = [attribute for attribute in node.attribute if attribute.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, onnx.helper.make_attribute(name, numbers)])

    return change


CHANGES: dict[str, tuple[Callable[[ModelProto], object], str | None]] = {
    "unknown batch": (lambda model: set_size(model, -1), None),
    "empty batch": (lambda model: set_size(model, 0), "grad-shape"),
    "no type": (lambda model: model.graph.input[0].type.Clear(), "unknown-dtype"),
    "unknown type": (lambda model: setattr(model.graph.input[0].type.tensor_type, "elem_type", 77), "dtype-mix"),
    "no inputs": (lambda model: model.graph.node[1].ClearField("input"), "arity"),
    "empty input": (lambda model: model.graph.node[1].input.__setitem__(0, ""), "arity"),
    "no outputs": (without_result, "arity"),
    "pooled instead of indices": (lambda model: model.graph.node[1].input.__setitem__(1, "Y"), "indices-source"),
    "huge strides": (of_the_pool("strides", [2**31 - 1] * 2), "grad-shape"),
    "huge pads": (of_the_pool("pads", [2**31 - 1] * 4), "grad-shape"),
    "kernel beyond the input": (of_the_pool("kernel_shape", [99, 99]), "output-size"),
    "fewer axes than the kernel": (of_the_pool("kernel_shape", [2]), "pool-attributes"),
    "rank one": (
        lambda model: model.graph.input[0].type.tensor_type.shape.dim.__delitem__(slice(1, None)),
        "pool-attributes",
    ),
}


@pytest.mark.parametrize(("change", "code"), CHANGES.values(), ids=CHANGES)
def test_odd_changes(change: Callable[[ModelProto], object], code: str | None) -> None:
    model = ort_gradient([2, 3, 8, 8], **F1)
    model.graph.node[1].ClearField("attribute")  # older releases of onnxruntime wrote none
    change(model)
    assert only_anchor(model).code == code


ODD = graph_table(
    """
scatter of scalars: rows-not-planes
    g (float[1,1,8] X, float dY) => (dX) {
        Y, I = MaxPool<kernel_shape = [8]>(X)
        zero = Constant<value_float = 0.0>()
        index = Squeeze(I)
        dX = ScatterElements<axis = -1, reduction = "add">(zero, index, dY)
    }
scatter onto text: base-not-zero
    g (float[1,1,8] X, string[1,1,1] dY) => (dX) {
        Y, I = MaxPool<kernel_shape = [8]>(X)
        text = Constant<value = string[1] {""}>()
        dX = ScatterElements<axis = -1, reduction = "add">(text, I, dY)
    }
callers attributes: indices-source
    g (float[2,3,8,8] X, float[2,3,4,4] dY) => (dX) { dX = l.f<s = [2, 2]>(X, dY) }
    <domain: "l", opset_import: ["": 16]> f <s>(X, dY) => (dX) {
        Z = Cast<to = 1>(X)
        Y, I = MaxPool<kernel_shape = [2, 2], strides: ints = @s>(Z)
        dX = MaxPoolGrad(dY, I)
    }
""",
    imports='"l": 1',
)


@pytest.mark.parametrize(("model", "code"), ODD.values(), ids=ODD)
def test_odd_models(model: ModelProto, code: str) -> None:
    assert only_anchor(model).code == code


def test_symbols_that_are_not_utf8() -> None:
    """Text that names no value does not stand in the way."""
    model = ort_gradient([2, 3, 8, 8], **F1)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "BB"
    data = model.SerializeToString().replace(b"BB", b"\xff\xfe")
    assert [anchor.status for anchor in lower(ModelProto.FromString(data)).report.anchors] == ["lowered"]


def test_ten_thousand_nodes_deep() -> None:
    nodes = "".join(f"a{number + 1} = Relu(a{number}) " for number in range(10_000))
    model = parse(
        f"""g (float[2,3,8,8] a0, float[2,3,4,4] dY) => (dX) {{
            {nodes}
            Y, I = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(a10000)
            dX = MaxPoolGrad(dY, I)
        }}"""
    )
    assert only_anchor(model).status == "lowered"


def test_a_deep_chain_of_views() -> None:
    """Longer than any producer writes, and longer than is followed: a refusal, not a recursion error."""
    nodes = "".join(f"I{number + 1} = Identity(I{number}) " for number in range(5_000))
    model = parse(
        f"""g (float[2,3,8,8] X, float[2,3,4,4] dY) => (dX) {{
            Y, I0 = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X)
            {nodes}
            dX = MaxPoolGrad(dY, I5000)
        }}"""
    )
    assert only_anchor(model).code == "indices-source"
