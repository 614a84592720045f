# SPDX-License-Identifier: Apache-2.0

"""What `lower` must do with the gradient of an average pool: the node, and the numbers of the definition.

Gradients are multiples of all divisors, so that quotients and sums are exact in any order: results have the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, helper

from poolgrad_lowering import lower, verify
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.oracles.training_operators import average_pool_grad
from tests.patterns.lowering_checks import check_well_formed

Array = npt.NDArray[Any]
_MULTIPLE = math.lcm(*range(1, 13))


def of_pool(
    x_shape: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...] = (),
    **counting: Any,
) -> Callable[[Array], Array]:
    """Return the definition of a gradient with these windows; `pads` as ONNX has them. dx may be channels last."""
    axes = len(kernel)
    pads = pads or (0,) * 2 * axes
    windows: dict[str, Any] = {"kernel": kernel, "strides": strides, "begins": pads[:axes], "ends": pads[axes:]}
    settings = {"counts_padding": False} | counting
    return lambda grad: average_pool_grad(grad, x_shape, **windows, **settings)


def check_average(
    source: str | onnx.ModelProto,
    expected: Callable[[Array], Array],
    *,
    op: str,
    target: str = "atlas-a2",
    attributes: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    channels_last: bool = False,
    is_verified: bool = True,
) -> list[NodeProto]:
    """Assert that the gradient `dx` of `dy` becomes `op` with these attributes, and computes what is expected.

    `sizes` are those of the symbols of the text. `verify` must prove it, unless its evaluator cannot run the form.
    Returns the nodes of the lowered graph.
    """
    model = onnx.parser.parse_model(source) if isinstance(source, str) else source
    before = model.SerializeToString()
    result = lower(model, target=target)
    [anchor] = [anchor for anchor in result.report.anchors if anchor.status == "lowered"]
    assert anchor.op == op, anchor
    [node] = [node for node in result.model.graph.node if node.domain == "npu"]
    found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    for name, value in (attributes or {}).items():
        assert found[name] == value, (name, found[name])
    assert model.SerializeToString() == before
    check_well_formed(model, result.model, target)
    if is_verified:
        [site] = verify(model, result.model, whole_model=False).sites
        assert site.status == "proven", site
    _run(result.model, expected, sizes or {}, channels_last=channels_last)
    return list(result.model.graph.node)


def _run(
    lowered: onnx.ModelProto,
    expected: Callable[[Array], Array],
    sizes: Mapping[str, int],
    *,
    channels_last: bool,
) -> None:
    random = np.random.default_rng(0)
    feeds = {}
    for value in lowered.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value if dim.HasField("dim_value") else sizes[dim.dim_param] for dim in tensor.shape.dim]
        drawn = random.integers(-8, 9, shape) * (_MULTIPLE if value.name == "dy" else 1)
        feeds[value.name] = drawn.astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    grad = np.moveaxis(feeds["dy"], -1, 1) if channels_last else feeds["dy"]
    wanted = expected(grad)
    wanted = (np.moveaxis(wanted, 1, -1) if channels_last else wanted).astype(feeds["dy"].dtype)
    for run in (run_reference, run_ort):
        assert_same_bits(run(lowered, feeds)["dx"], wanted)
