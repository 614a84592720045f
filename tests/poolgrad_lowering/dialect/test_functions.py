# SPDX-License-Identifier: Apache-2.0

"""The function bodies give the bits of the definition, in onnx's reference evaluator and in onnxruntime."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx
import onnx.inliner
import pytest
from onnx import TensorProto, helper, parser

from poolgrad_lowering.dialect import OPS, NoFunctionBodyError, function_body
from poolgrad_lowering.dialect.op import Maximum
from tests.heads import head
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.poolgrad_lowering.dialect.dialect_models import (
    DTYPES,
    INDEX_DTYPES,
    OP_RANKS,
    expected_y,
    gradient_model,
    random_feeds,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.poolgrad_lowering.dialect.dialect_models import Array

OPSETS = range(9, onnx.defs.onnx_opset_version() + 1)
_CHANGED = {9, 11, 13, 16, 18, OPSETS[-1]}
EACH = [pytest.param(opset, marks=() if opset in _CHANGED else pytest.mark.long) for opset in OPSETS]
"""Those at which an operator of a body changed its form, the newest one, and, in the long tests, the others."""
GENERATIONS = [9, 11, 13, 14, 15, 16, 18]
"""One opset of each spelling, and those where an operator of a spelling changed its form."""

X_SHAPES = {3: (2, 3, 11), 4: (2, 3, 4, 5), 5: (2, 3, 3, 4, 5)}
GRAD_SHAPES = {3: (2, 3, 17), 4: (2, 3, 3, 4), 5: (2, 3, 4, 5, 6)}


def element_types(opset: int) -> list[int]:
    """The types of x that have a body at this opset."""
    return [t for t in DTYPES if t != TensorProto.BFLOAT16 or opset >= 13]


@functools.cache
def newest_ort_opset() -> int:
    """The newest opset that the installed onnxruntime loads."""
    pytest.importorskip("onnxruntime")
    for opset in reversed(OPSETS):
        model = parser.parse_model(f"{head(opset)} g (float[1] x) => (float[1] y) {{ y = Neg(x) }}")
        try:
            run_ort(model, {"x": np.zeros(1, np.float32)})
        except Exception:  # whatever it says, this opset is too new
            continue
        return opset
    raise AssertionError("onnxruntime loads no opset")


def reference_has_bfloat16() -> bool:
    return bool(helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16) == np.dtype(ml_dtypes.bfloat16))


def assert_computes_definition(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> None:
    """Hold both evaluators, as far as each knows the model's opset and type, against the definition."""
    bfloat16 = feeds["x"].dtype == ml_dtypes.bfloat16
    expected = expected_y(feeds)
    if bfloat16:
        feeds = {name: value.astype(np.float32) if name != "argmax" else value for name, value in feeds.items()}
        expected = expected.astype(np.float32)
    if not bfloat16 or reference_has_bfloat16():
        assert_same_bits(run_reference(model, feeds)["y"], expected)
    if model.opset_import[0].version <= newest_ort_opset():
        assert_same_bits(run_ort(model, feeds)["y"], expected)


@pytest.mark.parametrize("opset", EACH)
@pytest.mark.parametrize(("op", "rank"), OP_RANKS)
def test_every_op_rank_and_type(op: str, rank: int, opset: int) -> None:
    for element_type in element_types(opset):
        for index_type, index_dtype in INDEX_DTYPES.items():
            model = gradient_model(op, opset, element_type, index_type, rank)
            onnx.checker.check_model(model, full_check=True)
            feeds = random_feeds(X_SHAPES[rank], GRAD_SHAPES[rank], DTYPES[element_type], index_dtype, seed=opset)
            assert_computes_definition(model, feeds)


