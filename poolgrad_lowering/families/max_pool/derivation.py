# SPDX-License-Identifier: Apache-2.0

"""The derivation of a site's attributes from those of its max pool.

The formulas are those of `windows` and `legality.pools`; a test compares their values with the lowered operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx import TensorProto

from poolgrad_lowering.families.derivation import HOLDS, AxisDerivation, Derivation, OperandRole, Step
from poolgrad_lowering.families.max_pool.gradient import AdaptiveWindows, MaxPoolGradient
from poolgrad_lowering.families.verdicts import Lowered, LoweredOp
from poolgrad_lowering.ir.dims import Dim
from poolgrad_lowering.windows.aclnn import AclnnWindow, widened
from poolgrad_lowering.windows.axis import AxisWindow, adaptive_bounds
from poolgrad_lowering.windows.onnx_pool import PoolAttributes


def derivation(site: Lowered[MaxPoolGradient]) -> Derivation:
    """Return the derivation of the lowered gradient, and of its forward pool if that is lowered too."""
    gradient, forward = site.gradient, site.forward
    return Derivation(
        _windows(gradient.windows),
        len(gradient.x_shape),
        _roles(gradient),
        _axes(gradient, site.op, forward=False),
        _axes(gradient, forward, forward=True) if isinstance(forward, LoweredOp) else (),
    )


def _roles(gradient: MaxPoolGradient) -> tuple[OperandRole, ...]:
    floats, x_shape, pooled_shape = gradient.element_type, gradient.x_shape, gradient.pooled_shape
    return (
        OperandRole("x, the pooled input", gradient.x.value.name, floats, x_shape),
        OperandRole("grad, the incoming gradient", gradient.grad.value.name, floats, pooled_shape),
        OperandRole("argmax, the indices", gradient.indices.value.name, TensorProto.INT32, pooled_shape),
        OperandRole("y, the gradient of x", gradient.dx.value.name, floats, x_shape),
    )


def _windows(windows: PoolAttributes | AdaptiveWindows) -> str:
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


@dataclass(frozen=True)
class _Axis:
    """One axis: sizes of x and the output, the window of the lowered operator with its margins, and its rounding."""

    number: int
    size: Dim
    count: Dim
    chosen: AclnnWindow
    ceil: bool


def _axes(gradient: MaxPoolGradient, op: LoweredOp, *, forward: bool) -> tuple[AxisDerivation, ...]:
    sizes = list(zip(gradient.x_shape[2:], gradient.pooled_shape[2:], strict=True))
    windows = _chosen(op, len(sizes))
    found = []
    for number, (name, (size, count)) in enumerate(zip("DHW"[-len(sizes) :], sizes, strict=True)):
        if windows is None:
            steps = _uneven(size, count)
        else:
            axis = _Axis(number, size, count, windows[number], op.attributes["ceil_mode"] == 1)
            steps = _steps(gradient, axis, forward=forward)
        found.append(AxisDerivation(name, size, count, tuple(steps)))
    return tuple(found)


def _chosen(op: LoweredOp, rank: int) -> list[AclnnWindow] | None:
    """The lowered operator's windows for the spatial axes of x; None if the operator has no window attributes."""
    kernels, strides, pads = (op.attributes.get(name) for name in ("ksize", "strides", "pads"))
    if not (isinstance(kernels, list) and isinstance(strides, list) and isinstance(pads, list)):
        return None
    margins = op.canvas or ((0, 0),) * rank
    rows = zip(kernels[-rank:], strides[-rank:], pads[-rank:], margins, strict=True)
    return [AclnnWindow(kernel, stride, pad, *margin) for kernel, stride, pad, margin in rows]


def _steps(gradient: MaxPoolGradient, axis: _Axis, *, forward: bool) -> Iterator[Step]:
    if isinstance(gradient.windows, AdaptiveWindows):
        ratio = {"I": axis.size.static, "n": axis.count.static}
        yield Step.of("kernel and stride", "I / n", ratio, axis.chosen.kernel)
        return
    window = gradient.windows.axis(axis.number, axis.size)
    if window is None:
        return
    yield from _auto_pad(gradient.windows, window, axis)
    if forward:
        yield from _forward(window, axis)
    elif (axis.chosen.kernel, axis.chosen.pad) == (widened(window).kernel, widened(window).pad):
        yield from _direct(window, axis)
    else:
        yield from _canvas(window, axis)


