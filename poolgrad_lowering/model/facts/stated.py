# SPDX-License-Identifier: Apache-2.0

"""What a model states of its values: the constants that it stores, inside or in external data, and declared shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from poolgrad_lowering.model.facts.known import opaque
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.dims import Dim, Shape
from poolgrad_lowering.model.ir.scopes import Scope, Value
from poolgrad_lowering.model.ir.tensors import constant_tensor

MAX_CONSTANT = 1 << 16


def stored_tensor(value: Value) -> TensorProto | None:
    """Return the tensor of a constant (a Constant's, or an initializer that is not also an input), or None."""
    if value.name in value.scope.inputs:
        return None
    node = value.producer
    if node is None:
        return value.scope.initializer(value.name)
    return constant_tensor(node.proto) if node.is_a("Constant") else None


def default_tensor(value: Value) -> TensorProto | None:
    """Return the default of an input of the main graph, an initializer of its name, or None."""
    scope = value.scope
    return scope.initializer(value.name) if scope.parent is None and value.name in scope.inputs else None


def small_array(tensor: TensorProto, external: ExternalData, limit: int = MAX_CONSTANT) -> np.ndarray[Any, Any] | None:
    """Return a tensor's value; None if it has more elements than `limit` or is malformed. Raises `UnreadableError`."""
    if math.prod(tensor.dims) > limit:
        return None
    if tensor.data_location == TensorProto.EXTERNAL:
        tensor = external.inlined(tensor)
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError):
        return None


def all_bits_clear(tensor: TensorProto, external: ExternalData) -> bool:
    """Whether all stored bytes of the tensor are zero. External data is read in blocks. Raises `UnreadableError`."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return external.is_zero(tensor)
    if tensor.raw_data:
        return tensor.raw_data.count(0) == len(tensor.raw_data)
    array = small_array(tensor, external)
    return array is not None and bits_clear(array)


def bits_clear(array: np.ndarray[Any, Any]) -> bool:
    """Whether every element is +0.0, or an integer zero."""
    return not array.dtype.hasobject and not np.any(np.atleast_1d(array).view(np.uint8))


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
