"""Graphs of every form, at every opset that onnx has from 11 on, by the writers of the random training graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import onnx
from onnx import ModelProto, TensorProto
from window_facts import Axis

from generators.forms import FORMS, refusal
from generators.models import build, feeds, results
from generators.places import in_a_branch, in_a_function, in_a_loop
from generators.plans import Plan, Root, Site
from generators.protos import Choices
from generators.sites import Pooling, Spelling
from generators.windows import AdaptiveWindows, AxisWindow, PoolWindows, Windows
from releases.cases import Case, standard

OPSETS = range(11, onnx.defs.onnx_opset_version() + 1)
SOME_OPSETS = (11, 13, 16, 18, 21)
TYPES = {TensorProto.FLOAT: "float32", TensorProto.FLOAT16: "float16"}
SIZES = {1: (12,), 2: (9, 12), 3: (5, 6, 4)}
FINITE_VALUES = tuple(range(7))
ORDERED_TERMS = {TensorProto.FLOAT: tuple(range(7)), TensorProto.FLOAT16: (0, 1, 2, 3, 6)}
"""Sums of the first depend on their order; the others stay in range."""

OVERLAPPING = Axis(3, 2, 1, 1, 1, False)
TILING = Axis(2, 2, 1, 0, 0, False)
AXES = {
    "overlapping": OVERLAPPING,
    "tiling": TILING,
    "gaps": Axis(2, 3, 1, 0, 0, False),
    "stride 1": Axis(3, 1, 1, 1, 1, False),
    "one by one": Axis(1, 1, 1, 0, 0, False),
    "ceil": Axis(3, 2, 1, 0, 0, True),
    "dilated": Axis(2, 1, 2, 0, 0, False),
    "pads before": Axis(3, 2, 1, 1, 0, False),
    "pads after": Axis(3, 2, 1, 0, 1, False),
    "wide pads": Axis(4, 3, 1, 2, 2, False),
}
AUTO_PADS = {"VALID": Axis(2, 2, 1, 0, 0, False), "SAME_UPPER": Axis(2, 1, 1, 0, 1, False), "SAME_LOWER": Axis(2, 1, 1, 1, 0, False)}
RECORDING = ("F1", "F2", "F4", "F6", "F7", "F11", "F11a", "F12", "F15")
"""Forms over a MaxPool's windows."""
SIBLINGS = {"F2": "F1", "F3": "F1", "F11": "F1", "F11a": "F1", "F14": "F8", "F15": "F1"}
"""Forms of operators that onnxruntime does not have, and the form whose graph is run instead as the original."""
PLACES: dict[str, Callable[[ModelProto, Choices], ModelProto]] = {
    "branch": in_a_branch,
    "loop": in_a_loop,
    "function": in_a_function,
}


def sweep() -> Iterator[Callable[[], list[Case]]]:
    """Every form at every opset in each element type, its batch static and symbolic; more windows at some opsets."""
    for form in FORMS:
        for opset in OPSETS:
            yield partial(usual, form, opset)
            if opset in SOME_OPSETS and form in RECORDING:
                yield partial(other_windows, form, opset)
    for opset in OPSETS:
        yield partial(placed, opset)


def usual(form: str, opset: int) -> list[Case]:
    """One graph of a form for each element type and each degree of symbolic sizes."""
    if opset < FORMS[form].since:
        return []
    rank = 2 if 2 in FORMS[form].ranks else FORMS[form].ranks[0]
    found = []
    for element_type in (known for known in TYPES if known in FORMS[form].element_types):
        for symbols in range(FORMS[form].symbols + 1):
            windows = usual_windows(form, rank)
            found += as_case(form, opset, element_type, symbols, windows, rank)
    return found


def usual_windows(form: str, rank: int) -> Windows:
    if form in ("F3", "F16"):
        return AdaptiveWindows((4, 5))
    if form == "F5":
        return AdaptiveWindows((1,) * rank)
    if form in ("F8", "F14"):
        return AxisWindow(rank + 1)
    return PoolWindows((TILING if form == "F7" else OVERLAPPING,) * rank)


def other_windows(form: str, opset: int) -> list[Case]:
    """Graphs of a form with other windows and ranks, in float32."""
    if opset < FORMS[form].since:
        return []
    found = []
    for rank in FORMS[form].ranks:
        table = {name: PoolWindows((axis,) * rank) for name, axis in AXES.items()}
        table |= {name: PoolWindows((axis,) * rank, name) for name, axis in AUTO_PADS.items()}
        for name, windows in table.items():
            for symbols in range(min(FORMS[form].symbols, 1) + 1):
                found += as_case(form, opset, TensorProto.FLOAT, symbols, windows, rank, name)
    return found


def as_case(
    form: str, opset: int, element_type: int, symbols: int, windows: Windows, rank: int, remark: str = ""
) -> list[Case]:
    """The case of a graph with one site; none where the form cannot have the windows, or its gradient is refused."""
    try:
        plan = planned(form, opset, element_type, symbols, windows, rank)
        model = build(plan)
    except (AssertionError, ValueError, KeyError):
        return []
    [(_, site)] = plan.sites()
    if refusal(form, site.pooling) is not None:
        return []
    sizes = ("static", "symbolic batch", "symbolic sizes")[symbols]
    parts = (f"{form} opset {opset}", TYPES[element_type], sizes, f"{rank}-D", remark)
    name = ", ".join(filter(None, parts))
    if form not in SIBLINGS:
        return [Case(name, model, feeds(plan), original=standard(model))]
    adaptive = isinstance(windows, AdaptiveWindows)
    pools = usual_windows("F1", rank) if adaptive else windows
    sibling = build(planned(SIBLINGS[form], opset, element_type, symbols, pools, rank))
    return [Case(name, model, feeds(plan), standard(sibling), results(plan) if adaptive else None)]


def planned(form: str, opset: int, element_type: int, symbols: int, windows: Windows, rank: int) -> Plan:
    """A plan of one site."""
    shape = (*(FORMS[form].planes or (2, 3)), *SIZES[rank])
    pooling = Pooling(windows, Spelling(), shape, element_type, symbols)
    site = Site(form, pooling, ORDERED_TERMS[element_type])
    return Plan(
        opset=opset,
        roots=(Root(shape, element_type, cast=False, values=FINITE_VALUES, sites=(site,)),),
        decoys=(),
        symbols=symbols,
        special=False,
        constant_nodes=False,
        target="atlas-a2",
        forward=True,
    )


def placed(opset: int) -> list[Case]:
    """A pool with its gradient in a branch of a constant condition, in a loop's body and in a function."""
    found = []
    for form in ("F4", "F7"):
        if opset < FORMS[form].since:
            continue
        for symbols in (0, 1):
            plan = planned(form, opset, TensorProto.FLOAT, symbols, usual_windows(form, 2), 2)
            for place, move in PLACES.items():
                sizes = ("static", "symbolic batch")[symbols]
                name = f"{form} opset {opset}, in a {place}, {sizes}"
                model = move(build(plan), [0])
                found.append(Case(name, model, feeds(plan), original=model))
    return found
