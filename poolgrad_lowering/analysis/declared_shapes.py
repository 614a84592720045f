"""Shapes as a model declares them, symbols kept."""

from __future__ import annotations

import onnx

from poolgrad_lowering.analysis.shape_rules import opaque
from poolgrad_lowering.ir.dims import Dim, Shape
from poolgrad_lowering.ir.scopes import Scope, Value


def read_shape(value: Value, declared: onnx.TypeProto) -> Shape | None:
    """The shape in a type that is declared (or inferred) for a value; None where the type has none.

    A function's symbols are its own: its callers may mean something else by the same names.
    """
    tensor = declared.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple([_read_dim(dim, value.scope) or opaque(value, axis) for axis, dim in enumerate(tensor.shape.dim[:])])


def _read_dim(dim: onnx.TensorShapeProto.Dimension, scope: Scope) -> Dim | None:
    """The declared size; None where there is none: producers also write -1 and "?" for that."""
    if dim.HasField("dim_value"):
        return Dim(dim.dim_value) if dim.dim_value >= 0 else None
    symbol = str(dim.dim_param)  # protobuf gives bytes where they are not UTF-8
    if not symbol or symbol.startswith("?"):
        return None
    parsed, root = Dim.parse(symbol), scope.root
    prefix = f"{root.path}:" if isinstance(root.proto, onnx.FunctionProto) else ""
    return Dim(parsed.coefficient, tuple(prefix + name for name in parsed.symbols))
