# SPDX-License-Identifier: Apache-2.0

"""Shapes as a model declares them, with symbols."""

from __future__ import annotations

import onnx

from poolgrad_lowering.model.facts.shape_rules import opaque
from poolgrad_lowering.model.ir.dims import Dim, Shape
from poolgrad_lowering.model.ir.scopes import Scope, Value

_UNNAMED = "?"
"""Begins the names of sizes that have none: a name of a model with it is not read."""


def read_shape(value: Value, declared: onnx.TypeProto) -> Shape | None:
    """Return the shape in a declared type of a value; None if the type has none.

    Symbols of a function are local to it: the same name in a caller can be another size.
    """
    tensor = declared.tensor_type
    if not tensor.HasField("shape"):
        return None
    dims = enumerate(tensor.shape.dim[:])
    return tuple([_read_dim(dim, value.scope) or opaque(value, axis) for axis, dim in dims])


def _read_dim(dim: onnx.TensorShapeProto.Dimension, scope: Scope) -> Dim | None:
    """Return the declared size; None if there is none, which producers also write as -1 or "?"."""
    if dim.HasField("dim_value"):
        return Dim(dim.dim_value) if dim.dim_value >= 0 else None
    symbol = str(dim.dim_param)  # protobuf returns bytes if it is not UTF-8
    if not symbol or _UNNAMED in symbol:
        return None
    parsed, root = Dim.parse(symbol), scope.root
    prefix = f"{root.path}:" if isinstance(root.proto, onnx.FunctionProto) else ""
    return Dim(parsed.coefficient, tuple(prefix + name for name in parsed.symbols))
