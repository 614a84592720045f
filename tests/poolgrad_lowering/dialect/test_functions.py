# SPDX-License-Identifier: Apache-2.0

"""The function bodies give the bits of the definition, in onnx's reference evaluator and in onnxruntime."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import onnx
import onnx.inliner
import pytest
from onnx import TensorProto, helper, parser

from poolgrad_lowering.dialect import NoFunctionBodyError, function_body
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


@pytest.mark.parametrize("opset", [11, 16])
def test_index_behind_the_plane_stops_the_run(opset: int) -> None:
    pytest.importorskip("onnxruntime")
    feeds = random_feeds((1, 2, 4, 5), (1, 2, 3, 4))
    feeds["argmax"][0, 0, 0, 0] = 20
    with pytest.raises(Exception, match=r"(?i)ind(ex|ices)"):
        run_ort(gradient_model("AdaptiveMaxPool3DGrad", opset), feeds)


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
