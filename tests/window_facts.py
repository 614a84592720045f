# SPDX-License-Identifier: Apache-2.0

"""What a pool of one axis records and what aclnn makes of its windows, written from the definitions by counting."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from onnx import TensorProto

from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families.gradient import Operand
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.dialect.targets import Target
from poolgrad_lowering.model.diagnostics.codes import Refusal, attempt
from poolgrad_lowering.model.diagnostics.diagnostic import Diagnostic
from poolgrad_lowering.model.ir.dims import Dim
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Value
from poolgrad_lowering.model.windows import AdaptiveWindows, PoolAttributes
from tests.pool_graphs import parse

_SCOPE = ModelIndex(parse("g (float[1] x) => (y) { y = Relu(x) }")).scopes[0]


class Axis(NamedTuple):
    """An ONNX pool along one axis."""

    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    ceil: bool

    @property
    def extent(self) -> int:
        return (self.kernel - 1) * self.dilation + 1

    def starts(self, size: int) -> list[int]:
        """Where windows start.

        Rounded down, those that fit. Rounded up, also one that reaches beyond the end, and then the last is dropped
        if it starts behind the input.
        """
        last = size + self.end - self.extent
        starts = list(range(-self.begin, last + 1, self.stride))
        if self.ceil and starts and starts[-1] < last:
            starts.append(starts[-1] + self.stride)
        return starts[:-1] if self.ceil and starts and starts[-1] >= size else starts

    def taps(self, size: int) -> list[list[int]]:
        """For each window, the positions that it can record."""
        reach = self.kernel * self.dilation
        return [
            [tap for tap in range(start, start + reach, self.dilation) if 0 <= tap < size]
            for start in self.starts(size)
        ]


def axes() -> Iterator[Axis]:
    """Kernel ≤ 5, stride ≤ 4, dilation ≤ 3, pads ≤ 3, both roundings."""
    for values in itertools.product(range(1, 6), range(1, 5), range(1, 4), range(4), range(4), (False, True)):
        yield Axis(*values)


def aclnn_count(size: int, kernel: int, stride: int, pad: int, *, ceil: bool) -> int:
    """CANN documentation of aclnnMaxPool2dWithIndices, output shape, with its rule on the last window; dilation 1."""
    count = (size + 2 * pad - (kernel - 1) - 1 + (stride - 1 if ceil else 0)) // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= size + pad else count


def refusal_code(
    select: Callable[[MaxPoolGradient, Target], LoweredOp], gradient: MaxPoolGradient, target: Target
) -> Diagnostic | None:
    """Why a target has no operator for a gradient or its pool; None where it has one."""
    selected = attempt(select, gradient, target)
    return selected.code if isinstance(selected, Refusal) else None


def gradient_of(
    axes: list[Axis],
    sizes: list[int | str],
    counts: list[int | str],
    *,
    element_type: int = TensorProto.FLOAT,
    auto_pad: str = "NOTSET",
) -> MaxPoolGradient:
    """A proven gradient of a pool with these axes, which share their rounding."""
    windows = PoolAttributes(
        kernel=tuple(axis.kernel for axis in axes),
        strides=tuple(axis.stride for axis in axes),
        begins=tuple(axis.begin for axis in axes),
        ends=tuple(axis.end for axis in axes),
        dilations=tuple(axis.dilation for axis in axes),
        ceil=axes[0].ceil,
        auto_pad=auto_pad,
        storage_order=0,
    )
    return _gradient(windows, sizes, counts, element_type)


def adaptive_gradient(
    sizes: list[int | str], counts: list[int | str], *, element_type: int = TensorProto.FLOAT
) -> MaxPoolGradient:
    """A proven gradient of adaptive pooling."""
    return _gradient(AdaptiveWindows(), sizes, counts, element_type)


def _gradient(
    windows: PoolAttributes | AdaptiveWindows, sizes: list[int | str], counts: list[int | str], element_type: int
) -> MaxPoolGradient:
    head = (Dim.parse("N"), Dim(3))
    x_shape, pooled = (
        head + tuple(Dim(extent) if isinstance(extent, int) else Dim.parse(extent) for extent in extents)
        for extents in (sizes, counts)
    )
    x, grad, argmax, dx = (Operand(Value(_SCOPE, name)) for name in ("x", "grad", "argmax", "dx"))
    return MaxPoolGradient(
        x=x,
        grad=grad,
        argmax=argmax,
        dx=dx,
        numbering=Numbering.TENSOR,
        element_type=element_type,
        windows=windows,
        x_shape=x_shape,
        pooled_shape=pooled,
    )
