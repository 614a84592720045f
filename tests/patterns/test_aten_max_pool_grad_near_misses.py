# SPDX-License-Identifier: Apache-2.0

"""Max-pool gradients as PyTorch's operators with one thing changed: another computation, or one not to be proven."""

from __future__ import annotations

import pytest

from poolgrad_lowering.model.diagnostics.codes import Code
from tests.heads import head
from tests.patterns.aten_graphs import CONSTANTS, FORWARD, PLANE_INDICES, SIZES, WHOLE_PLANE, max_pool_gradient
from tests.patterns.lowering_checks import NearMisses, check_refused, near_misses
from tests.texts import Says

SYMBOLIC_KERNEL = {
    "constants": WHOLE_PLANE,
    "forward": FORWARD.replace("k, s", "k, k"),
    "operands": "dy, x, k, k, p, d, ceil, i",
    "inputs": "float[N,C,H,W] x, float[N,C,1,1] dy",
    "outputs": "float[N,C,1,1] y, float[N,C,H,W] dx",
}
NEGATIVE = "p = Constant <value = int64[2] {-1,1}"


def from_outside(name: str) -> dict[str, str]:
    """The same list of numbers for both nodes, but an input of the model."""
    others = [line for line in CONSTANTS.splitlines() if not line.strip().startswith(f"{name} =")]
    return {"constants": "\n".join(others), "inputs": f"{SIZES[0]}, int64[2] {name}"}


