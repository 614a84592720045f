# SPDX-License-Identifier: Apache-2.0

"""The values of a definition's body. Arithmetic with them, and their methods, add nodes of opset 18 to the body."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, TensorProto, helper

from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode

Array = npt.NDArray[Any]


class BodyNode(NamedTuple):
    """A node of a body."""

    op_type: str
    inputs: tuple[Tensor, ...]
    attributes: list[AttributeProto]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value in a body: one of the graph, of which `source` is the name, a constant, or what a node computes: None.

    `nodes` are those of the body so far. An operand of a method may be a number, for a constant of the tensor's
    element type; integers in a list are a vector of int64. `element_type` is 0 if it is not known.
    """

    nodes: list[BodyNode]
    source: str | Array | None
    element_type: int = 0

    def constant(self, number: float) -> Tensor:
        """Return a number of the element type; raises `Refuse` if it is none."""
        if not math.isfinite(number):
            raise Refuse(DefinitionCode.UNCOVERED_OPERAND, "an attribute of the node: {}", number)
        wide = np.float64 if self.element_type == TensorProto.DOUBLE else np.float32
        value = np.array(number, np.int64 if isinstance(number, int) else wide)
        kind = helper.tensor_dtype_to_np_dtype(self.element_type)
        return Tensor(self.nodes, value.astype(kind), self.element_type)

    def results(
        self, count: int, op_type: str, *operands: Operand, element_type: int | None = None, **attributes: Any
    ) -> tuple[Tensor, ...]:
        """Return the results of a node that reads this tensor first."""
        kind = self.element_type if element_type is None else element_type
        made = tuple(Tensor(self.nodes, None, kind) for _ in range(count))
        written = [helper.make_attribute(name, value) for name, value in attributes.items()]
        self.nodes.append(BodyNode(op_type, (self, *map(self._operand, operands)), written, made))
        return made

    def op(self, op_type: str, *operands: Operand, element_type: int | None = None, **attributes: Any) -> Tensor:
        """Return the result of a node that reads this tensor first."""
        return self.results(1, op_type, *operands, element_type=element_type, **attributes)[0]

    def _operand(self, operand: Operand) -> Tensor:
        if isinstance(operand, Tensor):
            return operand
        if isinstance(operand, np.ndarray):
            return Tensor(self.nodes, operand)
        if isinstance(operand, float | int):
            return self.constant(operand)
        return Tensor(self.nodes, np.array(operand, np.int64), TensorProto.INT64)

    def __add__(self, other: Operand) -> Tensor:
        return self.op("Add", other)

    def __sub__(self, other: Operand) -> Tensor:
        return self.op("Sub", other)

    def __rsub__(self, number: float) -> Tensor:
        return self.constant(number) - self

    def __mul__(self, other: Operand) -> Tensor:
        return self.op("Mul", other)

    def __truediv__(self, other: Operand) -> Tensor:
        return self.op("Div", other)

    def __matmul__(self, other: Operand) -> Tensor:
        return self.op("MatMul", other)

    def __neg__(self) -> Tensor:
        return self.op("Neg")

    def cast(self, element_type: int) -> Tensor:
        """Return the tensor in an element type."""
        return self.op("Cast", to=element_type, element_type=element_type)

    def reduced(self, op_type: str, axes: Sequence[int], *, keep: bool = False) -> Tensor:
        """Return a reduction over axes, if there are any."""
        return self.op(op_type, axes, keepdims=int(keep)) if axes else self

    def total(self) -> Tensor:
        """Return the sum of all elements."""
        return self.op("ReduceSum", keepdims=0)

    def reshape(self, shape: Sequence[int]) -> Tensor:
        """Return the elements in a shape."""
        return self.op("Reshape", shape)

    def unsqueeze(self, axes: Sequence[int]) -> Tensor:
        """Return the tensor with new axes, if there are any."""
        return self.op("Unsqueeze", axes) if axes else self

    def transpose(self, order: Iterable[int]) -> Tensor:
        """Return the tensor with its axes in another order, itself in the same one.

        Releases of onnxruntime take any Transpose behind a Gemm for one of rows and columns.
        """
        axes = list(order)
        return self if axes == sorted(axes) else self.op("Transpose", perm=axes)

    def split(self, axis: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        """Return parts of these sizes."""
        return self.results(len(sizes), "Split", sizes, axis=axis) if len(sizes) > 1 else (self,)

    def part(self, axis: int, start: int, end: int) -> Tensor:
        """Return the elements from `start` to `end` on an axis."""
        return self.op("Slice", [start], [end], [axis])

    def zeros_along(self, axis: int, rank: int) -> Tensor:
        """Return as many zeros, int64, as there are elements on an axis; the elements are numbers, and not of bool."""
        others = [other for other in range(rank) if other != axis]
        row = self.op("Slice", [0] * len(others), [1] * len(others), others) if others else self
        row = row.reshape([-1])
        return row.op("Less", row, element_type=TensorProto.BOOL).cast(TensorProto.INT64)

    def along(self, axis: int, rank: int, matrix: Array) -> Tensor:
        """Return the product of the elements along an axis with a matrix."""
        order = [*(other for other in range(rank) if other != axis), axis]
        return (self.transpose(order) @ matrix).transpose(map(order.index, range(rank)))


Operand: TypeAlias = Tensor | Array | float | Sequence[int]


def joined(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Return tensors one behind the other on an axis."""
    return tensors[0].op("Concat", *tensors[1:], axis=axis) if len(tensors) > 1 else tensors[0]


def where(condition: Tensor, chosen: Operand, other: Tensor) -> Tensor:
    """Return `chosen` where the condition is true, else `other`, of whose element type a number is."""
    value = other.constant(chosen) if isinstance(chosen, float | int) else chosen
    return condition.op("Where", value, other, element_type=other.element_type)


def zeros(shape: Tensor, element_type: int) -> Tensor:
    """Return zeros in a shape."""
    zero = helper.make_tensor("", element_type, [1], [0])
    return shape.op("ConstantOfShape", value=zero, element_type=element_type)
