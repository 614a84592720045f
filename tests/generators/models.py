# SPDX-License-Identifier: Apache-2.0

"""Builds the model of a plan, its feeds, and its expected results by definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from tests.generators.decoys import DECOYS
from tests.generators.forms import FORMS, loses_gradients
from tests.generators.plans import SPECIAL_TERMS, SPECIAL_VALUES, Plan, Root, Site
from tests.generators.windows import AxisWindow
from tests.generators.writer import Writer
from tests.oracles import pool_gradient

Array = npt.NDArray[Any]
DOMAINS = ("org.pytorch.aten", "npu")


def build(plan: Plan) -> ModelProto:
    """The model: inputs `r0x`, `r0s0dy`, … and outputs `r0s0dx`, …, one of each root's sites."""
    write = Writer(plan.opset, constant_nodes=plan.constant_nodes)
    inputs: list[ValueInfoProto] = []
    inner: list[ValueInfoProto] = []
    outputs: list[ValueInfoProto] = []
    for number, root in enumerate(plan.roots):
        _RootWriter(write, plan, root, f"r{number}", inputs, inner, outputs).write_all()
    for number, (name, choice) in enumerate(plan.decoys):
        operands = [f"d{number}i{position}" for position in range(len(DECOYS[name].inputs))]
        for operand, (element_type, shape) in zip(operands, DECOYS[name].inputs, strict=True):
            inputs.append(helper.make_tensor_value_info(operand, element_type, shape))
        made = DECOYS[name].write(write.under(f"decoy{number}/"), choice, *operands)
        write.nodes.append(helper.make_node("Identity", [made], [f"d{number}"], name=f"d{number}"))
        outputs.append(helper.make_tensor_value_info(f"d{number}", TensorProto.FLOAT, [None] * DECOYS[name].rank))
    graph = helper.make_graph(write.nodes, "training", inputs, outputs, write.initializers, value_info=inner)
    imports = [helper.make_opsetid("", plan.opset), *(helper.make_opsetid(domain, 1) for domain in DOMAINS)]
    oldest: int = helper.find_min_ir_version_for(imports[:1], ignore_unknown=True)
    return helper.make_model(graph, opset_imports=imports, ir_version=max(oldest, 8))


@dataclass(frozen=True)
class _RootWriter:
    """Writes the sites over one input, and declares the types of values that inference does not find."""

    write: Writer
    plan: Plan
    root: Root
    name: str
    inputs: list[ValueInfoProto]
    inner: list[ValueInfoProto]
    outputs: list[ValueInfoProto]

    @property
    def edge(self) -> int:
        """The element type of the graph's inputs and outputs."""
        return TensorProto.FLOAT if self.root.cast else self.root.element_type

    def write_all(self) -> None:
        x = self._entering(f"{self.name}x", self.root.x_shape)
        for number, site in enumerate(self.root.sites):
            result = f"{self.name}s{number}dx"
            dx = self._write_site(site, f"{self.name}s{number}", x)
            self.outputs.append(self._declared(result, self.root.x_shape, self.edge))
            leaving = {"op_type": "Cast", "to": self.edge} if self.root.cast else {"op_type": "Identity"}
            self.write.nodes.append(helper.make_node(inputs=[dx], outputs=[result], name=result, **leaving))

    def _write_site(self, site: Site, name: str, x: str) -> str:
        """Write a pool, the pools over its output, and its gradient, of its own dy or of those pools' gradients."""
        y, backward = FORMS[site.form].write(self.write.under(f"{name}/"), site.pooling, x)
        pooling = site.pooling
        returned = [self._write_site(child, f"{name}c{number}", y) for number, child in enumerate(site.children)]
        over_batch = isinstance(pooling.windows, AxisWindow) and pooling.windows.axis == 0  # then dy has no batch
        dx = backward(returned[0] if returned else self._entering(f"{name}dy", grad_shape(site), batch=not over_batch))
        for value, named, shape in ((y, "y", pooling.pooled_shape), (dx, "dx", pooling.x_shape)):
            if named in FORMS[site.form].declares:
                self.inner.append(self._declared(value, shape, self.root.element_type))
        return dx

    def _entering(self, value: str, shape: Sequence[int], *, batch: bool = True) -> str:
        self.inputs.append(self._declared(value, shape, self.edge, batch=batch))
        return self.write("Cast", value, to=self.root.element_type) if self.root.cast else value

    def _declared(self, value: str, shape: Sequence[int], element_type: int, *, batch: bool = True) -> ValueInfoProto:
        first = [f"{self.name}batch"] if self.plan.symbols and batch else shape[:1]
        spatial = [f"{value}{axis}" for axis in range(2, len(shape))] if self.plan.symbols == 2 else shape[2:]
        return helper.make_tensor_value_info(value, element_type, [*first, *shape[1:2], *spatial])