def _auto_pad(pool: PoolAttributes, window: AxisWindow, axis: _Axis) -> Iterator[Step]:
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


def _dilated(window: AxisWindow) -> Step:
    return Step.of("effective kernel k′", "d·(k − 1) + 1", {"d": window.dilation, "k": window.kernel}, window.extent)


def _direct(window: AxisWindow, axis: _Axis) -> Iterator[Step]:
    kernel, pad, ends = axis.chosen.kernel, axis.chosen.pad, {"b": window.begin, "e": window.end}
    yield _dilated(window)
    yield Step.of("padding p", "max(b, e)", ends, pad)
    yield Step.of("kernel k″", "k′ + |b − e|", {"k′": window.extent, **ends}, kernel)
    yield Step.of("legal", "p ≤ ⌊k″ / 2⌋", {"p": pad, "k″": kernel}, HOLDS)
    yield _output_size("I + 2·p − k″", {"p": pad, "k″": kernel}, axis, kernel)


def _canvas(window: AxisWindow, axis: _Axis) -> Iterator[Step]:
    chosen = axis.chosen
    known = {"b": window.begin, "s": chosen.stride, "k′": window.extent, "I": axis.size.static, "n": axis.count.static}
    yield _dilated(window)
    yield Step.of("canvas before", "b", known, chosen.before)
    yield Step.of("canvas after", "max((n − 1)·s + k′ − b − I, 0)", known, chosen.after)
    size = (axis.size.static or 0) + chosen.before + chosen.after
    margins = {"I": axis.size.static, "f": chosen.before, "a": chosen.after}
    yield Step.of("canvas C", "f + I + a", margins, size)
    yield Step.of("kernel", "k′", known, chosen.kernel)
    yield Step.of("padding", "0", {}, chosen.pad)
    yield _output_size("C − k′", {"C": size, "k′": window.extent}, axis, chosen.kernel)


def _forward(window: AxisWindow, axis: _Axis) -> Iterator[Step]:
    yield _dilated(window)
    yield Step.of("padding p", "b", {"b": window.begin}, axis.chosen.pad)
    yield Step.of("legal", "p ≤ ⌊k / 2⌋", {"p": axis.chosen.pad, "k": window.kernel}, HOLDS)
    yield _output_size("I + 2·p − k′", {"p": axis.chosen.pad, "k′": window.extent}, axis, window.extent)


def _output_size(span: str, known: dict[str, int], axis: _Axis, kernel: int) -> Step:
    """The operator's output size. A window that would start after the input when rounding up is dropped."""
    left, right = "⌈⌉" if axis.ceil else "⌊⌋"
    formula, chosen = f"{left}({span}) / s{right} + 1", axis.chosen
    numbers = {"I": axis.size.static, "s": chosen.stride, **known}
    if axis.size.static is None:
        return Step("output size", formula, None, f"{axis.count}, for every size")
    canvas = chosen.before + axis.size.static + chosen.after
    windows = -(-(canvas + 2 * chosen.pad - kernel) // chosen.stride) + 1 if axis.ceil else None
    if windows is not None and str(windows) != str(axis.count):
        formula, what = f"{formula} − 1", "output size, without the window that would start after the input"
    else:
        what = "output size"
    return Step.of(what, formula, numbers, axis.count)


def _uneven(size: Dim, count: Dim) -> Iterator[Step]:
    """The bounds of window o = n − 1 of an adaptive pool whose sizes do not divide; all windows have these formulas."""
    last = None if not count.static else count.static - 1
    known = {"I": size.static, "n": count.static, "o": last}
    first = None if last is None or size.static is None else adaptive_bounds(last, size.static, last + 1)[0]
    yield Step.of("last window o, first element", "⌊o·I / n⌋", known, "from the shapes" if first is None else first)
    yield Step.of("last window o, end", "⌈(o + 1)·I / n⌉", known, size)