@pytest.mark.parametrize(
    ("x_shape", "grad_shape"),
    [
        ((0, 3, 4, 5), (0, 3, 2, 2)),
        ((2, 0, 4, 5), (2, 0, 2, 2)),
        ((2, 3, 0, 5), (2, 3, 0, 2)),
        ((2, 3, 4, 5), (2, 3, 0, 2)),
        ((2, 3, 4, 5), (2, 3, 2, 0)),
    ],
)
@pytest.mark.parametrize("opset", GENERATIONS)
def test_empty_tensors(opset: int, x_shape: tuple[int, ...], grad_shape: tuple[int, ...]) -> None:
    # onnxruntime alone: the Flatten of onnx's reference evaluator cannot make zero planes of a tensor.
    pytest.importorskip("onnxruntime")
    if opset < 14 and 0 in x_shape[1:]:
        pytest.skip("Reshape to a size of zero begins with opset 14")
    for element_type in (TensorProto.FLOAT, TensorProto.FLOAT16):
        feeds = random_feeds(x_shape, grad_shape, DTYPES[element_type])
        model = gradient_model("MaxPool3DGradWithArgmax", opset, element_type)
        assert_same_bits(run_ort(model, feeds)["y"], np.zeros(x_shape, DTYPES[element_type]))


@pytest.mark.parametrize("opset", [11, 16])
def test_index_behind_the_plane_stops_the_run(opset: int) -> None:
    pytest.importorskip("onnxruntime")
    feeds = random_feeds((1, 2, 4, 5), (1, 2, 3, 4))
    feeds["argmax"][0, 0, 0, 0] = 20
    with pytest.raises(Exception, match=r"(?i)ind(ex|ices)"):
        run_ort(gradient_model("AdaptiveMaxPool3DGrad", opset), feeds)


@pytest.mark.parametrize(
    ("op", "opset"),
    [(name, o) for name, op in OPS.items() for o in GENERATIONS if o >= op.bodies[Maximum.SELECTED].oldest],
)
def test_body_declares_the_table(op: str, opset: int) -> None:
    body = function_body(op, opset, [TensorProto.FLOAT])
    described = OPS[op]
    assert (body.domain, body.name) == ("npu", op)
    assert [(o.domain, o.version) for o in body.opset_import] == [("", opset)]
    assert list(body.input) == [operand.name for operand in described.inputs]
    assert list(body.output) == [operand.name for operand in described.outputs]
    assert list(body.attribute) == [a.name for a in described.attributes if a.required]
    defaults: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in body.attribute_proto}
    assert defaults == {a.name: _stored(a.default) for a in described.attributes if not a.required}


@pytest.mark.parametrize(
    ("opset", "element_type", "advice"),
    [
        (8, TensorProto.FLOAT, "opset 9 or newer"),
        (12, TensorProto.BFLOAT16, "opset 13 or newer"),
        (17, TensorProto.DOUBLE, "expected one of FLOAT, FLOAT16, BFLOAT16"),
    ],
)
def test_no_body(opset: int, element_type: int, advice: str) -> None:
    with pytest.raises(NoFunctionBodyError, match=rf"^npu\.AdaptiveMaxPool3DGrad: no body for .*{advice}\.$"):
        function_body("AdaptiveMaxPool3DGrad", opset, [element_type])


def _stored(default: int | str | tuple[int, ...] | None) -> Any:
    """A default of the table as protobuf stores it."""
    if isinstance(default, str):
        return default.encode()
    return list(default) if isinstance(default, tuple) else default


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("opset", [12, 15, 18])
def test_every_node_of_a_body_has_a_name_of_its_own(op: str, opset: int) -> None:
    """onnxruntime names what it fuses after what it replaces, and refuses two nodes of one name."""

    def names(nodes: Any) -> list[str]:
        inner = [name for node in nodes for attribute in node.attribute for name in names(attribute.g.node)]
        return [*(node.name for node in nodes), *inner]

    found = names(function_body(op, opset, [TensorProto.FLOAT]).node)
    assert all(found)
    assert len(set(found)) == len(found)
