# SPDX-License-Identifier: Apache-2.0

"""The models of drawn gradients of average pools, in ONNX's messages, and what must hold of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from poolgrad_lowering import LoweringResult, lower, verify
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.generators.average_plans import BFLOAT, FLOAT, HALF, Array, AveragePlan, gathered_windows
from tests.oracles import assert_same_bits, run_ort, run_reference

ATEN = "org.pytorch.aten"


class _Graph:
    """A graph under construction, in ONNX's messages; the edges are float32 where the type is bfloat16."""

    def __init__(self, plan: AveragePlan) -> None:
        self.plan = plan
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def node(self, op: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], domain=domain, name=output, **attributes))
        return output

    def constant(self, name: str, values: Any, dtype: Any = np.int64) -> str:
        return self._stored(name, np.array(values, dtype))

    def computed(self, name: str, values: Any, dtype: Any = np.int64) -> str:
        """A constant that nodes compute if the plan says so."""
        array = np.array(values, dtype)
        if not self.plan.computed:
            return self._stored(name, array)
        if array.dtype == np.bool_:
            return self.node("Not", [self._stored(f"not_{name}", ~array)], name)
        if array.ndim and (array == array.flat[0]).all():
            shape, value = self._stored(f"{name}_shape", np.array(array.shape)), array.reshape(-1)[:1]
            if self.plan.seed % 2:
                return self.node("ConstantOfShape", [shape], name, value=numpy_helper.from_array(value))
            return self.node("Expand", [self._stored(f"one_{name}", value.reshape(())), shape], name)
        if array.dtype == np.float32:
            half, two = (
                self._stored(f"half_{name}", np.asarray(array / 2, np.float32)),
                self._stored(f"two_{name}", np.array(2, np.float32)),
            )
            return self.node("Mul", [half, two], name)
        one = self._stored(f"one_{name}", np.array(1, array.dtype))
        return self.node("Sub", [self._stored(f"more_{name}", array + 1), one], name)

    def _stored(self, name: str, array: Array) -> str:
        if self.plan.bare:
            return self.node("Constant", [], name, value=numpy_helper.from_array(array, name))
        self.initializers.append(numpy_helper.from_array(array, name))
        return name


