# SPDX-License-Identifier: Apache-2.0

"""The nodes that most bodies have, in ONNX's text syntax."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from onnx import TensorProto


def ints(name: str, numbers: Iterable[int]) -> str:
    """Return the node of a vector of int64 numbers."""
    values = list(numbers)
    return f"{name} = Constant<value = int64[{len(values)}] {{{', '.join(map(str, values))}}}>()\n"


def scalar(name: str, number: float, element_type: int = TensorProto.FLOAT) -> str:
    """Return the nodes of a number of an element type: a constant of 32 or 64 bits, converted to a type of fewer."""
    if element_type == TensorProto.DOUBLE:
        return f"{name} = Constant<value = double {{{float(number)!r}}}>()\n"
    # The text of the float32 nearest to the number.
    text = np.format_float_scientific(np.float32(number), unique=True, trim="0") if number else "0.0"
    if element_type == TensorProto.FLOAT:
        return f"{name} = Constant<value = float {{{text}}}>()\n"
    return scalar(f"{name}_float", number) + cast(name, f"{name}_float", element_type)


def scalars(element_type: int, **numbers: float) -> str:
    """Return the nodes of several numbers of an element type, by name."""
    return "".join(scalar(name, number, element_type) for name, number in numbers.items())


def integer(name: str, number: int, element_type: int = TensorProto.INT64) -> str:
    """Return the nodes of an integer of an element type."""
    if element_type == TensorProto.INT64:
        return f"{name} = Constant<value = int64 {{{number}}}>()\n"
    return integer(f"{name}_long", number) + cast(name, f"{name}_long", element_type)


def reduce(operator: str, result: str, source: str, axes: Sequence[int], *, keep: bool = False) -> str:
    """Return the nodes of a reduction; without axes, of a copy."""
    if not axes:
        return f"{result} = Identity({source})\n"
    return ints(f"{result}_axes", axes) + f"{result} = {operator}<keepdims = {int(keep)}>({source}, {result}_axes)\n"


def reshape(result: str, source: str, shape: Sequence[int]) -> str:
    """Return the nodes of a Reshape to numbers."""
    return ints(f"{result}_shape", shape) + f"{result} = Reshape({source}, {result}_shape)\n"


def as_scalar(result: str, source: str) -> str:
    """Return the nodes of a scalar from a tensor of one element, with which a scalar would become a vector."""
    return reshape(result, source, [])


def unsqueeze(result: str, source: str, axes: Sequence[int]) -> str:
    """Return the nodes of an Unsqueeze; without axes, of a copy."""
    if not axes:
        return f"{result} = Identity({source})\n"
    return ints(f"{result}_axes", axes) + f"{result} = Unsqueeze({source}, {result}_axes)\n"


def transpose(result: str, source: str, order: Iterable[int]) -> str:
    """Return a Transpose node."""
    return f"{result} = Transpose<perm = {list(order)}>({source})\n"


def multiply_along(axis: int, rank: int, source: str, matrix: str) -> tuple[str, str]:
    """Return the nodes of a product of the elements along an axis with a matrix, and the name of its result."""
    order = [*(other for other in range(rank) if other != axis), axis]
    text = transpose(f"last_{axis}", source, order) + f"product_{axis} = MatMul(last_{axis}, {matrix})\n"
    return text + transpose(f"axis_{axis}", f"product_{axis}", map(order.index, range(rank))), f"axis_{axis}"


def cast(result: str, source: str, element_type: int) -> str:
    """Return a Cast node."""
    return f"{result} = Cast<to = {element_type}>({source})\n"