def grad_shape(site: Site) -> tuple[int, ...]:
    """The shape of the incoming gradient: that of the pool's output, without the reduced axis if the form drops it."""
    shape, windows = site.pooling.pooled_shape, site.pooling.windows
    if isinstance(windows, AxisWindow) and not site.pooling.spelling.extra:
        return shape[: windows.axis] + shape[windows.axis + 1 :]
    return shape


def feeds(plan: Plan) -> dict[str, Array]:
    """Values for every input."""
    given: dict[str, Array] = {}
    for number, root in enumerate(plan.roots):
        dtype = np.dtype(np.float32) if root.cast else helper.tensor_dtype_to_np_dtype(root.element_type)
        given[f"r{number}x"] = _repeated(SPECIAL_VALUES, root.values, root.x_shape, dtype)
        for name, site in plan.sites():
            if name.startswith(f"r{number}s") and not site.children:
                given[f"{name}dy"] = _repeated(SPECIAL_TERMS, site.terms, grad_shape(site), dtype)
    for number, (name, _) in enumerate(plan.decoys):
        for position, (element_type, shape) in enumerate(DECOYS[name].inputs):
            numbers = np.arange(np.prod(shape)).reshape(shape) * 7 % 4
            given[f"d{number}i{position}"] = numbers.astype(helper.tensor_dtype_to_np_dtype(element_type))
    return given


def _repeated(palette: Sequence[float], chosen: Sequence[int], shape: Sequence[int], dtype: Any) -> Array:
    """The chosen values, repeated."""
    return _to(np.resize(np.array(palette)[list(chosen)], tuple(shape)), dtype)


def _to(values: Array, dtype: Any) -> Array:
    """The values converted to another type; values out of its range become infinite."""
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def results(plan: Plan) -> dict[str, Array]:
    """The outputs of all sites by the definition, without those whose overwriting scatter is not a gradient."""
    given, expected = feeds(plan), {}
    for number, root in enumerate(plan.roots):
        own = helper.tensor_dtype_to_np_dtype(root.element_type)
        x = given[f"r{number}x"]
        for position, site in enumerate(root.sites):
            name = f"r{number}s{position}"
            if not _is_gradient(site):
                continue
            expected[f"{name}dx"] = _gradient(site, name, x.astype(own), given, own).astype(x.dtype)
    return expected


def _is_gradient(site: Site) -> bool:
    return not loses_gradients(site.form, site.pooling) and all(map(_is_gradient, site.children))


def _gradient(site: Site, name: str, x: Array, given: dict[str, Array], dtype: Any) -> Array:
    y, indices = site.pooling.windows.record(x)
    returned = [_gradient(child, f"{name}c{number}", y, given, dtype) for number, child in enumerate(site.children)]
    dy = returned[0] if returned else _to(given[f"{name}dy"], dtype).reshape(y.shape)
    with np.errstate(all="ignore"):
        return pool_gradient(x.shape, dy, indices)
