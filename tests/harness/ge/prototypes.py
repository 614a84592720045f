# SPDX-License-Identifier: Apache-2.0

"""The graph operators of CANN: names and order of inputs and outputs, attributes, and since which release.

From the prototype headers of ops-nn, `pooling/*/op_graph/*_proto.h`. What each SoC makes of them is in `kernels.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Release = Literal["8.5.0", "9.0.0", "9.1.0"]
Soc = Literal["ascend910b", "ascend910_93", "ascend950"]
RELEASES: tuple[Release, ...] = ("8.5.0", "9.0.0", "9.1.0")
SOCS: tuple[Soc, ...] = ("ascend910b", "ascend910_93", "ascend950")


@dataclass(frozen=True)
class Prototype:
    """A registered operator.

    Attributes:
        required: the GE types of the attributes that a node must have.
        optional: the GE types and the defaults of the others.
        since: the first release with a prototype.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    required: Mapping[str, str]
    optional: Mapping[str, tuple[str, Any]]
    since: Release

    def defaults(self) -> dict[str, Any]:
        """Return the attributes that a new operator has."""
        return {name: default for name, (_, default) in self.optional.items()}

    def types(self) -> dict[str, str]:
        """Return the GE type of every attribute."""
        return {**self.required, **{name: kind for name, (kind, _) in self.optional.items()}}


_WINDOWS = {"ksize": "LIST_INT", "strides": "LIST_INT", "pads": "LIST_INT"}
_GRADIENT = {"inputs": ("x", "grad", "argmax"), "outputs": ("y",)}
_POOL = {"inputs": ("x",), "outputs": ("y", "argmax")}
_DTYPE = {"dtype": ("INT", 3)}


def _rounding(axes: int, data_format: str) -> dict[str, tuple[str, Any]]:
    return {
        "dilation": ("LIST_INT", [1] * axes),
        "ceil_mode": ("BOOL", False),
        "data_format": ("STRING", data_format),
    }


PROTOTYPES = {
    "MaxPool3DGradWithArgmax": Prototype(**_GRADIENT, required=_WINDOWS, optional=_rounding(3, "NCDHW"), since="9.0.0"),
    "MaxPool3DWithArgmaxV2": Prototype(
        **_POOL, required=_WINDOWS, optional=_rounding(3, "NCDHW") | _DTYPE, since="9.0.0"
    ),
    "MaxPoolGradWithArgmaxV3": Prototype(
        **_GRADIENT, required=_WINDOWS, optional=_rounding(2, "NCHW") | _DTYPE, since="8.5.0"
    ),
    "MaxPoolWithArgmaxV3": Prototype(**_POOL, required=_WINDOWS, optional=_rounding(2, "NCHW") | _DTYPE, since="8.5.0"),
    "AdaptiveMaxPool3d": Prototype(
        inputs=("x",), outputs=("y", "indices"), required={"output_size": "LIST_INT"},
        optional={"indices_dtype": ("INT", 3)}, since="9.0.0"),
    "AvgPool3DGrad": Prototype(
        inputs=("orig_input_shape", "grads"),
        outputs=("output",),
        required=_WINDOWS,
        optional={
            "ceil_mode": ("BOOL", False),
            "count_include_pad": ("BOOL", True),
            "divisor_override": ("INT", 0),
            "data_format": ("STRING", "NDHWC"),
        },
        since="8.5.0",
    ),
    "AvgPoolV2Grad": Prototype(
        inputs=("orig_input_shape", "input_grad"),
        outputs=("out_grad",),
        required={"ksize": "LIST_INT", "strides": "LIST_INT"},
        optional={
            "padding_mode": ("STRING", "CALCULATED"),
            "pads": ("LIST_INT", [0, 0, 0, 0]),
            "data_format": ("STRING", "NCHW"),
            "global_pooling": ("BOOL", False),
            "ceil_mode": ("BOOL", False),
            "exclusive": ("BOOL", True),
            "divisor_override": ("INT", 0),
        },
        since="9.0.0",
    ),
    "AdaptiveAvgPool3dGrad": Prototype(
        inputs=("y_grad", "x"), outputs=("x_grad",), required={}, optional={"data_format": ("STRING", "NDHWC")},
        since="9.1.0"),
    "AdaptiveAvgPool2dGrad": Prototype(
        inputs=("input_grad",), outputs=("output_grad",), required={"orig_input_shape": "LIST_INT"}, optional={},
        since="9.1.0"),
}  # fmt: skip
"""By GE type. AdaptiveAvgPool3dGrad is older, but has a data_format since the release that it has here.

AdaptiveMaxPool3DGrad has a definition and kernels in CANN but no prototype in any release.
"""


def prototype(ge_type: str, release: Release) -> Prototype | None:
    """Return the prototype of a GE type in a release, None if there is none."""
    found = PROTOTYPES.get(ge_type)
    return found if found and RELEASES.index(found.since) <= RELEASES.index(release) else None
