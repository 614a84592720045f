# SPDX-License-Identifier: Apache-2.0

"""How calls of torch_npu and of sessions differ for the same pool, and why: the table of docs/torch-npu.md.

A difference of two calls is a function that makes torch_npu's call the session's. All differences of a call, one after
the other, must give the session's call exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.torch_npu.pools import Pool

Call = dict[str, Any]
"""`function`, the attributes, and of each tensor `NAME.viewDims` and so on; all as in the trace."""

BACKWARD = "Backward"
EVERY_CALL = "all that are compared"
NO_OTHER = "equal but for the storage"
WITH_WORKSPACE = "with a workspace"
MASK = "aclnnMaxPool2dWithMask"
TENSORS = ("gradOutput", "self", "indices", "gradInput", "out")
NCHW, NCDHW = 0, 30
INT32, INT64 = 3, 9


@dataclass(frozen=True)
class Context:
    """A pool on a product; `is_950` or Atlas A2 and A3."""

    pool: Pool
    is_950: bool

    @property
    def divides(self) -> bool:
        """Whether an adaptive pool's windows are those of a pool with windows of one size, side by side."""
        sizes = zip(self.pool.spatial, self.pool.arguments.get("output_size", ()), strict=False)
        return self.pool.is_adaptive and all(size % count == 0 for size, count in sizes)

    @property
    def enlarges(self) -> bool:
        """Whether an adaptive pool has more windows than elements along an axis."""
        sizes = zip(self.pool.spatial, self.pool.arguments.get("output_size", ()), strict=False)
        return self.pool.is_adaptive and any(size < count for size, count in sizes)

    @property
    def exceeds(self) -> bool:
        """Whether a window is larger than x with its padding."""
        if self.pool.is_adaptive:
            return False
        windows = self.pool.arguments
        axes = zip(self.pool.spatial, windows["kernel_size"], windows["padding"], windows["dilation"], strict=True)
        return any((kernel - 1) * dilation + 1 > size + 2 * pad for size, kernel, pad, dilation in axes)


@dataclass(frozen=True)
class Difference:
    """A row of the table. `rewrite` returns torch_npu's call with this difference gone, or an equal call.

    Its second argument is a `Context`, or an average pool.
    """

    name: str
    torch_npu: str
    session: str
    reason: str
    rewrite: Callable[[Call, Any], Call]


@dataclass(frozen=True)
class OneSided:
    """A row for pools for which a call is missing or refused. `session_calls` is about the gradient."""

    name: str
    torch_npu: str
    session: str
    reason: str
    applies: Callable[[Any], bool]
    torch_npu_calls: bool
    session_calls: bool


def _tensors(call: Call) -> list[str]:
    return [name for name in TENSORS if f"{name}.viewDims" in call]


def with_shapes(call: Call, shape: Callable[[list[int]], list[int]]) -> Call:
    """The call with contiguous tensors of other shapes, which have the format of their rank."""
    changed = dict(call)
    for name in _tensors(call):
        dims = shape(call[f"{name}.viewDims"])
        strides = [1]
        for size in reversed(dims[1:]):
            strides.insert(0, strides[0] * size)
        changed |= {f"{name}.viewDims": dims, f"{name}.stride": strides}
        changed[f"{name}.format"] = NCDHW if len(dims) == 5 else NCHW
    return changed


def without_mask(call: Call, _: Context) -> Call:
    if "through" not in call:
        return call
    changed = {key: value for key, value in call.items() if key != "through"}
    pooled = "gradOutput" if call["function"].endswith(BACKWARD) else "out"
    return changed | {"indices.storageDims": call[f"{pooled}.storageDims"]}


def with_explicit_stride(call: Call, _: object) -> Call:
    return call | {"stride": call["kernelSize"]} if call.get("stride") == [] else call


def with_batch(call: Call, context: Context) -> Call:
    if context.pool.is_batched or len(call["self.viewDims"]) != context.pool.rank + 1:
        return call
    return with_shapes(call, lambda dims: [1, *dims])


def without_dilation_of_one_element(call: Call, _: Context) -> Call:
    if "dilation" not in call:
        return call
    pairs = zip(call["kernelSize"], call["dilation"], strict=True)
    return call | {"dilation": [1 if kernel == 1 else dilation for kernel, dilation in pairs]}


def with_widened_windows(call: Call, _: Context) -> Call:
    if not call["function"].endswith(BACKWARD) or max(call.get("dilation", [1])) == 1:
        return call
    pairs = zip(call["kernelSize"], call["dilation"], strict=True)
    widened = [(kernel - 1) * dilation + 1 for kernel, dilation in pairs]
    return call | {"kernelSize": widened, "dilation": [1] * len(widened)}