def build_average(plan: AveragePlan) -> ModelProto:
    """The model: dy, and x where the form reads it -> dx."""
    graph = _Graph(plan)
    narrow = plan.element_type == BFLOAT
    edge = FLOAT if narrow else plan.element_type
    x_shape, pooled = _named(plan, plan.x_shape, "x"), _named(plan, plan.pooled_shape, "y")
    grad = graph.node("Cast", ["dy"], "dy_narrow", to=BFLOAT) if narrow else "dy"
    x = "x"
    reads_x = plan.form in ("aten", "aten adaptive") or plan.form == "ort"
    if reads_x and narrow:
        x = graph.node("Cast", ["x"], "x_narrow", to=BFLOAT)
    dx = "dx_narrow" if narrow else "dx"
    _WRITERS[plan.form](graph, grad, x, dx)
    if narrow:
        graph.node("Cast", [dx], "dx", to=FLOAT)
    inputs = [helper.make_tensor_value_info("dy", edge, pooled)]
    if reads_x:
        inputs.append(helper.make_tensor_value_info("x", edge, x_shape))
    outputs = [helper.make_tensor_value_info("dx", edge, x_shape)]
    made = helper.make_graph(graph.nodes, "g", inputs, outputs, graph.initializers)
    if narrow:
        made.value_info.append(helper.make_tensor_value_info(dx, BFLOAT, x_shape))
    opsets = [helper.make_opsetid("", plan.opset), helper.make_opsetid(ATEN, 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=8)


def _named(plan: AveragePlan, shape: tuple[int, ...], prefix: str) -> list[int | str]:
    names: list[int | str] = list(shape)
    if plan.symbols:
        names[0] = "N"
    if plan.symbols == 2 and plan.leading == 2:
        names[2:] = [f"{prefix}{axis}" for axis in range(len(plan.axes))]
    names[:2] = plan.outer(names[0])
    return [*names[:1], *names[2:], names[1]] if plan.channels_last else names


def _ort(graph: _Graph, grad: str, x: str, dx: str) -> None:
    plan = graph.plan
    attributes: dict[str, Any] = {"kernel_shape": [axis.kernel for axis in plan.axes]}
    attributes["strides"] = [axis.stride for axis in plan.axes]
    if plan.auto_pad == "NOTSET":
        attributes["pads"] = [axis.begin for axis in plan.axes] + [axis.end for axis in plan.axes]
    else:
        attributes["auto_pad"] = plan.auto_pad
    attributes |= {"ceil_mode": int(plan.ceil), "count_include_pad": int(plan.padded)}
    if plan.symbols == 2 or not plan.bare:
        graph.node("AveragePool", [x], "y", **attributes)
    graph.node("AveragePoolGrad", [grad], dx, **attributes)


def _aten(graph: _Graph, grad: str, x: str, dx: str) -> None:
    plan, rank = graph.plan, len(graph.plan.axes)
    kernel, strides = [axis.kernel for axis in plan.axes], [axis.stride for axis in plan.axes]
    is_default = strides == kernel and plan.bare  # which the older exporter stores as no floats
    arguments = [
        graph.constant("k", kernel),
        graph.constant("s", [] if is_default else strides, np.float32 if is_default else np.int64),
        graph.constant("p", [axis.begin for axis in plan.axes]),
        graph.constant("c", plan.ceil, np.bool_),
        graph.constant("i", plan.padded, np.bool_),
        graph.constant("d", plan.divisor) if plan.divisor else "",
    ]
    graph.node("ATen", [grad, x, *arguments], dx, ATEN, operator=f"avg_pool{rank}d_backward")


def _aten_adaptive(graph: _Graph, grad: str, x: str, dx: str) -> None:
    rank = len(graph.plan.axes)
    graph.node("ATen", [grad, x], dx, ATEN, operator=f"_adaptive_avg_pool{rank}d_backward")


def _tensorflow(graph: _Graph, grad: str, _: str, dx: str) -> None:
    plan = graph.plan
    rank, last = len(plan.axes), plan.channels_last

    def wide(values: list[int]) -> list[int]:
        return [1, *values, 1] if last else [1, 1, *values]

    shape = [plan.x_shape[0], *plan.x_shape[2:], plan.x_shape[1]] if last else list(plan.x_shape)
    letters = {2: "HW", 3: "DHW"}[rank]
    sizes = graph.constant("sizes", shape, np.int32)
    if plan.symbols:
        graph.node("Shape", [grad], "grad_shape")
        graph.node("Cast", ["grad_shape"], "grad_sizes", to=TensorProto.INT32)
        graph.node("Gather", ["grad_sizes", graph.constant("zero", [0])], "n")
        sizes = graph.node("Concat", ["n", graph.constant("rest", shape[1:], np.int32)], "all_sizes", axis=0)
    graph.node(
        "AvgPoolGrad" if rank == 2 else "AvgPool3DGrad",
        [sizes, grad],
        dx,
        ksize=wide([axis.kernel for axis in plan.axes]),
        strides=wide([axis.stride for axis in plan.axes]),
        padding="VALID" if plan.auto_pad == "VALID" else "SAME",
        data_format=f"N{letters}C" if last else f"NC{letters}",
    )


def _divided(graph: _Graph, grad: str) -> tuple[str, float]:
    """Write the division by the windows' divisors, and return what it makes, and by what is still to be multiplied."""
    plan = graph.plan
    wide = graph.node("Cast", [grad], "wide", to=FLOAT) if plan.element_type != FLOAT else grad
    divisors = plan.divisors().astype(np.float32)
    first = divisors.flat[0]
    if plan.scale == "div" or (divisors != first).any() or plan.divisor:
        return graph.node("Div", [wide, graph.computed("d", divisors, np.float32)], "mean"), 1.0
    if plan.scale == "mul":
        return graph.node("Mul", [graph.computed("d", np.float32(1) / first, np.float32), wide], "mean"), 1.0
    return wide, float(np.float32(1) / first)


def _behind(graph: _Graph, value: str, left: float) -> str:
    """Write the division behind the sums, if the plan has it there."""
    if left == 1.0:
        return value
    if graph.plan.scale == "behind":
        return graph.node("Div", [value, graph.computed("d", round(1 / left), np.float32)], "divided")
    return graph.node("Mul", [value, graph.computed("d", left, np.float32)], "divided")


def _torch(graph: _Graph, grad: str, _: str, dx: str) -> None:
    """As `poolgrad_lowering.torch` writes it, or with one group for each channel and the pads of ConvTranspose."""
    plan, rank = graph.plan, len(graph.plan.axes)
    mean, left = _divided(graph, grad)
    kernel, strides = [axis.kernel for axis in plan.axes], [axis.stride for axis in plan.axes]
    counts = plan.pooled_shape[2:]
    groups = plan.batch[1] if plan.seed % 2 and plan.leading == 2 else 1
    if groups == 1:
        mean = graph.node("Reshape", [mean, graph.constant("ps", [-1, 1, *counts])], "planes")
    in_weight = plan.scale == "weight"
    weight = graph.computed("w", np.full((groups, 1, *kernel), left if in_weight else 1), np.float32)
    made = [(count - 1) * step + taps for count, step, taps in zip(counts, strides, kernel, strict=True)]
    begins = [axis.begin for axis in plan.axes]
    ends = [size - (axis.size + axis.begin) for size, axis in zip(made, plan.axes, strict=True)]
    if plan.seed % 3 == 0 and min(ends) >= 0:
        sums = graph.node("ConvTranspose", [mean, weight], "sums", strides=strides, pads=[*begins, *ends], group=groups)
    else:
        sums = graph.node("ConvTranspose", [mean, weight], "sums", strides=strides, group=groups)
        axes = list(range(2, rank + 2))
        stops = [axis.size + axis.begin for axis in plan.axes]
        names = [graph.constant(name, values) for name, values in (("b", begins), ("e", stops), ("a", axes))]
        sums = graph.node("Slice", [sums, *names], "cut")
        if min(ends) < 0:
            pads = [0] * (rank + 2) + [0, 0, *(max(-end, 0) for end in ends)]
            sums = graph.node("Pad", [sums, graph.constant("pads", pads)], "padded")
    _write_result(graph, _behind(graph, sums, 1.0 if in_weight else left), dx)


def _write_result(graph: _Graph, sums: str, dx: str) -> None:
    """Write the view as dx, and the Cast."""
    plan = graph.plan
    shape = graph.constant("xs", [*plan.outer(-1 if plan.symbols else plan.batch[0]), *plan.x_shape[2:]])
    if plan.element_type == FLOAT:
        graph.node("Reshape", [sums, shape], dx)
    else:
        graph.node("Cast", [graph.node("Reshape", [sums, shape], "wide_dx")], dx, to=plan.element_type)


def _torch_adaptive(graph: _Graph, grad: str, _: str, dx: str) -> None:
    plan = graph.plan
    outer = plan.outer(-1 if plan.symbols else plan.batch[0])
    wide = graph.node("Cast", [grad], "wide", to=FLOAT) if plan.element_type != FLOAT else grad
    table, mask = gathered_windows([axis.size for axis in plan.axes], [axis.windows(ceil=False) for axis in plan.axes])
    mean = graph.node("Div", [wide, graph.computed("d", plan.divisors(), np.float32)], "mean")
    flat = graph.node("Reshape", [mean, graph.constant("fs", [*outer, math.prod(plan.pooled_shape[2:])])], "flat")
    picked = graph.node("Gather", [flat, graph.computed("t", np.reshape(table, -1))], "picked", axis=-1)
    shape = graph.constant("gs", [*outer, *mask.shape])
    gathered = graph.node("Reshape", [picked, shape], "gathered")
    nothing = graph.constant("nothing", 0.0, np.float32)
    kept = graph.node("Where", [graph.computed("m", mask, np.bool_), gathered, nothing], "kept")
    if plan.opset < 13:
        sums = graph.node("ReduceSum", [kept], "sums", axes=[-1], keepdims=0)
    else:
        sums = graph.node("ReduceSum", [kept, graph.constant("last", [-1])], "sums", keepdims=0)
    _write_result(graph, sums, dx)


def _resize(graph: _Graph, grad: str, _: str, dx: str) -> None:
    """The nearest element, in each way that repeats all alike."""
    plan = graph.plan
    mean, left = _divided(graph, grad)
    ways = [("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("pytorch_half_pixel", "round_prefer_ceil")]
    way, rounding = ways[plan.seed % 3]
    scales = graph.constant("scales", [1] * plan.leading + [axis.kernel for axis in plan.axes], np.float32)
    ways_of = {"coordinate_transformation_mode": way, "nearest_mode": rounding}
    roi = graph.constant("roi", [], np.float32) if plan.opset < 13 else ""
    sums = graph.node("Resize", [mean, roi, scales], "sums", mode="nearest", **ways_of)
    _write_result(graph, _behind(graph, sums, left), dx)


def _repeat(graph: _Graph, grad: str, _: str, dx: str) -> None:
    """An axis of one element behind each spatial one, which Expand or Tile enlarges."""
    plan = graph.plan
    outer, kernel = plan.outer(-1 if plan.symbols else plan.batch[0]), [axis.kernel for axis in plan.axes]
    mean, left = _divided(graph, grad)
    counts = plan.pooled_shape[2:]
    split = graph.constant("split", [*outer, *(size for count in counts for size in (count, 1))])
    view = graph.node("Reshape", [mean, split], "view")
    ones = [1] * plan.leading + [size for taps in kernel for size in (1, taps)]
    repeated = graph.node(("Expand", "Tile")[plan.seed % 2], [view, graph.constant("repeats", ones)], "repeated")
    shape = graph.constant("js", [*outer, *plan.x_shape[2:]])
    joined = graph.node("Reshape", [repeated, shape], "joined")
    _write_result(graph, _behind(graph, joined, left), dx)


_WRITERS = {
    "ort": _ort,
    "aten": _aten,
    "aten adaptive": _aten_adaptive,
    "tensorflow": _tensorflow,
    "torch": _torch,
    "torch adaptive": _torch_adaptive,
    "resize": _resize,
    "repeat": _repeat,
}


REFUSED_SYMBOLS = (Code.SYMBOLIC_CANVAS, Code.AUTO_PAD_SYMBOLIC)


def allowed_refusal(plan: AveragePlan, code: str) -> bool:
    """Whether a gradient may be refused with this code; any other one has to be lowered."""
    if code == Code.OUTPUT_SIZE.value:  # ceil_mode has one window over an axis that is shorter
        return any(axis.size + axis.begin + axis.end < axis.kernel for axis in plan.axes)
    if code == Code.MORE_WINDOWS.value:
        return any(axis.adaptive > axis.size for axis in plan.axes)
    if code == Code.POOL_ATTRIBUTES.value:
        return plan.auto_pad.startswith("SAME") and any(axis.stride > axis.kernel for axis in plan.axes)
    if code == Code.FEW_ELEMENTS.value:
        return plan.element_type != FLOAT and math.prod(plan.pooled_shape) > math.prod(plan.x_shape)
    if code == Code.UNRELATED_UPSAMPLING.value:  # nothing is written that divides by 1
        return plan.scale not in {"div", "mul"} and bool((plan.divisors() == 1).all())
    return plan.symbols == 2 and code in [refused.value for refused in REFUSED_SYMBOLS]


def lowered_average(plan: AveragePlan) -> LoweringResult | None:
    """Lower the plan's model; None if it is refused for a reason that the plan has."""
    result = lower(build_average(plan), target=plan.target)
    [anchor] = result.report.anchors
    if anchor.status == "lowered":
        return result
    assert allowed_refusal(plan, str(anchor.code)), anchor
    return None


def feeds_and_result(plan: AveragePlan, grad: Array) -> tuple[dict[str, Array], Array]:
    """The inputs of the plan's model, and its dx by definition, both as the graph has them."""
    edge = np.float16 if plan.element_type == HALF else np.float32
    narrow = helper.tensor_dtype_to_np_dtype(plan.element_type)
    wanted = plan.expected(grad).astype(narrow).astype(edge) + edge(0)
    x = np.random.default_rng(plan.seed).standard_normal(plan.x_shape).astype(edge)
    if plan.channels_last:
        grad, wanted = np.moveaxis(grad, 1, -1), np.moveaxis(wanted, 1, -1)
    else:
        grad, wanted, x = (each.reshape(*plan.outer(plan.batch[0]), *each.shape[2:]) for each in (grad, wanted, x))
    feeds = {"dy": np.ascontiguousarray(grad).astype(edge), "x": x}
    names = [value.name for value in build_average(plan).graph.input]
    return {name: feeds[name] for name in names}, np.ascontiguousarray(wanted)


def check_average_plan(plan: AveragePlan, *, verified: bool = False) -> str:
    """Lower the plan's model and check the bits of its function bodies; returns what became of it."""
    result, grad = lowered_average(plan), plan.grad()
    if result is None:
        return "averages refused"
    if grad is None:
        return "averages without exact gradients"
    feeds, wanted = feeds_and_result(plan, grad)
    runs_in_ort = plan.element_type != BFLOAT or plan.form != "ort"  # it has no AveragePool of bfloat16
    for run in (run_ort, run_reference) if runs_in_ort else (run_reference,):
        found = run(result.model, feeds)["dx"]
        assert_same_bits(found + found.dtype.type(0), wanted)
    if verified:
        [site] = verify(build_average(plan), result.model, whole_model=False, seed=plan.seed).sites
        assert site.status == "proven", site
    return "averages lowered"
