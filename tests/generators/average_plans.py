# SPDX-License-Identifier: Apache-2.0

"""Random gradients of average pools in every form that is recognised, and what their definition says.

An incoming gradient is small integers times a multiple of all divisors, so that quotients and sums are exact in any
order: a lowered model must give the bits of the definition.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from onnx import TensorProto, helper

Array = npt.NDArray[Any]
FLOAT, HALF, BFLOAT = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16


@dataclass(frozen=True)
class Axis:
    """One spatial axis of x and the windows over it; those of an adaptive pool have a `count` and nothing else."""

    size: int
    kernel: int = 1
    stride: int = 1
    begin: int = 0
    end: int = 0
    adaptive: int = 0

    def windows(self, *, ceil: bool) -> list[range]:
        """The positions of each window, those in the padding too. A window that starts behind x is dropped."""
        if self.adaptive:
            return [
                range(math.floor(o * self.size / self.adaptive), math.ceil((o + 1) * self.size / self.adaptive))
                for o in range(self.adaptive)
            ]
        found = []
        start = -self.begin
        while start + self.kernel <= self.size + self.end or (
            ceil and start < self.size and start + self.kernel < self.size + self.end + self.stride
        ):
            found.append(range(start, start + self.kernel))
            start += self.stride
        return found

    def counts(self, *, ceil: bool, padded: bool) -> list[int]:
        """The number of elements that each window counts."""
        inside = range(-self.begin, self.size + self.end) if padded else range(self.size)
        return [sum(place in inside for place in window) for window in self.windows(ceil=ceil)]

    def contained(self, *, ceil: bool) -> Array:
        """A matrix, elements by windows, of 1 where a window contains an element."""
        windows = self.windows(ceil=ceil)
        return np.array([[float(at in window) for window in windows] for at in range(self.size)]).reshape(
            self.size, len(windows)
        )


@dataclass(frozen=True)
class AveragePlan:
    """A gradient of an average pool in one form. `symbols`: 1 for a symbolic batch, 2 for spatial sizes too.

    `leading` is the number of axes before the spatial ones, `scale` what divides where one divisor is that of all
    windows, `computed` whether nodes compute the constants.
    """

    form: str
    axes: tuple[Axis, ...]
    batch: tuple[int, int] = (2, 3)
    ceil: bool = False
    padded: bool = False
    divisor: int = 0
    auto_pad: str = "NOTSET"
    element_type: int = FLOAT
    opset: int = 17
    symbols: int = 0
    target: str = "atlas-a2"
    bare: bool = False
    leading: int = 2
    scale: str = "div"
    computed: bool = False
    seed: int = field(default=0, compare=False)

    @property
    def x_shape(self) -> tuple[int, ...]:
        """The shape of x, channels second."""
        return (*self.batch, *(axis.size for axis in self.axes))

    @property
    def pooled_shape(self) -> tuple[int, ...]:
        """The shape of the incoming gradient, channels second."""
        return (*self.batch, *(len(axis.windows(ceil=self.ceil)) for axis in self.axes))

    @property
    def channels_last(self) -> bool:
        """Whether the form has the channels last."""
        return self.form == "tensorflow" and not self.bare

    def outer(self, batch: Any) -> list[Any]:
        """The axes before the spatial ones, N being `batch`."""
        return [[self.batch[1]], [batch, self.batch[1]], [batch, 1, self.batch[1]]][self.leading - 1]

    def divisors(self) -> Array:
        """The divisor of each window."""
        if self.divisor:
            return np.full(self.pooled_shape[2:], float(self.divisor))
        found = np.ones(())
        for axis in self.axes:
            found = np.multiply.outer(found, np.array(axis.counts(ceil=self.ceil, padded=self.padded), np.float64))
        return found

    def expected(self, grad: Array) -> Array:
        """The gradient of x, channels second, in float64."""
        found = grad.astype(np.float64) / self.divisors()
        for number, axis in enumerate(self.axes, 2):
            matrix = axis.contained(ceil=self.ceil)
            found = np.moveaxis(np.tensordot(matrix, found, (1, number)), 0, number)
        return found

    def grad(self) -> Array | None:
        """An incoming gradient, float32 and channels second; None if the element type cannot hold it."""
        multiple = math.lcm(*map(int, np.unique(self.divisors()))) if self.divisors().size else 1
        random = np.random.default_rng(self.seed)
        wide = random.integers(-3, 4, self.pooled_shape) * multiple
        held = wide.astype(helper.tensor_dtype_to_np_dtype(self.element_type)).astype(np.float64)
        return wide.astype(np.float32) if np.array_equal(held, wide) else None


def gathered_windows(sizes: Sequence[int], along: Sequence[Sequence[Container[int]]]) -> tuple[Array, Array]:
    """The numbers of the windows of each element, the last one repeated, and the mask of those that are not repeated.

    `sizes` are the spatial ones; `along` has the windows along each axis.
    """
    counts = [len(windows) for windows in along]
    numbers = np.arange(math.prod(counts)).reshape(counts)
    rows = [
        [
            int(numbers[place])
            for place in product(*map(range, counts))
            if all(at in windows[number] for at, windows, number in zip(element, along, place, strict=True))
        ]
        for element in product(*map(range, sizes))
    ]
    most = max(map(len, rows))
    mask = np.array([[tap < len(row) for tap in range(most)] for row in rows])
    return np.array([row + row[-1:] * (most - len(row)) for row in rows]), mask


def has_empty_window(plan: AveragePlan) -> bool:
    """Whether a window has no element of x: its mean is not defined."""
    return any(not count for axis in plan.axes for count in axis.counts(ceil=plan.ceil, padded=False))


def is_drawn(plan: AveragePlan) -> bool:
    """Whether the pool exists: each axis has windows, and none of them is empty."""
    return all(plan.pooled_shape) and not has_empty_window(plan)


FORMS = ("ort", "aten", "tensorflow", "torch", "aten adaptive", "torch adaptive", "resize", "repeat")
SCALES = ("div", "weight", "mul", "behind", "mul behind")


@st.composite
def average_plans(draw: st.DrawFn) -> AveragePlan:
    """Draw a gradient whose pool exists."""
    return draw(_plans().filter(is_drawn))


_RANKS = {"aten": (2, 3), "aten adaptive": (2, 3), "tensorflow": (2, 3)}
_REPEATING, _SPELLED = ("resize", "repeat"), ("torch", "torch adaptive", "resize", "repeat")


@st.composite
def _plans(draw: st.DrawFn) -> AveragePlan:
    form = draw(st.sampled_from(FORMS))
    rank = draw(st.sampled_from(_RANKS.get(form, (1, 2, 3))))
    largest = {1: 14, 2: 9, 3: 5}[rank]
    if draw(st.integers(0, 9)) == 0 and rank == 2:
        largest = 13
    plan = AveragePlan(
        form,
        tuple(draw(_axes(form, largest, is_last=number == rank - 1)) for number in range(rank)),
        batch=(draw(st.integers(1, 2)), draw(st.integers(1, 3))),
        target=draw(st.sampled_from(("atlas-a2", "ascend950"))),
        element_type=draw(st.sampled_from((FLOAT, FLOAT, HALF, BFLOAT))),
        opset=draw(st.sampled_from((11, 12, 13, 14, 15, 17, 18, 19, 21, 22))),
        symbols=draw(st.integers(0, 2 if form in ("ort", "aten", "aten adaptive") else 1)),
        bare=draw(st.booleans()),
        seed=draw(st.integers(0, 1000)),
    )
    if plan.element_type == BFLOAT and plan.opset < 13:
        plan = replace(plan, element_type=FLOAT)
    return draw(_counting(draw(_spelling(plan))))


@st.composite
def _axes(draw: st.DrawFn, form: str, largest: int, *, is_last: bool) -> Axis:
    size = draw(st.integers(1, largest))
    if form in _REPEATING:
        kernel = draw(st.integers(2 if is_last else 1, 4))  # the last one repeats
        return Axis(size * kernel, kernel, kernel)
    if "adaptive" in form:
        return Axis(size, adaptive=draw(st.integers(1, largest if form == "aten adaptive" else size)))
    is_equal = form in ("aten", "torch")
    kernel = draw(st.integers(1, min(size + 2, largest)))
    most = kernel // 2 if is_equal else kernel - 1
    begin = draw(st.integers(0, most))
    return Axis(size, kernel, draw(st.integers(1, 4)), begin, begin if is_equal else draw(st.integers(0, most)))


@st.composite
def _spelling(draw: st.DrawFn, plan: AveragePlan) -> AveragePlan:
    """Draw the axes before the spatial ones, and where the constants are."""
    if plan.form not in ("ort", "tensorflow"):
        leading = draw(st.integers(1, 2 if "aten" in plan.form else 3))
        plan = replace(plan, leading=leading, batch=(plan.batch[0] if leading > 1 else 1, plan.batch[1]))
    if plan.form in _SPELLED:
        plan = replace(plan, scale=draw(st.sampled_from(SCALES)), computed=draw(st.booleans()))
    return plan


@st.composite
def _counting(draw: st.DrawFn, plan: AveragePlan) -> AveragePlan:
    """Draw the rounding, what counts, and the pads."""
    form = plan.form
    if "adaptive" in form or form in _REPEATING:
        return plan
    if form != "tensorflow":
        plan = replace(plan, ceil=draw(st.booleans()), padded=draw(st.booleans()))
    if form in ("aten", "torch") and draw(st.integers(0, 3)) == 0:
        plan = replace(plan, divisor=draw(st.integers(1, 7)))
    if form == "tensorflow" or (form == "ort" and draw(st.integers(0, 3)) == 0):
        automatic = ("VALID", "SAME_UPPER") if form == "tensorflow" else ("VALID", "SAME_UPPER", "SAME_LOWER")
        plan = _automatic(plan, draw(st.sampled_from(automatic)))
    return plan


def _automatic(plan: AveragePlan, auto_pad: str) -> AveragePlan:
    axes = []
    for axis in plan.axes:
        total = 0
        if auto_pad != "VALID":
            total = max((math.ceil(axis.size / axis.stride) - 1) * axis.stride + axis.kernel - axis.size, 0)
        small = total // 2
        begin = total - small if auto_pad == "SAME_LOWER" else small
        axes.append(replace(axis, begin=begin, end=total - begin))
    return replace(plan, axes=tuple(axes), auto_pad=auto_pad, ceil=False)
