# SPDX-License-Identifier: Apache-2.0

"""Models of one operator of a training runtime, and what they are after lowering with `standard`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, helper, numpy_helper

import poolgrad_lowering
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Value

Array = npt.NDArray[Any]
Shape = Sequence[int | str | None] | None

DOMAINS = ("com.microsoft", "org.pytorch.aten")
WITHOUT_OPERATORS = "atlas-training"
"""A product that has none of the dialect's operators, so that gradients of pools stay for their definitions."""
TOLERANCES = {
    # Sums of up to some hundred terms in another order than the float64 of the oracles: some hundred units of 2^-24.
    np.dtype(np.float32): 2e-5,
    # A definition rounds to float16 after each of up to ten operations, by 2^-11 of the value each time.
    np.dtype(np.float16): 6e-3,
    # As float32, with units of 2^-53.
    np.dtype(np.float64): 1e-12,
}


def one_node(
    op_type: str,
    feeds: Mapping[str, Array | None],
    outputs: Mapping[str, Array],
    *,
    constants: Sequence[str] = (),
    shapes: Mapping[str, Shape] | None = None,
    domain: str = "com.microsoft",
    opset: int = 18,
    **attributes: Any,
) -> ModelProto:
    """A model with one node.

    `feeds` are its operands in order: graph inputs, initializers if among `constants`, absent if None. `outputs` are
    like its results. `shapes` declares other shapes than those of the arrays.
    """
    shapes = shapes or {}
    given = {name: array for name, array in feeds.items() if array is not None}
    node = helper.make_node(
        op_type,
        [name if name in given else "" for name in feeds],
        list(outputs),
        name="node",
        domain=domain,
        **attributes,
    )
    graph = helper.make_graph(
        [node],
        "g",
        [declared(name, array, shapes) for name, array in given.items() if name not in constants],
        [declared(name, array, shapes) for name, array in outputs.items()],
        [numpy_helper.from_array(given[name], name) for name in constants if name in given],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in DOMAINS)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def declared(name: str, array: Array, shapes: Mapping[str, Shape]) -> onnx.ValueInfoProto:
    """The declaration of a value like an array, with the shape of `shapes` if that has one."""
    shape: Shape = shapes[name] if name in shapes else list(array.shape)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)


def standardised(model: ModelProto) -> ModelProto:
    """The model in standard ONNX, of which nothing is left and which onnx finds sound."""
    before = model.SerializeToString()
    result = poolgrad_lowering.lower(model, target=WITHOUT_OPERATORS, standard=True)
    assert model.SerializeToString() == before
    assert result.report.standard is not None
    assert not result.report.standard.left
    onnx.checker.check_model(result.model, full_check=True)
    nodes = [node for node in result.model.graph.node if node.domain != "npu"]
    assert all(onnx.defs.has(node.op_type, node.domain) for node in nodes)
    return result.model


def assert_derived(model: ModelProto, found: Mapping[str, Array], *, unknown: bool = False) -> None:
    """Require that the shapes and types of results follow from the model alone, without what it declares of them.

    `unknown`: whether sizes depend on values, or are symbolic, so that some of them may be unknown.
    """
    bare = ModelProto.FromString(model.SerializeToString())
    for value in bare.graph.output:
        value.ClearField("type")
    index = ModelIndex(bare)
    facts, scope = Facts(index), index.scopes[0]
    for name, array in found.items():
        derived = Value(scope, name)
        shape = facts.shape(derived)
        assert shape is not None, name
        sizes = [dim.static for dim in shape]
        assert len(sizes) == array.ndim, name
        assert unknown or None not in sizes, (name, shape)
        assert all(size in {None, extent} for size, extent in zip(sizes, array.shape, strict=True)), (name, shape)
        assert facts.element_type(derived) == helper.np_dtype_to_tensor_dtype(array.dtype), name


def assert_close(found: Array, expected: Array, dtype: npt.DTypeLike, tolerance: float | None = None) -> None:
    """Require dtype and shape, and differences that are small relative to the largest element."""
    assert found.dtype == dtype
    assert found.shape == expected.shape
    limit = (TOLERANCES[np.dtype(dtype)] if tolerance is None else tolerance) * max(
        1.0, float(np.abs(expected).max(initial=0))
    )
    difference = float(np.abs(found.astype(np.float64) - expected).max(initial=0))
    assert difference <= limit, f"differs by {difference}, more than {limit}"
