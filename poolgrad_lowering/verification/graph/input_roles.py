# SPDX-License-Identifier: Apache-2.0

"""The table of what verification knows of operators: what each input of a pool or a gradient is.

It is written from the operators' definitions, not from what the compiler makes of them. An operator of another package
is declared by an entry point of the group `poolgrad_lowering.roles`, which names a mapping like `INPUT_ROLES`:

    [project.entry-points."poolgrad_lowering.roles"]
    acme = "acme.forms:INPUT_ROLES"

A wrong row can make a proof fail, not succeed. It may make a value an input of the site: both sides then have to agree
for any data there, and indices of any data violate the contract of the dialect's operators. It may give data sizes that
do not fit: the original does not run. Data that it leaves out is named in the site's result (`not_drawn`). A row of
another package neither replaces one of this table nor says which windows a gradient must have.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import NamedTuple

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.dialect.op import Op, Part
from poolgrad_lowering.dialect.ops import OPS

logger = logging.getLogger(__name__)

GROUP = "poolgrad_lowering.roles"
ATEN = "org.pytorch.aten"
ATEN_GENERIC = (ATEN, "ATen")
TENSORFLOW_DOMAIN = "ai.onnx.converters.tensorflow"
"""The domain of TensorFlow's operators, which converters also write in the default domain."""
AVERAGE_POOL_GRADIENT = "AveragePoolGrad"
"""onnxruntime-training's operator of the default domain, whose only operand is the incoming gradient."""


class InputRoles(NamedTuple):
    """A row: the names of an operator's inputs, in order, and whether it is the gradient of an average pool.

    Some names have a meaning: `dy` is the incoming gradient, `x` the pooled tensor, `y` or `indices` has the shape of
    dy, `sizes` holds the shape of x. An operator that `overwrites` writes the sign of −0.0 where a sum has +0.0, unless
    its attribute `reduction` says otherwise.
    """

    names: str = ""
    average: bool = False
    overwrites: bool = False


_PARTS = {Part.X: "x", Part.GRAD: "dy", Part.ARGMAX: "indices", Part.SIZES: "sizes"}


def _of_dialect(op: Op) -> InputRoles:
    """Return the row of an operator of the dialect."""
    names = " ".join(_PARTS[operand.part] for operand in op.inputs)
    return InputRoles(names, average=op.is_gradient and not op.has_argmax)


def _of_ranks(
    name: str, inputs: str, first: int = 2, *, domain: str = ATEN, average: bool = False
) -> dict[tuple[str, str], InputRoles]:
    """Return the rows of operators that are alike over `first` to three spatial axes."""
    return {(domain, name.format(rank)): InputRoles(inputs, average=average) for rank in range(first, 4)}


_NONE = InputRoles()
"""Operators around a gradient, and those that compute one of a dy that an operator before them has divided."""
_WITHOUT_ROLES = (
    "Add ArgMax AveragePool Cast CastLike Clip Concat Constant ConstantOfShape Conv ConvTranspose Div Einsum Equal "
    "Expand Flatten Floor Gather GatherElements GatherND Gemm GlobalMaxPool Greater GreaterOrEqual Identity Less "
    "LessOrEqual MatMul Max Min Mod Mul Neg Not OneHot Pad Range ReduceMax ReduceMean ReduceProd ReduceSum Relu "
    "Reshape Resize Shape Size Slice Split Squeeze Sub Sum Tile TopK Transpose Trilu Unsqueeze Upsample Where"
)

INPUT_ROLES: Mapping[tuple[str, str], InputRoles] = MappingProxyType(
    {
        **{("", op_type): _NONE for op_type in _WITHOUT_ROLES.split()},
        ("ai.onnx.preview.training", "Gradient"): _NONE,  # is refused
        # ONNX's operators, and onnxruntime-training's in its domain
        ("", AVERAGE_POOL_GRADIENT): InputRoles("dy x", average=True),  # `sites.cut` adds x
        ("", "MaxPool"): InputRoles("x"),
        ("", "MaxPoolGrad"): InputRoles("dy indices"),
        ("", "MaxUnpool"): InputRoles("dy indices shape", overwrites=True),
        ("", "Scatter"): InputRoles("data indices dy axis", overwrites=True),
        ("", "ScatterElements"): InputRoles("data indices dy", overwrites=True),
        ("", "ScatterND"): InputRoles("data tuples dy", overwrites=True),
        # TensorFlow's operators, by tf2onnx; of another number of inputs, a name is another operator
        (TENSORFLOW_DOMAIN, "AvgPoolGrad"): InputRoles("sizes dy", average=True),
        (TENSORFLOW_DOMAIN, "AvgPool3DGrad"): InputRoles("sizes dy", average=True),
        (TENSORFLOW_DOMAIN, "MaxPoolGrad"): InputRoles("x y dy"),
        (TENSORFLOW_DOMAIN, "MaxPoolGradV2"): InputRoles("x y dy ksize strides"),
        (TENSORFLOW_DOMAIN, "MaxPool3DGrad"): InputRoles("x y dy"),
        (TENSORFLOW_DOMAIN, "MaxPoolGradWithArgmax"): InputRoles("x dy indices"),
        # PyTorch's operators, under their own names or as the attribute of an ATen node; x is the forward pool's
        ATEN_GENERIC: InputRoles("x"),  # all that have no row of their own
        **_of_ranks("avg_pool{}d_backward", "dy x kernel stride padding ceil counts divisor", 1, average=True),
        **_of_ranks("_adaptive_avg_pool{}d_backward", "dy x", average=True),
        **_of_ranks("adaptive_max_pool{}d_backward", "dy self indices"),
        **_of_ranks("max_pool{}d_with_indices_backward", "dy self kernel stride padding dilation ceil indices"),
        (ATEN, "value_selecting_reduction_backward"): InputRoles("dy dim selected shape keepdim", overwrites=True),
        # a user's symbolic functions, in domain npu
        **_of_ranks("NPUMaxPool{}dWithIndices", "x", domain=DOMAIN),
        **_of_ranks("NPUMaxPool{}dWithIndicesBackward", "dy self indices", domain=DOMAIN),
        # Ascend's operators
        **{(DOMAIN, name): _of_dialect(op) for name, op in OPS.items()},
    }
)
"""The rows by domain and operator: of all operators of the dialect, and of all that occur in forms."""


def row_of(op: tuple[str, str]) -> InputRoles | None:
    """Return the row of an operator, one of this table before one of another package; None if there is none."""
    known = INPUT_ROLES.get(op)
    return known if known is not None or op[0] in ("", DOMAIN) else _declared().get(op)


@lru_cache(maxsize=1)
def _declared() -> Mapping[tuple[str, str], InputRoles]:
    """Return the rows of other packages, without entries that cannot be loaded or are no rows."""
    rows: dict[tuple[str, str], InputRoles] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        try:
            given = dict(entry.load())  # code of another package: may raise any error
        except Exception as error:
            logger.warning("roles '%s' of another package are not used: %s", entry.name, error)
            continue
        rows.update((op, row) for op, row in given.items() if isinstance(row, InputRoles))
    return rows
