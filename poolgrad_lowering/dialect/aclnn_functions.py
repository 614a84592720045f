# SPDX-License-Identifier: Apache-2.0

"""The functions of aclnn that run the dialect's operators, and what they take on each product.

Source: CANN's documentation of these functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from onnx import TensorProto

ASCEND_950 = "Ascend 950"
ATLAS_A2_A3 = "Atlas A2/A3"

INT32_PLANE = 2**31 - 1
"""The largest plane, in elements, whose positions are int32."""

FLOAT32_EXACT_PLANE = 2**24
"""A2 and A3 compare the argmax of adaptive max pools in float32, which is exact up to this value."""

CORES = {ASCEND_950: 72, ATLAS_A2_A3: 48}
"""The most vector cores of a SoC (`vector_core_cnt` in the platform files of CANN's runtime of August 2026)."""

_INT32, _INT64 = frozenset((TensorProto.INT32,)), frozenset((TensorProto.INT64,))
_BOTH = _INT32 | _INT64


class Signature(Enum):
    """The parameters of a function's phase 1. Those over two and over three axes are mostly alike."""

    MAX_POOL = auto()
    ADAPTIVE_MAX_POOL = auto()
    MAX_POOL_BACKWARD = auto()
    ADAPTIVE_MAX_POOL_BACKWARD = auto()
    AVG_POOL_2D_BACKWARD = auto()
    AVG_POOL_3D_BACKWARD = auto()
    ADAPTIVE_AVG_POOL_BACKWARD = auto()


class Limits(NamedTuple):
    """What a function takes on a product.

    `index_types` are those of argmax (`TensorProto.DataType`). `max_plane` is the largest (n, c) plane of x, in
    elements, and `max_uneven_plane` the same if output sizes do not divide input sizes; None is no limit. `dilation`:
    whether a pool takes one other than 1. `cores`: those of the product, if the function fails on float16 and bfloat16
    of fewer elements than it uses cores; else 0.
    """

    index_types: frozenset[int] = frozenset()
    max_plane: int | None = None
    max_uneven_plane: int | None = None
    dilation: bool = False
    cores: int = 0


class Function(NamedTuple):
    """A function of aclnn: the spatial axes of its tensors, its signature, and its limits on the products that have it.

    Products are named as in `Target.aclnn`.
    """

    name: str
    axes: int
    signature: Signature
    limits: Mapping[str, Limits]


def _of(ascend_950: Limits | None, atlas_a2_a3: Limits | None) -> dict[str, Limits]:
    limits = {ASCEND_950: ascend_950, ATLAS_A2_A3: atlas_a2_a3}
    return {product: each for product, each in limits.items() if each is not None}


def _in_int32(index_types: frozenset[int] = frozenset(), uneven: int = INT32_PLANE, cores: int = 0) -> Limits:
    return Limits(index_types, INT32_PLANE, uneven, cores=cores)


MAX_POOL_3D_FUNCTION = Function(
    "aclnnMaxPool3dWithArgmax", 3, Signature.MAX_POOL, _of(Limits(_BOTH, dilation=True), _in_int32(_INT32))
)
MAX_POOL_2D_FUNCTION = Function(
    "aclnnMaxPool2dWithIndices", 2, Signature.MAX_POOL, _of(Limits(_BOTH, dilation=True), _in_int32(_BOTH))
)
ADAPTIVE_MAX_POOL_3D_FUNCTION = Function(
    "aclnnAdaptiveMaxPool3d", 3, Signature.ADAPTIVE_MAX_POOL, _of(Limits(_BOTH), _in_int32(_INT32))
)
# Ascend 950 has it as well, but its aclnnAdaptiveMaxPool3d takes all that it takes.
ADAPTIVE_MAX_POOL_2D_FUNCTION = Function(
    "aclnnAdaptiveMaxPool2d", 2, Signature.ADAPTIVE_MAX_POOL, _of(None, _in_int32(_INT64))
)

MAX_POOL_3D_BACKWARD = Function(
    "aclnnMaxPool3dWithArgmaxBackward", 3, Signature.MAX_POOL_BACKWARD, _of(Limits(_BOTH), _in_int32(_INT32))
)
# On Atlas A2 and A3 it does not take float16 and bfloat16, which the function over three axes takes.
MAX_POOL_2D_BACKWARD = Function(
    "aclnnMaxPool2dWithIndicesBackward", 2, Signature.MAX_POOL_BACKWARD, _of(Limits(_BOTH), None)
)
ADAPTIVE_MAX_POOL_3D_BACKWARD = Function(
    "aclnnAdaptiveMaxPool3dBackward",
    3,
    Signature.ADAPTIVE_MAX_POOL_BACKWARD,
    _of(Limits(_BOTH), _in_int32(_INT32, FLOAT32_EXACT_PLANE)),
)
# It casts int64 indices to int32 on every product.
ADAPTIVE_MAX_POOL_2D_BACKWARD = Function(
    "aclnnAdaptiveMaxPool2dBackward",
    2,
    Signature.ADAPTIVE_MAX_POOL_BACKWARD,
    _of(_in_int32(_BOTH), _in_int32(_BOTH, FLOAT32_EXACT_PLANE)),
)

AVG_POOL_3D_BACKWARD = Function(
    "aclnnAvgPool3dBackward",
    3,
    Signature.AVG_POOL_3D_BACKWARD,
    _of(Limits(cores=CORES[ASCEND_950]), Limits(cores=CORES[ATLAS_A2_A3])),
)
# On Atlas A2 and A3 it runs the operator of three axes.
AVG_POOL_2D_BACKWARD = Function(
    "aclnnAvgPool2dBackward", 2, Signature.AVG_POOL_2D_BACKWARD, _of(_in_int32(), _in_int32(cores=CORES[ATLAS_A2_A3]))
)
ADAPTIVE_AVG_POOL_3D_BACKWARD = Function(
    "aclnnAdaptiveAvgPool3dBackward", 3, Signature.ADAPTIVE_AVG_POOL_BACKWARD, _of(Limits(), Limits())
)
ADAPTIVE_AVG_POOL_2D_BACKWARD = Function(
    "aclnnAdaptiveAvgPool2dBackward", 2, Signature.ADAPTIVE_AVG_POOL_BACKWARD, _of(Limits(), Limits())
)
