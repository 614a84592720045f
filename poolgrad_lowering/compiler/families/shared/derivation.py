# SPDX-License-Identifier: Apache-2.0

"""How the attributes of a lowered node follow from those of its pool: formulas with numbers, axis by axis."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from poolgrad_lowering.compiler.families.gradient import Gradient
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.dialect.aclnn_windows import AclnnWindow
from poolgrad_lowering.model.ir.dims import Dim, Shape
from poolgrad_lowering.model.windows import AdaptiveWindows, AxisWindow, PoolAttributes, adaptive_bounds

HOLDS = "holds"

_SYMBOL = re.compile(r"\b[a-zA-Z]\b[′″]?")


class Step(NamedTuple):
    """One formula: the quantity (`what`), the formula in symbols and with numbers, and its value.

    `numbers` is None if the formula holds for every size of a symbolic axis. A comparison has the value `HOLDS`.
    """

    what: str
    formula: str
    numbers: str | None
    value: str

    @classmethod
    def of(cls, what: str, formula: str, known: Mapping[str, int | None], value: Dim | int | str) -> Step:
        """Return a step with the symbols of the formula replaced by numbers, if all of them are known."""
        if any(known.get(symbol) is None for symbol in _SYMBOL.findall(formula)):
            return cls(what, formula, None, str(value))
        return cls(what, formula, _SYMBOL.sub(lambda found: str(known[found[0]]), formula), str(value))


class AxisDerivation(NamedTuple):
    """The steps of one spatial axis (`D`, `H` or `W`), in order. `size` is that of x, `pooled` that of the output."""

    axis: str
    size: Dim
    pooled: Dim
    steps: tuple[Step, ...]


class OperandRole(NamedTuple):
    """An operand or result of a lowered node: what it is to the operator, and its name, element type and shape."""

    what: str
    name: str
    element_type: int
    shape: Shape


class Derivation(NamedTuple):
    """The derivation of a site: the pool's windows in ONNX's terms, the operands, and the steps of each axis.

    `rank` is that of x. `forward_axes` is empty if the forward pool is not lowered.
    """

    windows: str
    rank: int
    roles: tuple[OperandRole, ...]
    axes: tuple[AxisDerivation, ...]
    forward_axes: tuple[AxisDerivation, ...] = ()


def window_text(windows: PoolAttributes | AdaptiveWindows) -> str:
    """The pool's windows in ONNX's terms; dilations are left out if they are 1."""
    if isinstance(windows, AdaptiveWindows):
        return "an adaptive pool: window o of an axis spans ⌊o·I / n⌋ … ⌈(o + 1)·I / n⌉ − 1"
    pads = f"pads {windows.auto_pad}" if windows.auto_pad != "NOTSET" else f"pads {_pads(windows)}"
    parts = [f"a pool with kernel {_times(windows.kernel)}", f"strides {_times(windows.strides)}", pads]
    if max(windows.dilations) > 1:
        parts.append(f"dilations {_times(windows.dilations)}")
    return ", ".join([*parts, "rounded up" if windows.ceil else "rounded down"])


def _times(numbers: Sequence[int]) -> str:
    return "×".join(map(str, numbers))


def _pads(windows: PoolAttributes) -> str:
    return "×".join(str(b) if b == e else f"({b}, {e})" for b, e in zip(windows.begins, windows.ends, strict=True))


class Axis(NamedTuple):
    """One axis: sizes of x and the output, the window of the lowered operator with its margins, and its rounding."""

    size: Dim
    pooled: Dim
    chosen: AclnnWindow
    ceil: bool


def derived_axes(
    gradient: Gradient,
    op: LoweredOp,
    windows: Sequence[AclnnWindow] | None,
    steps: Callable[[AxisWindow, Axis], Iterator[Step]],
) -> tuple[AxisDerivation, ...]:
    """Return the derivation of each spatial axis. `windows` are those of the operator; None if it has no attributes.

    `steps` are those from the pool's own windows, with its pads as numbers, to the operator's.
    """
    pool, sizes = gradient.windows, list(zip(gradient.x_shape[2:], gradient.pooled_shape[2:], strict=True))
    found = []
    for number, (name, (size, count)) in enumerate(zip("DHW"[-len(sizes) :], sizes, strict=True)):
        made: list[Step] = []
        if windows is None:
            made += _uneven(size, count)
        elif isinstance(pool, AdaptiveWindows):
            ratio = {"I": size.static, "n": count.static}
            made.append(Step.of("kernel and stride", "I / n", ratio, windows[number].kernel))
        elif (window := pool.axis(number, size)) is not None:
            axis = Axis(size, count, windows[number], op.attributes["ceil_mode"] == 1)
            made += [*_auto_pad(pool, window, axis), *steps(window, axis)]
        found.append(AxisDerivation(name, size, count, tuple(made)))
    return tuple(found)


def chosen_windows(op: LoweredOp, rank: int, pads_of_axis: int = 1) -> list[AclnnWindow] | None:
    """Return the operator's windows for the `rank` spatial axes of x; None if the operator has no window attributes.

    `pads_of_axis` says how many pads the operator has for each axis; they are equal.
    """
    kernels, strides, pads = (op.attributes.get(name) for name in ("ksize", "strides", "pads"))
    if not (isinstance(kernels, list) and isinstance(strides, list) and isinstance(pads, list)):
        return None
    margins = op.canvas or ((0, 0),) * rank
    rows = zip(kernels[-rank:], strides[-rank:], pads[::pads_of_axis][-rank:], margins, strict=True)
    return [AclnnWindow(kernel, stride, pad, *margin) for kernel, stride, pad, margin in rows]


def _auto_pad(pool: PoolAttributes, window: AxisWindow, axis: Axis) -> Iterator[Step]:
    """The pads of SAME_*: their sum t and its halves; the larger half is at the end (UPPER) or the begin (LOWER)."""
    if not pool.auto_pad.startswith("SAME"):
        return
    total = window.begin + window.end
    known = {"I": axis.size.static, "k": window.extent, "s": window.stride}
    formula = "k − 1" if window.stride == 1 else "max((⌈I / s⌉ − 1)·s + k − I, 0)"
    yield Step.of(f"pads of {pool.auto_pad}, sum", formula, known, total)
    small, large = "⌊t / 2⌋", "t − ⌊t / 2⌋"
    begin, end = (large, small) if pool.auto_pad == "SAME_LOWER" else (small, large)
    yield Step.of("begin", begin, {"t": total}, window.begin)
    yield Step.of("end", end, {"t": total}, window.end)


def effective_kernel(window: AxisWindow) -> Step:
    """The number of elements from the first tap of a window to the last."""
    return Step.of("effective kernel k′", "d·(k − 1) + 1", {"d": window.dilation, "k": window.kernel}, window.extent)


def on_canvas(window: AxisWindow, axis: Axis) -> Iterator[Step]:
    """The pool's own windows over a canvas: x with the padding that they reach."""
    chosen = axis.chosen
    known = {"b": window.begin, "s": chosen.stride, "k′": window.extent, "I": axis.size.static, "n": axis.pooled.static}
    yield effective_kernel(window)
    yield Step.of("canvas before", "b", known, chosen.before)
    yield Step.of("canvas after", "max((n − 1)·s + k′ − b − I, 0)", known, chosen.after)
    size = (axis.size.static or 0) + chosen.before + chosen.after
    margins = {"I": axis.size.static, "f": chosen.before, "a": chosen.after}
    yield Step.of("canvas C", "f + I + a", margins, size)
    yield Step.of("kernel", "k′", known, chosen.kernel)
    yield Step.of("padding", "0", {}, chosen.pad)
    yield output_size("C − k′", {"C": size, "k′": window.extent}, axis, chosen.kernel)


