# SPDX-License-Identifier: Apache-2.0

"""Graphs of every form, at every opset that onnx has from 11 on, by the writers of the random training graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import onnx
from onnx import ModelProto, TensorProto

from tests.generators.forms import FORMS, refusal
from tests.generators.models import build, feeds, results
from tests.generators.places import in_a_branch, in_a_function, in_a_loop
from tests.generators.plans import SPECIAL_VALUES, Plan, Root, Site
from tests.generators.protos import Choices
from tests.generators.sites import Pooling, Spelling
from tests.generators.windows import AdaptiveWindows, AxisWindow, PoolWindows, Windows
from tests.releases.cases import Case, standard
from tests.window_facts import Axis

OPSETS = range(11, onnx.defs.onnx_opset_version() + 1)
SOME_OPSETS = (11, 16, 21)
FEW_OPSETS = (11, 18)
TYPES: dict[int, str] = {TensorProto.FLOAT: "float32", TensorProto.FLOAT16: "float16"}
SYMBOLS = ("static", "symbolic batch", "symbolic sizes")
SIZES = {1: (12,), 2: (9, 12), 3: (5, 6, 4)}
FINITE = ""
VALUES = {
    FINITE: tuple(range(7)),
    "NaN": (1, len(SPECIAL_VALUES) - 1, 0, 3, 1, 2, 1),
    "-inf": (*[len(SPECIAL_VALUES) - 2] * 29, 1, 0),
}
"""Of x, as positions in the special values, over and over: 29 times −inf fill whole windows."""
ORDERED_TERMS: dict[int, tuple[int, ...]] = {TensorProto.FLOAT: tuple(range(7)), TensorProto.FLOAT16: (0, 1, 2, 3, 6)}
"""Sums of the first depend on their order; the others stay in range."""

OVERLAPPING = Axis(3, 2, 1, 1, 1, ceil=False)
TILING = Axis(2, 2, 1, 0, 0, ceil=False)
AXES = {
    "overlapping": (OVERLAPPING, "NOTSET"),
    "tiling": (TILING, "NOTSET"),
    "gaps": (Axis(2, 3, 1, 0, 0, ceil=False), "NOTSET"),
    "stride 1": (Axis(3, 1, 1, 1, 1, ceil=False), "NOTSET"),
    "one by one": (Axis(1, 1, 1, 0, 0, ceil=False), "NOTSET"),
    "ceil": (Axis(3, 2, 1, 0, 0, ceil=True), "NOTSET"),
    "dilated": (Axis(2, 1, 2, 0, 0, ceil=False), "NOTSET"),
    "pads before": (Axis(3, 2, 1, 1, 0, ceil=False), "NOTSET"),
    "pads after": (Axis(3, 2, 1, 0, 1, ceil=False), "NOTSET"),
    "wide pads": (Axis(4, 3, 1, 2, 2, ceil=False), "NOTSET"),
    "valid": (Axis(2, 2, 1, 0, 0, ceil=False), "VALID"),
    "same upper": (Axis(2, 1, 1, 0, 1, ceil=False), "SAME_UPPER"),
    "same lower": (Axis(2, 1, 1, 1, 0, ceil=False), "SAME_LOWER"),
}
"""Windows along every axis, and the auto_pad that has their pads where it is not NOTSET."""
ADAPTIVE = AdaptiveWindows((4, 5))
AS_MANY_AS_ADAPTIVE = PoolWindows((Axis(3, 2, 1, 0, 0, ceil=False), Axis(4, 2, 1, 0, 0, ceil=False)))
WINDOWED = ("F1", "F2", "F4", "F6", "F7", "F11", "F11a", "F12", "F15")
"""Forms over any of the windows above. Those of MaxUnpool (F17) have to begin inside of x."""
FORMS_RUN = [form for form in FORMS if form != "F14"]
"""In F14 PyTorch's operator for the maximum over an axis stays in the graph, and no onnxruntime has it."""
SIBLINGS = {"F2": "F1", "F3": "F1", "F11": "F1", "F11a": "F1", "F15": "F1"}
"""Forms of operators that onnxruntime does not have, and the form whose graph is run instead as the original."""
PLACES: dict[str, Callable[[ModelProto, Choices], ModelProto]] = {
    "branch": in_a_branch,
    "loop": in_a_loop,
    "function": in_a_function,
}