NEAR_MISSES: NearMisses = {
    # the indices
    "traced_indices": (
        Code.CONSTANT_INDICES,
        max_pool_gradient(
            forward="""y = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            i = Constant <value = int64[1,1,1,1] {0}> ()""",
            inputs="float[1,1,2,2] x, float[1,1,1,1] dy",
            outputs="float[1,1,1,1] y, float[1,1,2,2] dx",
        ),
    ),
    "indices_as_the_incoming_gradient": (Code.DTYPE_MIX, max_pool_gradient(operands="i, x, k, s, p, d, ceil, i")),
    "traced_indices_as_an_initializer": (
        Code.CONSTANT_INDICES,
        max_pool_gradient(
            forward="""y = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            i = Identity (j)""",
            inputs="float[1,1,2,2] x, float[1,1,1,1] dy",
            outputs="float[1,1,1,1] y, float[1,1,2,2] dx",
            types="int64[1,1,1,1] j = {0}",
        ),
    ),
    "indices_with_a_default_that_a_caller_can_override": (
        Code.INDICES_SOURCE,
        max_pool_gradient(
            forward="y = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)",
            inputs="float[1,1,2,2] x, float[1,1,1,1] dy, int64[1,1,1,1] j",
            outputs="float[1,1,1,1] y, float[1,1,2,2] dx",
            operands="dy, x, k, s, p, d, ceil, j",
            types="int64[1,1,1,1] j = {0}",
        ),
    ),
    "indices_as_rows": (
        Code.GRAD_SHAPE,
        max_pool_gradient(
            forward=PLANE_INDICES,
            between="rows = Constant <value = int64[2] {6,30}> ()\nr = Reshape (i, rows)",
            operands="dy, x, k, s, p, d, ceil, r",
        ),
    ),
    "indices_from_outside": (
        Code.INDICES_SOURCE,
        max_pool_gradient(
            inputs="float[2,3,9,12] x, float[2,3,5,6] dy, int64[2,3,5,6] given",
            operands="dy, x, k, s, p, d, ceil, given",
        ),
    ),
    "pooled_values_as_indices": (Code.INDICES_SOURCE, max_pool_gradient(operands="dy, x, k, s, p, d, ceil, y")),
    "indices_of_another_operator": (
        Code.INDICES_SOURCE,
        max_pool_gradient(forward='y, i = org.pytorch.aten.ATen <operator="fractional_max_pool2d"> (x, k)'),
    ),
    "indices_rounded_to_a_half_type": (
        Code.INDICES_SOURCE,
        max_pool_gradient(between="h = Cast <to=10> (i)\nj = Cast <to=7> (h)", operands="dy, x, k, s, p, d, ceil, j"),
    ),
    "indices_changed_by_another_operator": (
        Code.INDICES_SOURCE,
        max_pool_gradient(between="j = com.microsoft.Cast <to=7> (i)", operands="dy, x, k, s, p, d, ceil, j"),
    ),
    "indices_of_an_operator_of_that_name": (
        Code.INDICES_SOURCE,
        max_pool_gradient(forward="y, i = com.microsoft.max_pool2d_with_indices (x, k, s, p, d, ceil)"),
    ),
    "indices_of_the_whole_tensor": (
        Code.INDICES_NUMBERING,
        max_pool_gradient(forward="y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)"),
    ),
    "column_major_indices": (
        Code.STORAGE_ORDER,
        max_pool_gradient(forward=PLANE_INDICES.replace("<kernel", "<storage_order=1, kernel")),
    ),
    # the arguments
    "arguments_differ": (Code.ATTRIBUTE_MISMATCH, max_pool_gradient(operands="dy, x, k, s, s, d, ceil, i")),
    "max_pool_differs": (
        Code.ATTRIBUTE_MISMATCH,
        max_pool_gradient(forward=PLANE_INDICES.replace("[1,1,1,1]", "[1,1,1,0]")),
    ),
    "kernel_from_outside": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(
            inputs="float[2,3,9,12] x, float[2,3,5,6] dy, int64[2] given",
            operands="dy, x, given, s, p, d, ceil, i",
        ),
    ),
    "rounding_from_outside": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(
            inputs="float[2,3,9,12] x, float[2,3,5,6] dy, bool given",
            operands="dy, x, k, s, p, d, given, i",
        ),
    ),
    "forward_kernel_from_outside": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(
            inputs="float[2,3,9,12] x, float[2,3,5,6] dy, int64[2] given", forward=FORWARD.replace("k,", "given,")
        ),
    ),
    "no_kernel": (Code.POOL_ATTRIBUTES, max_pool_gradient(operands='dy, x, "", s, p, d, ceil, i')),
    "stride_zero": (Code.POOL_ATTRIBUTES, max_pool_gradient(constants=CONSTANTS.replace("{2,2}", "{2,0}"))),
    "strides_as_floats": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(constants=CONSTANTS.replace("int64[2] {2,2}", "float[2] {2,2}")),
    ),
    "three_numbers_for_two_axes": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(constants=CONSTANTS.replace("[2] {3,3}", "[3] {3,3,3}")),
    ),
    "symbolic_kernel_with_another_stride": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(
            **{
                **SYMBOLIC_KERNEL,
                "constants": WHOLE_PLANE + "\ns = Constant <value = int64[2] {1,1}> ()",
                "operands": "dy, x, k, s, p, d, ceil, i",
            }
        ),
    ),
    "symbolic_kernel_with_padding": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(**{**SYMBOLIC_KERNEL, "constants": WHOLE_PLANE.replace("{0,0}", "{0,1}")}),
    ),
    "symbolic_kernel_with_dilation": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(**{**SYMBOLIC_KERNEL, "constants": WHOLE_PLANE.replace("{1,1}", "{2,1}")}),
    ),
    "symbolic_kernel_of_other_sizes": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(
            **{
                **SYMBOLIC_KERNEL,
                "constants": WHOLE_PLANE.replace("Shape (x)", "Shape (z)"),
                "inputs": "float[N,C,H,W] x, float[N,C,W,H] z, float[N,C,1,1] dy",
            }
        ),
    ),
    "stride_from_outside": (Code.POOL_ATTRIBUTES, max_pool_gradient(**from_outside("s"))),
    "padding_from_outside": (Code.POOL_ATTRIBUTES, max_pool_gradient(**from_outside("p"))),
    "dilation_from_outside": (Code.POOL_ATTRIBUTES, max_pool_gradient(**from_outside("d"))),
    "kernel_from_outside_as_the_stride": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(
            constants=CONSTANTS.replace("{1,1}", "{0,0}", 1),
            inputs="float[2,3,9,12] x, float[2,3,5,6] dy, int64[n] given",
            operands="dy, x, given, given, p, d, ceil, i",
        ),
    ),
    "less_than_no_padding": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(constants=CONSTANTS.replace("p = Constant <value = int64[2] {1,1}", NEGATIVE)),
    ),
    "two_roundings": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(constants=CONSTANTS.replace("bool {0}", "bool[2] {0,0}")),
    ),
    "symbolic_kernel_of_one_other_size": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(
            **{
                **SYMBOLIC_KERNEL,
                "constants": WHOLE_PLANE.replace("Shape (x)", "Shape (z)"),
                "inputs": "float[N,C,H,W] x, float[N,C,H,V] z, float[N,C,1,1] dy",
            }
        ),
    ),
    "symbolic_kernel_of_three_sizes": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(**{**SYMBOLIC_KERNEL, "constants": WHOLE_PLANE.replace("{2}", "{1}")}),
    ),
    "symbolic_kernel_over_an_unknown_shape": (
        Code.POOL_ATTRIBUTES,
        max_pool_gradient(
            **{
                **SYMBOLIC_KERNEL,
                "constants": WHOLE_PLANE.replace("Shape (x)", "Shape (z)"),
                "forward": f'x = org.pytorch.aten.ATen <operator="silu"> (z)\n{SYMBOLIC_KERNEL["forward"]}',
                "inputs": "float[N,C,H,W] z, float[N,C,1,1] dy",
            }
        ),
    ),
    "one_row_pooled_to_more_than_one": (
        Code.GRAD_SHAPE,
        max_pool_gradient(
            **{
                **SYMBOLIC_KERNEL,
                "inputs": "float[N,C,H,12] x, float[N,C,2,1] dy",
                "outputs": "float[N,C,2,1] y, float[N,C,H,12] dx",
            }
        ),
    ),
    # the operands
    "no_gradient": (Code.ARITY, max_pool_gradient(operands="'', x, k, s, p, d, ceil, i").replace("''", "")),
    "no_x": (Code.ARITY, max_pool_gradient(operands="dy, '', k, s, p, d, ceil, i").replace("''", "")),
    "no_x_and_a_symbolic_kernel": (
        Code.ARITY,
        max_pool_gradient(**{**SYMBOLIC_KERNEL, "operands": "dy, '', k, k, p, d, ceil, i"}).replace("''", ""),
    ),
    "no_indices": (Code.ARITY, max_pool_gradient(operands="dy, x, k, s, p, d, ceil")),
    "nothing_pooled": (Code.INDICES_SOURCE, max_pool_gradient(forward=FORWARD.replace("(x, k", "(, k"))),
    "another_x": (
        Code.DX_SHAPE,
        max_pool_gradient(
            inputs="float[2,3,9,12] x, float[2,3,9,N] z, float[2,3,5,6] dy",
            operands="dy, z, k, s, p, d, ceil, i",
        ),
    ),
    "no_batch": (
        Code.UNBATCHED,
        max_pool_gradient(inputs="float[3,9,12] x, float[3,5,6] dy", outputs="float[3,5,6] y, float[3,9,12] dx"),
    ),
    "another_rank": (
        Code.SPATIAL_RANK,
        max_pool_gradient(inputs="float[2,3,9,12,7] x, float[2,3,5,6] dy", outputs="float[2,3,5,6] y, float dx"),
    ),
    "gradient_of_another_shape": (Code.GRAD_SHAPE, max_pool_gradient(inputs="float[2,3,9,12] x, float[2,3,5,7] dy")),
    "result_of_another_shape": (Code.DX_SHAPE, max_pool_gradient(outputs="float[2,3,5,6] y, float[2,3,12,9] dx")),
    "gradient_of_another_type": (Code.DTYPE_MIX, max_pool_gradient(inputs="float[2,3,9,12] x, float16[2,3,5,6] dy")),
    "double": (
        Code.DTYPE,
        max_pool_gradient(
            inputs="double[2,3,9,12] x, double[2,3,5,6] dy", outputs="double[2,3,5,6] y, double[2,3,9,12] dx"
        ),
    ),
    "unknown_shape": (
        Code.UNKNOWN_SHAPE,
        max_pool_gradient(
            forward=f'x = org.pytorch.aten.ATen <operator="silu"> (w)\n{FORWARD}',
            inputs="float[2,3,9,12] w, float[2,3,5,6] dy",
        ),
    ),
    "unknown_type": (
        Code.UNKNOWN_DTYPE,
        head(17, "local")
        + """
        g (float[2,3,9,12] x, float[2,3,5,6] dy) => (float[2,3,9,12] dx) { dx = Identity (x) }
        <domain: "local", opset_import: ["" : 17, "org.pytorch.aten" : 1]>
        MaxPoolGradient (w, dy) => (dx) {
            shape = Constant <value = int64[4] {2,3,9,12}> ()
            x = Reshape (w, shape)
            """
        + max_pool_gradient().split("{", 1)[1],
    ),
}


@pytest.mark.parametrize(("code", "text"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, text: str, says: Says) -> None:
    says(check_refused(text, code))
