# SPDX-License-Identifier: Apache-2.0

"""What facts know of the values of a model, what ONNX's own inference does, and facts without that inference."""

from __future__ import annotations

import onnx
import pytest
from onnx import ModelProto, TypeProto

from poolgrad_lowering.model.facts import facts
from poolgrad_lowering.model.facts.known import Known, is_opaque
from poolgrad_lowering.model.ir.dims import Shape
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Value


class _NoInference:
    """Infers nothing, of no node."""

    def __init__(self, *_: object) -> None:
        pass

    def type(self, _: Known, __: Value) -> TypeProto | None:
        """Nothing."""

    def shape(self, _: Known, __: Value) -> Shape | None:
        """Nothing."""


def without_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take ONNX's inference from all facts that are made after this."""
    monkeypatch.setattr(facts, "NodeInference", _NoInference)


Sizes = list[str] | None


def known(model: ModelProto) -> dict[str, tuple[int | None, Sizes]]:
    """The element type and the sizes of each value that the main graph computes; "?" is a size without a name."""
    index = ModelIndex(model)
    found, scope = facts.Facts(index), index.scopes[0]
    values = {name: Value(scope, name) for name in scope.producers}
    return {name: (found.element_type(value), _sizes(found.shape(value))) for name, value in values.items()}


def _sizes(shape: Shape | None) -> Sizes:
    return None if shape is None else ["?" if is_opaque(dim) else str(dim) for dim in shape]


def inferred(model: ModelProto) -> dict[str, tuple[int | None, Sizes]]:
    """The same as onnx infers it for the whole model."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    return {value.name: _of_type(value.type) for value in (*graph.value_info, *graph.output)}


def _of_type(kind: TypeProto) -> tuple[int | None, Sizes]:
    tensor = kind.tensor_type
    dims = [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param for dim in tensor.shape.dim]
    sizes = ["?" if not dim or dim.startswith("unk__") else dim for dim in dims]
    return tensor.elem_type or None, sizes if tensor.HasField("shape") else None
