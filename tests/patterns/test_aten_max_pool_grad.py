# SPDX-License-Identifier: Apache-2.0

"""Max-pool gradients as PyTorch's operators: every spelling that is lowered, and to what; near misses and reasons."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.graphs import Written
from tests.heads import head
from tests.patterns.aten_graphs import CONSTANTS, FORWARD, PLANE_INDICES, SIZES, WHOLE_PLANE, max_pool_gradient
from tests.patterns.lowering_checks import NearMisses, check_lowered, check_refused, near_misses
from tests.texts import Says

SYMBOLIC = "float[N,C,H,W] x, float[N,C,OH,OW] dy", "float[N,C,OH,OW] y, float[N,C,H,W] dx"
OPERATOR = "max_pool2d_with_indices_backward"


SPELLINGS = {
    "overload_name": max_pool_gradient(
        backward=f'dx = org.pytorch.aten.ATen <operator="{OPERATOR}", overload_name="">'
    ),
    "op_type": max_pool_gradient(
        forward="y, i = org.pytorch.aten.max_pool2d_with_indices (x, k, s, p, d, ceil)",
        backward=f"dx = org.pytorch.aten.{OPERATOR}",
    ),
    "every_size_symbolic": max_pool_gradient(inputs=SYMBOLIC[0], outputs=SYMBOLIC[1]),
    "half_precision": max_pool_gradient(element="float16"),
    # as the TorchScript exporter writes the forward pool where only the backward call falls back
    "plane_local_indices_of_a_max_pool": max_pool_gradient(forward=PLANE_INDICES),
    "indices_seen_through_copies_and_casts": max_pool_gradient(
        between="j = Cast <to=6> (i)\nc = Identity (j)", operands="dy, x, k, s, p, d, ceil, c"
    ),
}


@pytest.mark.parametrize("source", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(source: str, written: Written) -> None:
    check_lowered(source, written)


@pytest.mark.parametrize("operator", ["max_pool2d_with_indices", "upsample_nearest2d_backward"])
def test_other_operators_are_no_anchors(operator: str) -> None:
    text = max_pool_gradient().replace(OPERATOR, operator)
    assert lower(_parse(text)).report.anchors == ()


def _parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


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
    (Code.CONSTANT_INDICES, "traced_indices"): max_pool_gradient(
        x="1,1,2,2",
        y="1,1,1,1",
        forward="""y = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            i = Constant <value = int64[1,1,1,1] {0}> ()""",
    ),
    (Code.DTYPE_MIX, "indices_as_the_incoming_gradient"): max_pool_gradient(operands="i, x, k, s, p, d, ceil, i"),
    (Code.CONSTANT_INDICES, "traced_indices_as_an_initializer"): max_pool_gradient(
        x="1,1,2,2",
        y="1,1,1,1",
        forward="""y = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            i = Identity (j)""",
        types="int64[1,1,1,1] j = {0}",
    ),
    (Code.INDICES_SOURCE, "indices_with_a_default_that_a_caller_can_override"): max_pool_gradient(
        x="1,1,2,2",
        y="1,1,1,1",
        more="int64[1,1,1,1] j",
        forward="y = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)",
        operands="dy, x, k, s, p, d, ceil, j",
        types="int64[1,1,1,1] j = {0}",
    ),
    (Code.GRAD_SHAPE, "indices_as_rows"): max_pool_gradient(
        forward=PLANE_INDICES,
        between="rows = Constant <value = int64[2] {6,30}> ()\nr = Reshape (i, rows)",
        operands="dy, x, k, s, p, d, ceil, r",
    ),
    (Code.INDICES_SOURCE, "indices_from_outside"): max_pool_gradient(
        more="int64[2,3,5,6] given", operands="dy, x, k, s, p, d, ceil, given"
    ),
    (Code.INDICES_SOURCE, "pooled_values_as_indices"): max_pool_gradient(operands="dy, x, k, s, p, d, ceil, y"),
    (Code.INDICES_SOURCE, "indices_of_another_operator"): max_pool_gradient(
        forward='y, i = org.pytorch.aten.ATen <operator="fractional_max_pool2d"> (x, k)'
    ),
    (Code.INDICES_SOURCE, "indices_rounded_to_a_half_type"): max_pool_gradient(
        between="h = Cast <to=10> (i)\nj = Cast <to=7> (h)", operands="dy, x, k, s, p, d, ceil, j"
    ),
    (Code.INDICES_SOURCE, "indices_changed_by_another_operator"): max_pool_gradient(
        between="j = com.microsoft.Cast <to=7> (i)", operands="dy, x, k, s, p, d, ceil, j"
    ),
    (Code.INDICES_SOURCE, "indices_of_an_operator_of_that_name"): max_pool_gradient(
        forward="y, i = com.microsoft.max_pool2d_with_indices (x, k, s, p, d, ceil)"
    ),
    (Code.INDICES_NUMBERING, "indices_of_the_whole_tensor"): max_pool_gradient(
        forward="y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)"
    ),
    (Code.STORAGE_ORDER, "column_major_indices"): max_pool_gradient(
        forward=PLANE_INDICES.replace("<kernel", "<storage_order=1, kernel")
    ),
    # the arguments
    (Code.ATTRIBUTE_MISMATCH, "arguments_differ"): max_pool_gradient(operands="dy, x, k, s, s, d, ceil, i"),
    (Code.ATTRIBUTE_MISMATCH, "max_pool_differs"): max_pool_gradient(
        forward=PLANE_INDICES.replace("[1,1,1,1]", "[1,1,1,0]")
    ),
    (Code.POOL_ATTRIBUTES, "forward_kernel_from_outside"): max_pool_gradient(
        more="int64[2] given", forward=FORWARD.replace("k,", "given,")
    ),
    (Code.POOL_ATTRIBUTES, "no_kernel"): max_pool_gradient(operands='dy, x, "", s, p, d, ceil, i'),
    (Code.POOL_ATTRIBUTES, "stride_zero"): max_pool_gradient(constants=CONSTANTS.replace("{2,2}", "{2,0}")),
    (Code.POOL_ATTRIBUTES, "strides_as_floats"): max_pool_gradient(
        constants=CONSTANTS.replace("int64[2] {2,2}", "float[2] {2,2}")
    ),
    (Code.POOL_ATTRIBUTES, "three_numbers_for_two_axes"): max_pool_gradient(
        constants=CONSTANTS.replace("[2] {3,3}", "[3] {3,3,3}")
    ),
    (Code.POOL_ATTRIBUTES, "symbolic_kernel_with_another_stride"): max_pool_gradient(
        **{
            **SYMBOLIC_KERNEL,
            "constants": WHOLE_PLANE + "\ns = Constant <value = int64[2] {1,1}> ()",
            "operands": "dy, x, k, s, p, d, ceil, i",
        }
    ),
    (Code.POOL_ATTRIBUTES, "symbolic_kernel_with_padding"): max_pool_gradient(
        **{**SYMBOLIC_KERNEL, "constants": WHOLE_PLANE.replace("{0,0}", "{0,1}")}
    ),
    (Code.POOL_ATTRIBUTES, "symbolic_kernel_with_dilation"): max_pool_gradient(
        **{**SYMBOLIC_KERNEL, "constants": WHOLE_PLANE.replace("{1,1}", "{2,1}")}
    ),
    (Code.POOL_ATTRIBUTES, "symbolic_kernel_of_other_sizes"): max_pool_gradient(
        **{
            **SYMBOLIC_KERNEL,
            "constants": WHOLE_PLANE.replace("Shape (x)", "Shape (z)"),
            "inputs": "float[N,C,H,W] x, float[N,C,W,H] z, float[N,C,1,1] dy",
        }
    ),
    (Code.POOL_ATTRIBUTES, "stride_from_outside"): max_pool_gradient(**from_outside("s")),
    (Code.POOL_ATTRIBUTES, "padding_from_outside"): max_pool_gradient(**from_outside("p")),
    (Code.POOL_ATTRIBUTES, "kernel_from_outside_as_the_stride"): max_pool_gradient(
        more="int64[n] given",
        constants=CONSTANTS.replace("{1,1}", "{0,0}", 1),
        operands="dy, x, given, given, p, d, ceil, i",
    ),
    (Code.POOL_ATTRIBUTES, "less_than_no_padding"): max_pool_gradient(
        constants=CONSTANTS.replace("p = Constant <value = int64[2] {1,1}", NEGATIVE)
    ),
    (Code.POOL_ATTRIBUTES, "two_roundings"): max_pool_gradient(
        constants=CONSTANTS.replace("bool {0}", "bool[2] {0,0}")
    ),
    (Code.POOL_ATTRIBUTES, "symbolic_kernel_of_one_other_size"): max_pool_gradient(
        **{
            **SYMBOLIC_KERNEL,
            "constants": WHOLE_PLANE.replace("Shape (x)", "Shape (z)"),
            "inputs": "float[N,C,H,W] x, float[N,C,H,V] z, float[N,C,1,1] dy",
        }
    ),
    (Code.POOL_ATTRIBUTES, "symbolic_kernel_of_three_sizes"): max_pool_gradient(
        **{**SYMBOLIC_KERNEL, "constants": WHOLE_PLANE.replace("{2}", "{1}")}
    ),
    (Code.POOL_ATTRIBUTES, "symbolic_kernel_over_an_unknown_shape"): max_pool_gradient(
        **{
            **SYMBOLIC_KERNEL,
            "constants": WHOLE_PLANE.replace("Shape (x)", "Shape (z)"),
            "forward": f'x = org.pytorch.aten.ATen <operator="silu"> (z)\n{SYMBOLIC_KERNEL["forward"]}',
            "inputs": "float[N,C,H,W] z, float[N,C,1,1] dy",
        }
    ),
    (Code.GRAD_SHAPE, "one_row_pooled_to_more_than_one"): max_pool_gradient(
        **{
            **SYMBOLIC_KERNEL,
            "inputs": "float[N,C,H,12] x, float[N,C,2,1] dy",
            "outputs": "float[N,C,2,1] y, float[N,C,H,12] dx",
        }
    ),
    # the operands
    (Code.ARITY, "no_x_and_a_symbolic_kernel"): max_pool_gradient(
        **{**SYMBOLIC_KERNEL, "operands": "dy, '', k, k, p, d, ceil, i"}
    ).replace("''", ""),
    (Code.INDICES_SOURCE, "nothing_pooled"): max_pool_gradient(forward=FORWARD.replace("(x, k", "(, k")),
    (Code.DX_SHAPE, "another_x"): max_pool_gradient(
        inputs="float[2,3,9,12] x, float[2,3,9,N] z, float[2,3,5,6] dy", operands="dy, z, k, s, p, d, ceil, i"
    ),
    (Code.UNBATCHED, "no_batch"): max_pool_gradient(x="3,9,12", y="3,5,6"),
    (Code.SPATIAL_RANK, "another_rank"): max_pool_gradient(
        inputs="float[2,3,9,12,7] x, float[2,3,5,6] dy", outputs="float[2,3,5,6] y, float dx"
    ),
    (Code.GRAD_SHAPE, "gradient_of_another_shape"): max_pool_gradient(inputs="float[2,3,9,12] x, float[2,3,5,7] dy"),
    (Code.DX_SHAPE, "result_of_another_shape"): max_pool_gradient(outputs="float[2,3,5,6] y, float[2,3,12,9] dx"),
    (Code.DTYPE_MIX, "gradient_of_another_type"): max_pool_gradient(inputs="float[2,3,9,12] x, float16[2,3,5,6] dy"),
    (Code.UNKNOWN_SHAPE, "unknown_shape"): max_pool_gradient(
        forward=f'x = org.pytorch.aten.ATen <operator="silu"> (w)\n{FORWARD}',
        inputs="float[2,3,9,12] w, float[2,3,5,6] dy",
    ),
    (Code.UNKNOWN_DTYPE, "unknown_type"): head(17, "local")
    + """
        g (float[2,3,9,12] x, float[2,3,5,6] dy) => (float[2,3,9,12] dx) { dx = Identity (x) }
        <domain: "local", opset_import: ["" : 17, "org.pytorch.aten" : 1]>
        MaxPoolGradient (w, dy) => (dx) {
            shape = Constant <value = int64[4] {2,3,9,12}> ()
            x = Reshape (w, shape)
            """
    + max_pool_gradient().split("{", 1)[1],
}


@pytest.mark.parametrize(("code", "text"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, text: str, says: Says) -> None:
    says(check_refused(text, code))
