# SPDX-License-Identifier: Apache-2.0

"""PyTorch's gradients of average pools as ATen nodes, text in and node out; near misses and reasons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.oracles import adaptive_windows
from tests.oracles.training_operators import average_windows_grad
from tests.patterns.average_checks import check_average, of_pool
from tests.patterns.lowering_checks import NearMisses, check_refused, near_misses
from tests.texts import Says

X = (2, 3, 9, 12)
ADAPTIVE = "_adaptive_avg_pool2d_backward"


def gradient(
    *,
    kernel: str = "{3,3}",
    stride: str = "{2,2}",
    padding: str = "{1,1}",
    ceil: int = 0,
    counts: int = 1,
    divisor: str = "",
    operator: str = "avg_pool2d_backward",
    shape: str = "2,3,9,12",
    pooled: str = "2,3,5,6",
    backward: str = "",
    more: str = "",
) -> str:
    """Return the text of the form with windows, some of its parts replaced."""
    steps = stride if "[" in stride else f"int64[{stride.count(',') + 1 if stride != '{}' else 0}] {stride}"
    node = backward or f'dx = org.pytorch.aten.ATen <operator = "{operator}"> (dy, x, k, s, p, c, i, {divisor})'
    return f"""<ir_version: 8, opset_import: ["" : 17, "org.pytorch.aten" : 1]>
    g (float[{shape}] x, float[{pooled}] dy) => (float[{shape}] dx) {{
        k = Constant <value = int64[{kernel.count(",") + 1}] {kernel}> ()
        s = Constant <value = {steps}> ()
        p = Constant <value = int64[{padding.count(",") + 1}] {padding}> ()
        c = Constant <value = bool {{{ceil}}}> ()
        i = Constant <value = bool {{{counts}}}> ()
        {more}
        {node}
    }}"""


def adaptive(shape: str, pooled: str, operator: str = ADAPTIVE) -> str:
    """Return the text of the form with windows of adaptive pooling."""
    return f"""<ir_version: 8, opset_import: ["" : 17, "org.pytorch.aten" : 1]>
    g (float[{shape}] x, float[{pooled}] dy) => (float[{shape}] dx) {{
        dx = org.pytorch.aten.ATen <operator = "{operator}"> (dy, x)
    }}"""


WINDOWS = {
    "the padding counts": (gradient(), of_pool(X, (3, 3), (2, 2), (1,) * 4, counts_padding=True), 1),
    "the padding does not count": (gradient(counts=0), of_pool(X, (3, 3), (2, 2), (1,) * 4), 0),
    "the stride is the kernel": (
        gradient(stride="{}", padding="{0}", pooled="2,3,3,4"), of_pool(X, (3, 3), (3, 3), counts_padding=True), 1),
    "the stride is the kernel, as the older exporter stores it": (
        gradient(stride="float[0] {}", padding="{0}", pooled="2,3,3,4"),
        of_pool(X, (3, 3), (3, 3), counts_padding=True), 1),
    "one number": (
        gradient(kernel="{3}", stride="{2}", padding="{1}", counts=0), of_pool(X, (3, 3), (2, 2), (1,) * 4), 0),
    "rounded up": (
        gradient(stride="{3,5}", ceil=1, pooled="2,3,4,3"), of_pool(X, (3, 3), (3, 5), (1,) * 4, counts_padding=True),
        1),
    "a divisor": (
        gradient(divisor="d", more="d = Constant <value = int64 {5}> ()"),
        of_pool(X, (3, 3), (2, 2), (1,) * 4, divisor=5), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str) -> None:
    text, expected, counts = WINDOWS[name]
    override = 5 if "divisor" in name else 0
    attributes = {"count_include_pad": counts, "divisor_override": override}
    check_average(text, expected, op="AvgPool3DGrad", attributes=attributes)
    exclusive = {"exclusive": 1 - counts, "divisor_override": override}
    check_average(text, expected, op="AvgPoolV2Grad", target="ascend950", attributes=exclusive)


def averages(x_shape: Sequence[int], counts: Sequence[int], grad: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    windows = [adaptive_windows(*axis) for axis in zip(x_shape[2:], counts, strict=True)]
    return np.asarray(average_windows_grad(grad.astype(np.float64), x_shape, windows))


def test_a_kernel_of_the_sizes_of_x() -> None:
    """A pool over whole planes of any size: ORTModule exports its kernel as the sizes of x."""
    more = """xs = Shape (x) two = Constant <value = int64[1] {2}> () four = Constant <value = int64[1] {4}> ()
        ks = Slice (xs, two, four)"""
    node = 'dx = org.pytorch.aten.ATen <operator = "avg_pool2d_backward"> (dy, x, ks, ks, p, c, i, )'
    text = gradient(more=more, backward=node, padding="{0,0}", shape="N,3,H,W", pooled="N,3,1,1")
    sizes = {"N": 2, "H": 3, "W": 4}
    check_average(text, lambda grad: averages((2, 3, 3, 4), (1, 1), grad), op="AdaptiveAvgPool3dGrad", sizes=sizes)


NEAR_MISSES: NearMisses = {
    (Code.POOL_ATTRIBUTES, "a_kernel_that_is_no_constant"): gradient(
        backward='dx = org.pytorch.aten.ATen <operator = "avg_pool2d_backward"> (dy, x, n, s, p, c, i, )'
    ).replace("x, float", "x, int64[2] n, float"),
    (Code.POOL_ATTRIBUTES, "a_divisor_of_zero"): gradient(divisor="d", more="d = Constant <value = int64 {0}> ()"),
    (Code.SPATIAL_RANK, "another_rank"): gradient(shape="2,9", pooled="2,5"),
    (Code.GRAD_SHAPE, "another_number_of_windows"): gradient(pooled="2,3,4,6"),
    (Code.ARITY, "no_x"): gradient(
        backward='dx = org.pytorch.aten.ATen <operator = "avg_pool2d_backward"> (dy, , k, s, p, c, i, )'
    ),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_refused(code: Code, model: str, says: Says) -> None:
    says(check_refused(model, code))


@pytest.mark.refusal("more-windows")
def test_more_windows_than_elements_of_a_symbolic_batch(says: Says) -> None:
    assert lower(onnx.parser.parse_model(adaptive("2,3,4,4", "2,3,5,4"))).report.lowered
    says(check_refused(adaptive("N,3,4,4", "N,3,5,4"), Code.MORE_WINDOWS))