def exact(window: AxisWindow, axis: Axis) -> Iterator[Step]:
    """The pool's own windows over x."""
    yield effective_kernel(window)
    yield Step.of("padding p", "b", {"b": window.begin}, axis.chosen.pad)
    yield Step.of("legal", "p ≤ ⌊k / 2⌋", {"p": axis.chosen.pad, "k": window.kernel}, HOLDS)
    yield output_size("I + 2·p − k′", {"p": axis.chosen.pad, "k′": window.extent}, axis, window.extent)


def output_size(span: str, known: dict[str, int], axis: Axis, kernel: int) -> Step:
    """The operator's output size. A window that would start after the input when rounding up is dropped."""
    left, right = "⌈⌉" if axis.ceil else "⌊⌋"
    formula, chosen = f"{left}({span}) / s{right} + 1", axis.chosen
    numbers = {"I": axis.size.static, "s": chosen.stride, **known}
    if axis.size.static is None:
        return Step("output size", formula, None, f"{axis.pooled}, for every size")
    canvas = chosen.before + axis.size.static + chosen.after
    windows = -(-(canvas + 2 * chosen.pad - kernel) // chosen.stride) + 1 if axis.ceil else None
    if windows is not None and str(windows) != str(axis.pooled):
        formula, what = f"{formula} − 1", "output size, without the window that would start after the input"
    else:
        what = "output size"
    return Step.of(what, formula, numbers, axis.pooled)


def _uneven(size: Dim, count: Dim) -> Iterator[Step]:
    """The bounds of window o = n − 1 of an adaptive pool whose sizes do not divide; all windows have these formulas."""
    last = None if not count.static else count.static - 1
    known = {"I": size.static, "n": count.static, "o": last}
    first = None if last is None or size.static is None else adaptive_bounds(last, size.static, last + 1)[0]
    yield Step.of("last window o, first element", "⌊o·I / n⌋", known, "from the shapes" if first is None else first)
    yield Step.of("last window o, end", "⌈(o + 1)·I / n⌉", known, size)
