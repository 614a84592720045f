# SPDX-License-Identifier: Apache-2.0

"""The aclnn function that runs each operator of the dialect, as the compiler writes it: with an int32 argmax.

The runtime's table of routes has the same functions; a test compares the two.
Source: CANN's documentation of the functions named here.
"""

from __future__ import annotations

from poolgrad_lowering.targets.table import (
    ADAPTIVE,
    ADAPTIVE_GRAD,
    MAX_POOL_2D,
    MAX_POOL_2D_GRAD,
    MAX_POOL_3D,
    MAX_POOL_3D_GRAD,
)

_3D, _2D = "aclnnMaxPool3dWithArgmax", "aclnnMaxPool2dWithIndices"
_ADAPTIVE_3D, _ADAPTIVE_2D = "aclnnAdaptiveMaxPool3d", "aclnnAdaptiveMaxPool2d"

_FUNCTIONS: dict[str, dict[int, str]] = {
    MAX_POOL_3D_GRAD: dict.fromkeys((3, 4, 5), f"{_3D}Backward"),
    MAX_POOL_2D_GRAD: {4: f"{_2D}Backward"},
    ADAPTIVE_GRAD: {3: f"{_ADAPTIVE_2D}Backward", 4: f"{_ADAPTIVE_2D}Backward", 5: f"{_ADAPTIVE_3D}Backward"},
    MAX_POOL_3D: dict.fromkeys((3, 4, 5), _3D),
    MAX_POOL_2D: {4: _2D},
    ADAPTIVE: dict.fromkeys((3, 4, 5), _ADAPTIVE_3D),
}


def aclnn_function(op: str, rank: int) -> str:
    """Return the function that runs an operator of the dialect on an x of this rank, (N, C, spatial axes)."""
    return _FUNCTIONS[op][rank]


def aclnn_functions(op: str) -> tuple[str, ...]:
    """Return the functions that run an operator, without duplicates, in the order of x's rank."""
    return tuple(dict.fromkeys(_FUNCTIONS[op].values()))