@dataclass(frozen=True)
class Graph:
    """A pool with its gradient in some form; of its sizes none, the batch or the spatial ones too are symbols."""

    form: str
    opset: int
    windows: Windows
    rank: int
    symbols: int = 0
    element_type: int = TensorProto.FLOAT
    values: str = FINITE
    remark: str = ""

    @property
    def name(self) -> str:
        parts = (f"{self.form} opset {self.opset}", TYPES[self.element_type], SYMBOLS[self.symbols], f"{self.rank}-D")
        return ", ".join(filter(None, (*parts, self.remark, self.values)))

    @property
    def plan(self) -> Plan:
        shape = (*(FORMS[self.form].planes or (2, 3)), *SIZES[self.rank])
        pooling = Pooling(self.windows, Spelling(), shape, self.element_type, self.symbols)
        site = Site(self.form, pooling, ORDERED_TERMS[self.element_type])
        return Plan(
            opset=self.opset,
            roots=(Root(shape, self.element_type, cast=False, values=VALUES[self.values], sites=(site,)),),
            decoys=(),
            symbols=self.symbols,
            special=self.values != FINITE,
            constant_nodes=False,
            target="atlas-a2",
            forward=True,
        )

    def sibling(self) -> Graph:
        """The graph that is run as the original."""
        if self.form not in SIBLINGS:
            return self
        adaptive = isinstance(self.windows, AdaptiveWindows)
        return replace(self, form=SIBLINGS[self.form], windows=AS_MANY_AS_ADAPTIVE if adaptive else self.windows)

    def cases(self) -> list[Case]:
        """The graph's case; none where its gradient is refused."""
        [(_, site)] = self.plan.sites()
        if refusal(self.form, site.pooling) is not None:
            return []
        sibling = self.sibling()
        recorded = results(self.plan) if sibling.windows != self.windows else None
        return [Case(self.name, build(self.plan), feeds(self.plan), standard(build(sibling.plan)), recorded)]


def sweep() -> Iterator[Callable[[], list[Case]]]:
    """Every form at every opset in each element type, its sizes static and symbolic; more windows at some opsets."""
    for opset in OPSETS:
        for form in FORMS_RUN:
            if opset >= FORMS[form].since:
                yield partial(usual, form, opset)
                if form in WINDOWED and opset in (FEW_OPSETS if form in SIBLINGS else SOME_OPSETS):
                    yield partial(other_windows, form, opset)
        yield partial(placed, opset)


def usual(form: str, opset: int) -> list[Case]:
    """Graphs of a form in each element type, with as many symbols as it can have."""
    rank = 2 if 2 in FORMS[form].ranks else FORMS[form].ranks[0]
    types = [known for known in TYPES if known in FORMS[form].element_types]
    graphs = [
        Graph(form, opset, usual_windows(form, rank), rank, symbols, element_type)
        for element_type in types
        for symbols in range(FORMS[form].symbols + 1)
    ]
    return [case for graph in graphs for case in graph.cases()]


def usual_windows(form: str, rank: int) -> Windows:
    if form in ("F3", "F16"):
        return ADAPTIVE
    if form == "F5":
        return AdaptiveWindows((1,) * rank)
    if form == "F8":
        return AxisWindow(rank + 1)
    return PoolWindows((TILING if form in ("F7", "F17") else OVERLAPPING,) * rank)


def other_windows(form: str, opset: int) -> list[Case]:
    """Graphs of a form with other windows, ranks and values, in float32."""
    graphs = [
        Graph(form, opset, PoolWindows((axis,) * rank, auto_pad), rank, symbols, remark=remark)
        for rank in FORMS[form].ranks
        for remark, (axis, auto_pad) in AXES.items()
        for symbols in range(min(FORMS[form].symbols, 1) + 1)
        if can_have(form, axis, auto_pad)
    ]
    if FORMS[form].special:
        graphs += [
            Graph(form, opset, PoolWindows((axis,) * rank), rank, values=values, remark=remark)
            for rank in FORMS[form].ranks
            for remark, axis in (("overlapping", OVERLAPPING), ("tiling", TILING))
            for values in ("NaN", "-inf")
        ]
    return [case for graph in graphs for case in graph.cases()]


def can_have(form: str, axis: Axis, auto_pad: str) -> bool:
    """Whether a form's producer writes such windows."""
    if form in ("F2", "F15"):
        return auto_pad == "NOTSET" and axis.begin == axis.end
    if form in ("F11", "F11a"):
        return auto_pad != "SAME_LOWER" and not axis.ceil and axis.dilation == 1
    return form != "F12" or (auto_pad == "NOTSET" and not axis.ceil)


def placed(opset: int) -> list[Case]:
    """A pool with its gradient in a branch of a constant condition, in a loop's body and in a function."""
    found = []
    for form in ("F4", "F7"):
        for symbols in (0, 1) if opset >= FORMS[form].since else ():
            graph = Graph(form, opset, usual_windows(form, 2), 2, symbols)
            for place, move in PLACES.items():
                model = move(build(graph.plan), [0])
                case = Case(f"{graph.name}, in a {place}", model, feeds(graph.plan), original=model)
                found.append(case)
    return found
