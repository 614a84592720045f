# SPDX-License-Identifier: Apache-2.0

"""The forms: who writes them, over which pools they exist, and what must become of their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from onnx import TensorProto

from poolgrad_lowering.model.diagnostics.codes import Code
from tests.generators import operators, recorded, reduced
from tests.generators.recorded import Written
from tests.generators.sites import Pooling
from tests.generators.windows import AdaptiveWindows, AxisWindow, PoolWindows, Windows, adaptive_windows, pool_windows
from tests.generators.writer import Writer

FLOAT, HALF, BFLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE


@dataclass(frozen=True)
class Form:
    """A form of gradient.

    `pattern` is the compiler's name for it; `windows` draws what is pooled, of sizes and an opset; `symbols` is what
    of x's shape may be symbols (nothing, the batch, the spatial sizes too); `nests` where
    another pool can follow; `planes` where only one (N, C) is written; `special` where NaN and −inf mean the same to
    the definition and to every operator that the form uses; `declares` what ONNX cannot
    infer, so that exporters write it down: y, dx.
    """

    pattern: str
    write: Callable[[Writer, Pooling, str], Written]
    windows: Callable[[Sequence[int], int], st.SearchStrategy[Windows]]
    ranks: tuple[int, ...] = (1, 2, 3)
    since: int = 9
    element_types: tuple[int, ...] = (FLOAT, HALF)
    symbols: int = 1
    nests: bool = True
    planes: tuple[int, int] | None = None
    special: bool = False
    declares: tuple[str, ...] = ()

    def takes(self, shape: Sequence[int], element_type: int) -> bool:
        """Whether it exists over an x of this shape and type."""
        return (
            len(shape) - 2 in self.ranks
            and self.planes in (None, tuple(shape[:2]))
            and element_type in self.element_types
        )


def _any_windows(sizes: Sequence[int], opset: int) -> st.SearchStrategy[Windows]:
    return pool_windows(sizes, opset=opset, symmetric=False, automatic=True)


def _windows_that_drop(sizes: Sequence[int], opset: int) -> st.SearchStrategy[Windows]:
    return pool_windows(sizes, opset=opset, symmetric=False, automatic=True, drops=True)


def _written_windows(sizes: Sequence[int], opset: int) -> st.SearchStrategy[Windows]:
    """Windows written out by gathers are neither rounded up nor padded automatically."""
    return pool_windows(sizes, opset=opset, symmetric=False, automatic=False).map(
        lambda windows: PoolWindows(tuple(axis._replace(ceil=False) for axis in windows.axes))
    )


def _unpooled_windows(sizes: Sequence[int], opset: int) -> st.SearchStrategy[Windows]:
    """The last window begins before the end of x, so that a kernel of MaxUnpool reaches to it."""

    def begins_inside(windows: PoolWindows) -> bool:
        counts = windows.record(np.zeros((1, 1, *sizes), np.float32))[0].shape[2:]
        return all(
            size > (count - 1) * axis.stride for size, count, axis in zip(sizes, counts, windows.axes, strict=True)
        )

    return _any_windows(sizes, opset).filter(begins_inside)


def _torch_windows(sizes: Sequence[int], opset: int) -> st.SearchStrategy[Windows]:
    return pool_windows(sizes, opset=opset, symmetric=True, automatic=False)


def _tensorflow_windows(sizes: Sequence[int], opset: int) -> st.SearchStrategy[Windows]:
    """No dilation, no ceil mode, one kind of SAME."""

    def plain(windows: PoolWindows) -> PoolWindows:
        axes = tuple(axis._replace(dilation=1, ceil=False) for axis in windows.axes)
        return PoolWindows(axes, "NOTSET" if windows.auto_pad == "SAME_LOWER" else windows.auto_pad)

    return pool_windows(sizes, opset=opset, symmetric=False, automatic=True).map(plain)


def _adaptive_windows(sizes: Sequence[int], _: int) -> st.SearchStrategy[Windows]:
    return adaptive_windows(sizes)


def _whole_planes(sizes: Sequence[int], _: int) -> st.SearchStrategy[Windows]:
    return st.just(AdaptiveWindows((1,) * len(sizes)))


def _one_axis(sizes: Sequence[int], _: int) -> st.SearchStrategy[Windows]:
    return st.integers(0, len(sizes) + 1).map(lambda number: AxisWindow(len(sizes) + 1 - number))


ALL_RANKS = (1, 2, 3, 0, 4)
ALL_TYPES = (FLOAT, HALF, BFLOAT, DOUBLE)
FORMS: dict[str, Form] = {
    "F1": Form(
        "ort_max_pool_grad", recorded.max_pool_grad, _windows_that_drop, element_types=ALL_TYPES, symbols=2,
        special=True, declares=("dx",)),
    "F2": Form(
        "aten_max_pool_grad", operators.aten_pool, _torch_windows, ranks=(2, 3), symbols=2, declares=("y", "dx")),
    "F3": Form(
        "aten_adaptive_max_pool_grad", operators.aten_adaptive_pool, _adaptive_windows, ranks=(2, 3),
        declares=("y", "dx")),
    "F4": Form(
        "torch_scatter_add", recorded.scatter_add, _any_windows, since=16, element_types=ALL_TYPES, special=True
    ),
    "F5": Form("torch_global_max", reduced.global_maximum, _whole_planes, since=16, nests=False),
    "F6": Form("torch_scatter_add", recorded.scatter_nd, _any_windows, since=16, symbols=0, special=True),
    "F7": Form("overwrite_scatter", recorded.overwrite, _any_windows, since=11),
    "F8": Form("max_over_axis", reduced.axis_maximum, _one_axis, ranks=ALL_RANKS, since=11, nests=False),
    "F11": Form(
        "tensorflow_max_pool_grad", operators.tensorflow_pool, _tensorflow_windows, ranks=(2, 3), declares=("dx",)
    ),
    "F11a": Form(
        "tensorflow_max_pool_grad_with_argmax", operators.tensorflow_argmax_pool, _tensorflow_windows, ranks=(2,),
        since=10, declares=("dx",)),
    "F12": Form(
        "decomposed_forward", reduced.written_pool, _written_windows, ranks=(2,), since=18, element_types=(FLOAT,),
        symbols=0, nests=False, planes=(2, 3)),
    "F14": Form(
        "aten_value_selecting_grad", operators.aten_axis, _one_axis, ranks=ALL_RANKS, nests=False, declares=("dx",)
    ),
    "F15": Form("user_symbolic_grad", operators.user_pool, _torch_windows, ranks=(2, 3), since=10, declares=("dx",)),
    "F16": Form(
        "adaptive_window_tables", reduced.written_adaptive_pool, _adaptive_windows, since=18, element_types=(FLOAT,),
        symbols=0, nests=False),
    # onnxruntime has no MaxUnpool of halves: it computes in float32, and drops Casts to and from halves around it.
    "F17": Form("onnx_max_unpool", recorded.unpool, _unpooled_windows, element_types=(FLOAT,)),
}  # fmt: skip
_OVERWRITING = ("F7", "F17")


def refusal(name: str, site: Pooling) -> Code | None:
    """The code with which a gradient has to be refused; None where it has to be lowered."""
    windows = site.windows
    if isinstance(windows, AxisWindow) and windows.axis == 0 and site.dynamic:
        return Code.UNKNOWN_SHAPE
    if isinstance(windows, PoolWindows) and windows.column_major:
        return Code.STORAGE_ORDER
    if loses_gradients(name, site):
        return Code.OVERLAPPING_OVERWRITE
    if site.element_type == DOUBLE:
        return Code.DTYPE
    return _symbolic(windows) if site.symbols == 2 and isinstance(windows, PoolWindows) else None


def _symbolic(windows: PoolWindows) -> Code | None:
    """Why windows cannot be brought into aclnn's contract over a plane of unknown size."""
    if windows.auto_pad.startswith("SAME") and any(axis.stride > 1 for axis in windows.axes):
        return Code.AUTO_PAD_SYMBOLIC
    for axis in windows.axes:
        widest = axis.extent + abs(axis.begin - axis.end)
        if max(axis.begin, axis.end) > widest // 2:
            return Code.SYMBOLIC_CANVAS
        if windows.ceil and axis.begin != axis.end:
            return Code.SYMBOLIC_CEIL
    return None


def loses_gradients(name: str, site: Pooling) -> bool:
    """Whether windows that may share an element are written over each other: that is no gradient."""
    if name not in _OVERWRITING or not isinstance(site.windows, PoolWindows):
        return False
    pairs = zip(site.windows.axes, site.pooled_shape[2:], strict=True)
    return any(count > 1 and axis.extent > axis.stride for axis, count in pairs)
