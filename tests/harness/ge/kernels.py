# SPDX-License-Identifier: Apache-2.0

"""What each SoC takes of the pool operators in a graph: types and formats of its library, shape inference, tiling.

GE looks at this before anything runs. The stand-in looks when the operator runs, because then it has the shapes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tests.harness.ge import faults
from tests.harness.ge.faults import GeError
from tests.harness.ge.parser import GeOperator
from tests.harness.ge.prototypes import Soc

Array = npt.NDArray[Any]

NCHW, NHWC, ND, NDHWC, NCDHW = 0, 1, 2, 27, 30
"""GE's numbers of formats."""

INDEX_TYPES = {3: "int32", 9: "int64"}
"""GE's numbers of index types, in attributes."""

VALUE_TYPES = {"float32", "float16", "bfloat16"}
LARGEST_INT32 = 2**31 - 1


@dataclass(frozen=True)
class Kernel:
    """What a SoC takes of one operator.

    Attributes:
        formats: of the operator library. ND stands for every layout.
        inferred: the origin formats of x that shape inference takes.
        ranks: of x.
        axes: how many spatial axes the windows have.
    """

    formats: frozenset[int]
    inferred: frozenset[int]
    ranks: frozenset[int]
    argmax: frozenset[str]
    axes: int = 3


_NEW = frozenset({"int32", "int64"})
_OLD = frozenset({"int32"})
_ANY = frozenset({ND})
_3D = frozenset({NCDHW})
_GRADIENT = frozenset({ND, NCDHW, NDHWC, NCHW})
_POOL = frozenset({ND, NCDHW, NDHWC})
_2D = frozenset({ND, NCHW, NHWC})
_ADAPTIVE = frozenset({ND, NCHW, NHWC, NCDHW, NDHWC})
_FIVE = frozenset({5})

_A2_A3 = {
    "MaxPool3DGradWithArgmax": Kernel(_3D, _GRADIENT, _FIVE, _OLD),
    "MaxPool3DWithArgmaxV2": Kernel(_3D, _POOL, _FIVE, _OLD),
    "AdaptiveMaxPool3d": Kernel(_ANY, _ADAPTIVE, _FIVE, _OLD),
}
KERNELS: Mapping[Soc, Mapping[str, Kernel]] = {
    "ascend910b": _A2_A3,
    "ascend910_93": _A2_A3,
    "ascend950": {
        "MaxPool3DGradWithArgmax": Kernel(_ANY, _GRADIENT, frozenset({4, 5}), _NEW),
        "MaxPool3DWithArgmaxV2": Kernel(_ANY, _POOL, _FIVE, _NEW),
        "MaxPoolGradWithArgmaxV3": Kernel(_ANY, _2D, frozenset({4}), _NEW, axes=2),
        "MaxPoolWithArgmaxV3": Kernel(_ANY, _2D, frozenset({3, 4}), _NEW, axes=2),
        "AdaptiveMaxPool3d": Kernel(_ANY, _ADAPTIVE, _FIVE, _NEW),
    },
}


def kernel_for(operator: GeOperator, inputs: Sequence[Array], soc: Soc) -> Kernel:
    """Return the kernel that takes an operator with these inputs.

    Raises:
        GeError: none does, or it does not take the types, formats or ranks.
    """
    found = KERNELS[soc].get(operator.type)
    if found is None:
        raise no_kernel(operator, f"{soc} has no {operator.type}")
    if len(inputs) < len(operator.inputs):
        raise refused(operator, f"input {operator.inputs[len(inputs)].name} is missing")
    _check_types(operator, found, inputs)
    _check_formats(operator, found)
    ranks = {array.ndim for array in inputs}
    if len(ranks) != 1 or not ranks <= found.ranks:
        raise refused(operator, f"ranks {[array.ndim for array in inputs]}, {soc} takes {sorted(found.ranks)}")
    if 0 in inputs[0].shape:
        raise refused(operator, f"x is empty: {inputs[0].shape}")
    return found


def _check_types(operator: GeOperator, kernel: Kernel, inputs: Sequence[Array]) -> None:
    types = [array.dtype.name for array in inputs]
    if len(set(types[:2])) != 1 or types[0] not in VALUE_TYPES:
        raise no_kernel(operator, f"values of types {types[:2]}")
    named = index_type(operator)
    argmax = types[2] if len(types) > 2 else named
    if argmax not in kernel.argmax:
        raise no_kernel(operator, f"argmax of type {argmax}")
    if named not in (None, argmax):
        raise refused(operator, f"argmax is {argmax}, and the attribute dtype says {named}")


def index_type(operator: GeOperator) -> str | None:
    """Return the type of indices that an attribute of the operator names; None if it has no such attribute."""
    for name in ("dtype", "indices_dtype"):
        if name in operator.attributes:
            return INDEX_TYPES.get(operator.attributes[name].value, "unknown")
    return None


def _check_formats(operator: GeOperator, kernel: Kernel) -> None:
    if operator.inputs[0].origin_format not in kernel.inferred:
        raise refused(operator, f"shape inference does not take origin format {operator.inputs[0].origin_format} of x")
    for tensor in (*operator.inputs, *operator.outputs):
        if tensor.format != tensor.origin_format:
            raise no_kernel(operator, f"{tensor.name} has format {tensor.format}, and origin {tensor.origin_format}")
        if not {tensor.format, ND} & kernel.formats:
            raise no_kernel(operator, f"{tensor.name} has format {tensor.format}, not one of {sorted(kernel.formats)}")


def check_windows(operator: GeOperator, sizes: Sequence[int], soc: Soc) -> None:
    """Check what shape inference and tiling say of the windows' attributes, for the spatial sizes of x.

    Raises:
        GeError: they refuse.
    """
    ksize, strides, pads, dilation = windows_of(operator, len(sizes))
    if min(*ksize, *strides, *dilation) < 1 or min(pads) < 0:
        raise refused(operator, "a window attribute is out of range")
    if any(pad > k // 2 for pad, k in zip(pads, ksize, strict=True)):
        raise refused(operator, f"pads {pads} are more than half of ksize {ksize}")
    if soc != "ascend950" and math.prod(sizes) > LARGEST_INT32:
        raise refused(operator, f"a plane of {sizes} elements is too large")
    if soc != "ascend950" and operator.type == "MaxPool3DWithArgmaxV2" and max(dilation) > 1:
        raise refused(operator, f"dilation {dilation}")


def windows_of(operator: GeOperator, axes: int) -> list[list[int]]:
    """Return ksize, strides, pads and dilation, one number for each axis.

    A gradient over three axes takes one number for all of them too, and no strides for those of ksize.

    Raises:
        GeError: a list has another length.
    """
    lists = [operator.attributes[name].value for name in ("ksize", "strides", "pads", "dilation")]
    if operator.type == "MaxPool3DGradWithArgmax":
        lists = [values * axes if len(values) == 1 else values for values in lists]
        lists[1] = lists[1] or lists[0]
    if any(len(values) != axes for values in lists):
        raise refused(operator, f"lists of {list(map(len, lists))} numbers, {axes} are needed")
    return lists


def refused(operator: GeOperator, message: str) -> GeError:
    """Return the error of shape inference or tiling."""
    return GeError.of(faults.OPERATOR_INNER, f"{operator.node.name} ({operator.type}): {message}")


def no_kernel(operator: GeOperator, message: str) -> GeError:
    """Return the error of an operator library that lacks an operator, or one for these types."""
    return GeError.of(faults.NO_KERNEL, f"{operator.node.name} ({operator.type}): {message}")
