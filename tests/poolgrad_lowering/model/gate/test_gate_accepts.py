# SPDX-License-Identifier: Apache-2.0

"""The gate accepts what onnxruntime loads and exporters write, even if onnx.checker rejects it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from poolgrad_lowering import lower, lower_file
from poolgrad_lowering.model.diagnostics.faults import Fault
from poolgrad_lowering.model.ir.tensors import tensor_flaw
from tests.pool_graphs import parse
from tests.poolgrad_lowering.model.gate.bad_models import (
    changed,
    external,
    f,
    function,
    in_branch,
    nested,
    pool,
    training,
)

GOOD: dict[str, ModelProto] = {
    "unsorted nodes": parse("g (float[2] X) => (float[2] Y) { Y = Relu(A) A = Neg(X) }"),
    "a capture that is made later": parse(
        """g (float[2] X, bool c) => (float[2] Z) {
            Y = If(c) <then_branch = yes () => (float[2] T) { T = Relu(A) },
                       else_branch = no () => (float[2] E) { E = Relu(X) }>
            A = Neg(X)
            Z = Relu(Y)
        }"""
    ),
    "an initializer as an input's default": changed(
        lambda m: m.graph.input.append(helper.make_tensor_value_info("W", TensorProto.FLOAT, [2]))
    ),
    "an output twice": parse("g (float[2] X) => (float[2] Y, float[2] Y) { Y = Relu(X) }"),
    "an input as output": parse("g (float[2] X) => (float[2] X) { }"),
    "one version twice": changed(lambda m: m.opset_import.add(domain="", version=16)),
    "branches of the same names": in_branch("yes () => (float[2] E) { E = Neg(A) }"),
    "a branch's value of its node's name": in_branch("yes () => (float[2] Y) { Y = Neg(A) }"),
    "an initializer that hides a value": in_branch("yes () => (float[2] T) <float[2] A = {1.0, 2.0}> { T = Relu(A) }"),
    "an attribute without its default": changed(lambda m: m.graph.node[0].attribute[0].ClearField("f")),
    "a function": function(f("Q = Neg(P)")),
    "an optional input left out": parse("g (float[2] X, float H) => (float[2] Y) { Y = Clip(X, , H) }"),
    "no input where none is required": parse("g () => (float[2] Y) { Y = Constant<value = float[2] {1.0, 2.0}>() }"),
    "a scalar": parse("g (float X) => (float Y) <float W = {1.0}> { Y = Add(X, W) }"),
}


@pytest.mark.parametrize("model", GOOD.values(), ids=GOOD)
def test_passes(model: ModelProto, tmp_path: Path) -> None:
    """The model is accepted and written byte for byte, and onnxruntime loads it."""
    onnxruntime = pytest.importorskip("onnxruntime")
    assert lower(model).model.SerializeToString() == model.SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


UNLOADED: dict[str, ModelProto] = {
    "external data that is not there": external(("location", "w.bin"), ("offset", "4096"), ("length", "8")),
    "external data in a folder": external(("location", "data/w.bin"), ("checksum", "x")),
    "a name with dots": external(("location", "..w.bin..")),
    "as deep as protobuf reads": nested(32),
    "a training step": training("W1 = Add(W, A)"),
    "unsorted nodes in a branch": in_branch("yes () => (float[2] T) { T = Relu(B) B = Neg(A) }"),
    "unsorted nodes in a function": function(f("Q = Neg(R) R = Neg(P)")),
    "an attribute of the function's caller": parse(
        "g (float[1,1,8,8] X) => (Y) { Y = l.f<s = [2, 2]>(X) }",
        imports='"l": 1',
        functions="""<domain: "l", opset_import: ["": 16]> f <s> (P) => (Q) {
            Q = MaxPool<kernel_shape = [2, 2], strides: ints = @s>(P)
        }""",
    ),
    "an attribute of whatever type the function's caller gives": function(
        f("Q = MaxPool<kernel_shape = [2], strides: int = @s>(P)").replace("f (P)", "f <s> (P)")
    ),
    "the largest strides": pool(strides=[2**31 - 1, 2**31 - 1]),
    "a pool with another attribute": pool(auto_pad="VALID"),
    "windows of another operator": parse("g (float[2] X) => (Y) { Y = Unheard<strides = [0], pads = 1>(X) }"),
    "the first format": changed(lambda m: setattr(m, "ir_version", 1)),
    "the newest format": changed(lambda m: setattr(m, "ir_version", onnx.IR_VERSION)),
    "the newest operators": changed(lambda m: setattr(m.opset_import[0], "version", onnx.defs.onnx_opset_version())),
    "others' operators of a high version": changed(lambda m: m.opset_import.add(domain="l", version=999)),
    "a training step's value of the graph's name": training("A = Add(W, W) W1 = Neg(A)"),
    "a branch's value of a later name": parse(
        """g (float[2] X, bool c) => (float[2] Z) {
            Y = If(c) <then_branch = yes () => (T) { Z = Neg(X) T = Neg(Z) }, else_branch = no () => (E) { E = Neg(X) }>
            Z = Neg(Y)
        }"""
    ),
    "a later name behind another node": parse(
        """g (float[2] X, bool c) => (float[2] Z) {
            A = Neg(X)
            Y = If(c) <then_branch = yes () => (T) { Z = Neg(A) T = Neg(Z) }, else_branch = no () => (E) { E = Neg(X) }>
            Z = Neg(Y)
        }"""
    ),
    "operators that nobody knows": parse("g (float[2] X) => (Y) { Y = Unheard<of = 3>(X) }"),
}


@pytest.mark.parametrize("model", UNLOADED.values(), ids=UNLOADED)
def test_passes_here(model: ModelProto) -> None:
    assert lower(model).model.SerializeToString() == model.SerializeToString()


def test_equal_nodes_have_subgraphs_of_their_own(tmp_path: Path) -> None:
    """A file is read by parts, and equal parts are validated once."""
    branches = """then_branch = yes () => (T) { Y, I = MaxPool<kernel_shape = [2, 2]>(X) T = MaxPoolGrad(dY, I) },
                  else_branch = no () => (E) { E = Neg(X) }"""
    model = parse(
        f"g (float[1,1,8,8] X, float[1,1,7,7] dY, bool c) => (A, B) {{ A = If(c) <{branches}> B = If(c) <{branches}> }}"
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    report = lower_file(path, tmp_path / "out.onnx")
    assert [anchor.scope for anchor in report.anchors] == ["main/A.then_branch", "main/B.then_branch"]
    assert report.anchors == lower(model).report.anchors


# -- stored tensors, as onnx itself writes them

_TYPES = sorted(number for name, number in TensorProto.DataType.items() if name not in ("UNDEFINED", "STRING"))


@pytest.mark.parametrize("dims", [[], [0], [1], [5], [2, 3], [3, 0, 2]], ids=str)
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "typed"])
@pytest.mark.parametrize("kind", _TYPES, ids=[TensorProto.DataType.Name(kind) for kind in _TYPES])
def test_tensors_of_every_type(kind: int, raw: bool, dims: list[int]) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    values = np.ones(dims, np.float32).astype(dtype)
    stored = numpy_helper.from_array(values) if raw else helper.make_tensor("t", kind, dims, values.flatten().tolist())
    assert stored.data_type == kind
    assert tensor_flaw(stored) is None
    if not math.prod(dims):
        return
    if raw:
        stored.raw_data += b"\0"
    else:
        field = getattr(stored, helper.tensor_dtype_to_field(kind))
        field.append(field[0])
    flaw = tensor_flaw(stored)
    assert flaw is not None
    assert flaw.fault == Fault.TENSOR_DATA


_SPARSE = helper.make_sparse_tensor(
    helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0]), helper.make_tensor("i", TensorProto.INT64, [1], [0]), [2]
)
_TYPE = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
_ATTRIBUTES = {
    "sparse tensor": _SPARSE,
    "type": _TYPE,
    "floats": [1.0, 2.0],
    "tensors": [numpy_helper.from_array(np.ones(2, np.float32))],
    "graphs": [parse("g (float[2] X) => (float[2] Y) { Y = Neg(X) }").graph],
    "sparse tensors": [_SPARSE],
    "types": [_TYPE],
}


@pytest.mark.parametrize("value", _ATTRIBUTES.values(), ids=_ATTRIBUTES)
def test_attributes_of_every_type(value: Any) -> None:
    """A custom operator may have any, with a description of its own."""
    model = parse("g (float[2] X) => (float[2] Y) { Y = other.Op (X) }", imports='"other": 1')
    model.graph.node[0].attribute.append(helper.make_attribute("a", value, doc_string="what it is for"))
    assert lower(model).model == model