def with_windows_of_one_size(call: Call, context: Context) -> Call:
    if not context.divides:
        return call
    counts = context.pool.arguments["output_size"]
    kernel = [size // count for size, count in zip(context.pool.spatial, counts, strict=True)]
    changed = {key: value for key, value in call.items() if key != "outputSize"}
    if context.is_950 and len(kernel) == 2:
        changed["function"] = "aclnnMaxPool2dWithIndices"
    else:
        changed["function"] = "aclnnMaxPool3dWithArgmax"
        if len(kernel) == 2:
            kernel = [1, *kernel]
            changed = with_shapes(changed, lambda dims: [*dims[:-2], 1, *dims[-2:]])
    if call["function"].endswith(BACKWARD):
        changed["function"] += BACKWARD
    ones, zeros = [1] * len(kernel), [0] * len(kernel)
    return changed | {"kernelSize": kernel, "stride": kernel, "padding": zeros, "dilation": ones}


def with_depth(call: Call, _: Context) -> Call:
    if call["function"] != "aclnnAdaptiveMaxPool2d":
        return call
    changed = with_shapes(call, lambda dims: [*dims[:-2], 1, *dims[-2:]])
    return changed | {"function": "aclnnAdaptiveMaxPool3d", "outputSize": [1, *call["outputSize"]]}


def with_indices_of_32_bits(call: Call, _: Context) -> Call:
    return call | {"indices.dataType": INT32} if call["indices.dataType"] == INT64 else call


def with_storage_of_the_view(call: Call, _: object) -> Call:
    return call | {f"{name}.storageDims": call[f"{name}.viewDims"] for name in _tensors(call)}


EXPLICIT_STRIDE = Difference(
    "stride",
    "an empty list of strides",
    "the kernel's sizes",
    "An empty list means the kernel's sizes.",
    with_explicit_stride,
)
STORAGE = Difference(
    "storage",
    "the storage has one axis, the number of elements",
    "the storage has the shape of the view",
    "Both are contiguous, and have the same strides and the offset 0.",
    with_storage_of_the_view,
)

DIFFERENCES = (
    Difference(
        "mask",
        "`aclnnMaxPool2dWithMask`, on Atlas A2 and A3",
        "`aclnnMaxPool3dWithArgmax` with depth 1",
        "According to CANN's sources it runs the same kernel, with its indices at the begin of the mask. The stand-in "
        "does so, and what is compared is what it passes on.",
        without_mask,
    ),
    EXPLICIT_STRIDE,
    Difference(
        "batch", "x without a batch: three axes, or four of a 3-D pool", "a batch of 1",
        "ONNX's pools always have a batch. The planes are the same, and the format follows from the number of axes.",
        with_batch),
    Difference(
        "dilation of one element", "a dilation along an axis whose kernel has one element", "dilation 1",
        "One element has no distance to another.", without_dilation_of_one_element),
    Difference(
        "dilated gradient", "the gradient with a dilation", "windows without dilation that span the same elements",
        "A gradient adds at its indices, which lie in the wider windows too.", with_widened_windows),
    Difference(
        "adaptive pool whose sizes divide",
        "`aclnnAdaptiveMaxPool2d` or `3d`",
        "the function of the pool whose kernel and stride are the quotients",
        "The windows are the same. According to CANN's sources the gradients run the same kernel then on Atlas A2 and "
        "A3.",
        with_windows_of_one_size,
    ),
    Difference(
        "adaptive pool in 2-D", "`aclnnAdaptiveMaxPool2d`", "`aclnnAdaptiveMaxPool3d` with depth 1",
        "The windows are the same; the 2-D function has indices of 64 bits alone.", with_depth),
    Difference(
        "indices of an adaptive pool", "int64", "int32",
        "The positions in a plane are the same numbers; the runtime takes planes only if they fit.",
        with_indices_of_32_bits),
    STORAGE,
)  # fmt: skip

ONE_SIDED = (
    OneSided(
        "dilated windows on Atlas A2 and A3", "is refused: 161002",
        "the gradient, with wider windows; the pool only if its dilation has no effect",
        "These products have pools of dilation 1 alone.",
        lambda context: not context.is_950 and context.pool.is_dilated and not context.exceeds, torch_npu_calls=False,
        session_calls=True),
    OneSided(
        "dilated window larger than x with its padding, on Atlas A2 and A3", "is refused: 161002",
        "no call: the compiler refuses it (`output-size`)", "The two reasons together.",
        lambda context: not context.is_950 and context.pool.is_dilated and context.exceeds, torch_npu_calls=False,
        session_calls=False),
    OneSided(
        "windows of one element on Atlas A2 and A3", "a mask of bits, which the stand-in does not have",
        "`aclnnMaxPool3dWithArgmax`", "Not compared.",
        lambda context: not context.is_950 and context.pool.rank == 2 and context.pool.has_windows_of_one_element,
        torch_npu_calls=False, session_calls=True),
    OneSided(
        "more windows than elements", "the call", "no call: function body",
        "None of CANN's own test cases has such a pool: nobody has seen its kernels run one.",
        lambda context: context.enlarges, torch_npu_calls=True, session_calls=False),
    OneSided(
        "window larger than x with its padding", "the call", "no call: the compiler refuses it (`output-size`)",
        "No window fits; PyTorch has one in `ceil_mode`.",
        lambda context: context.exceeds and (context.is_950 or not context.pool.is_dilated), torch_npu_calls=True,
        session_calls=False),
)  # fmt: skip
