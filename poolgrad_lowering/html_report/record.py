# SPDX-License-Identifier: Apache-2.0

"""The data that the page shows for each anchor, collected before the model is rewritten. Knows nothing of HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.diagnostics.status import reading_order
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.drawing.graph import Graph
from poolgrad_lowering.drawing.parts import Parts, element_name
from poolgrad_lowering.drawing.text import shown
from poolgrad_lowering.families.max_pool.legality.gradients import LoweredOp
from poolgrad_lowering.families.verdicts import Lowered, Refused
from poolgrad_lowering.ge.placement import Placement
from poolgrad_lowering.gradient import AdaptiveWindows, PoolGradient
from poolgrad_lowering.html_report.arithmetic import AxisArithmetic, forward_arithmetic, gradient_arithmetic
from poolgrad_lowering.ir.dims import Shape, Shown
from poolgrad_lowering.ir.scopes import Node, Value
from poolgrad_lowering.lowering.lower import Verdict
from poolgrad_lowering.rewriting.rewrite import Replacement
from poolgrad_lowering.targets.aclnn_functions import aclnn_function
from poolgrad_lowering.windows.onnx_pool import PoolAttributes

MAX_DRAWN = 200
"""The number of anchors whose graphs are drawn, the first ones of the page; the others are shown without drawings."""


@dataclass(frozen=True)
class Operand:
    """An input or output of a lowered node: its role (`part`), its value in the model, its type and shape."""

    part: str
    name: str
    type: str


@dataclass(frozen=True)
class Lowering:
    """The lowering of a site: the pool's windows, the operands, the arithmetic and the aclnn functions.

    `forward_function` is None if the forward pool is not lowered.
    """

    windows: str
    operands: tuple[Operand, ...]
    arithmetic: tuple[AxisArithmetic, ...]
    function: str
    forward_arithmetic: tuple[AxisArithmetic, ...] = ()
    forward_function: str | None = None


@dataclass(frozen=True)
class AnchorRecord:
    """An anchor: its position in the node list of its graph, the names of its values, its drawings, and its lowering.

    `before` and `after` are None if they are not drawn, `lowering` is None if the anchor was not lowered.
    """

    position: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    before: Graph | None
    after: Graph | None
    lowering: Lowering | None


class Recorder:
    """An observer of a lowering that collects a record per anchor, in order.

    `written` counts the new nodes outside the dialect by operator, `removed` the removed nodes by operator. `placement`
    says where the nodes of the lowered model run; it is set after the lowering, and None without a map.
    """

    def __init__(self) -> None:
        self.anchors: list[AnchorRecord] = []
        self.written: Counter[str] = Counter()
        self.removed: Counter[str] = Counter()
        self.placement: Placement | None = None

    def __call__(self, facts: Facts, verdicts: Sequence[Verdict], replaced: Sequence[Replacement]) -> None:
        """Collect all records. `replaced` has the replacements of the sites, in order, then those of forward pools."""
        for one in replaced:
            self.written.update(node.op_type for node in one.nodes if node.domain != DOMAIN)
            self.removed.update(node.op[1] for node in one.region.nodes)
        parts, of_sites = Parts(facts, replaced), iter(replaced)
        numbers = sorted(range(len(verdicts)), key=lambda number: reading_order(verdicts[number].status))
        first = frozenset(numbers[:MAX_DRAWN])
        for number, verdict in enumerate(verdicts):
            drawn = number in first
            if isinstance(verdict, Refused):
                before = parts.around(verdict.anchor) if drawn else None
                self.anchors.append(_record(verdict.anchor, before, None, None))
            else:
                replacement = next(of_sites)
                before = parts.before(verdict, replacement) if drawn else None
                after = parts.after(verdict, replacement) if drawn else None
                self.anchors.append(_record(verdict.anchor, before, after, _lowering(verdict)))


def _record(anchor: Node, before: Graph | None, after: Graph | None, lowering: Lowering | None) -> AnchorRecord:
    inputs, outputs = (tuple(value.name for value in ends if value) for ends in (anchor.inputs, anchor.outputs))
    return AnchorRecord(anchor.position, inputs, outputs, before, after, lowering)


def _lowering(site: Lowered) -> Lowering:
    gradient, rank = site.gradient, len(site.gradient.x_shape)
    forward = site.forward if isinstance(site.forward, LoweredOp) else None
    return Lowering(
        _windows(gradient.windows),
        _operands(gradient),
        gradient_arithmetic(gradient, site.op),
        aclnn_function(site.op.name, rank),
        forward_arithmetic(gradient, forward) if forward else (),
        aclnn_function(forward.name, rank) if forward else None,
    )


def _operands(gradient: PoolGradient) -> tuple[Operand, ...]:
    floats, x_shape, pooled_shape = element_name(gradient.element_type), gradient.x_shape, gradient.pooled_shape
    parts: tuple[tuple[str, Value, str, Shape], ...] = (
        ("x, the pooled input", gradient.x.value, floats, x_shape),
        ("grad, the incoming gradient", gradient.grad.value, floats, pooled_shape),
        ("argmax, the indices", gradient.indices.value, "int32", pooled_shape),
        ("y, the gradient of x", gradient.dx.value, floats, x_shape),
    )
    return tuple(Operand(part, value.name, shown(f"{name} {Shown(shape)}")) for part, value, name, shape in parts)


def _windows(windows: PoolAttributes | AdaptiveWindows) -> str:
    """The pool's windows in ONNX's terms; dilations are left out if they are 1."""
    if isinstance(windows, AdaptiveWindows):
        return "an adaptive pool: window o of an axis spans ⌊o·I / n⌋ … ⌈(o + 1)·I / n⌉ − 1"
    pads = f"pads {windows.auto_pad}" if windows.auto_pad != "NOTSET" else f"pads {_pads(windows)}"
    parts = [f"a pool with kernel {_times(windows.kernel)}", f"strides {_times(windows.strides)}", pads]
    if max(windows.dilations) > 1:
        parts.append(f"dilations {_times(windows.dilations)}")
    return ", ".join([*parts, "rounded up" if windows.ceil else "rounded down"])


def _times(numbers: Sequence[int]) -> str:
    return "×".join(map(str, numbers))


def _pads(windows: PoolAttributes) -> str:
    return "×".join(str(b) if b == e else f"({b}, {e})" for b, e in zip(windows.begins, windows.ends, strict=True))
