# SPDX-License-Identifier: Apache-2.0

"""The formulas of the page are true, and their values are those of the lowered node."""

from __future__ import annotations

import itertools
import re

import pytest

from poolgrad_lowering.compiler.families.shared.derivation import HOLDS, AxisDerivation, Derivation, Step
from poolgrad_lowering.report.report import AnchorReport
from tests.html_report.pages import observed
from tests.pool_graphs import ort_gradient, parse

Value = int | float | bool


def evaluated(numbers: str) -> Value:
    """The value of a formula with numbers, in which brackets are roundings."""
    text = numbers.replace("·", "*").replace("−", "-").replace("≤", "<=")
    text = re.sub(r"\|(.*?)\|", r"abs(\1)", text)
    for opened, closed, function in (("⌊", "⌋", "floor"), ("⌈", "⌉", "ceil")):
        text = text.replace(opened, f"{function}(").replace(closed, ")")
    assert re.fullmatch(r"[\d\s()+*/,<=-]+", re.sub(r"\b(floor|ceil|abs|max)\b", "", text)), numbers
    names = {"floor": lambda x: int(x // 1), "ceil": lambda x: -int(-x // 1), "abs": abs, "max": max}
    result: Value = eval(text, {"__builtins__": {}}, names)
    return result


def check(step: Step) -> None:
    if step.numbers is not None:
        assert evaluated(step.numbers) == (True if step.value == HOLDS else int(step.value)), step


def derived(shape: list[int], **attributes: object) -> tuple[AnchorReport, Derivation] | None:
    report, recorder = observed(ort_gradient(shape, **attributes), "ascend950")
    [anchor], [record] = report.anchors, recorder.anchors
    return None if record.derivation is None else (anchor, record.derivation)


def last(axis: AxisDerivation, *whats: str) -> int:
    """The value of the last step with one of these quantities."""
    return int([step.value for step in axis.steps if step.what in whats][-1])


WINDOWS = [
    {"kernel_shape": [k], "strides": [s], "dilations": [d], "pads": [b, e], "ceil_mode": ceil}
    for k, s, d, b, e, ceil in itertools.product((1, 2, 3), (1, 3), (1, 2), (0, 1, 2), (0, 2), (0, 1))
    if max(b, e) < d * (k - 1) + 1
]


def test_every_window() -> None:
    """All steps are true, and the last kernel, padding and size are those of the node and the graph."""
    canvases = lowered = 0
    for attributes in WINDOWS:
        found = derived([1, 1, 7], **attributes)
        if found is None:
            continue
        anchor, how = found
        assert anchor.attributes is not None
        [axis] = how.axes
        for step in (*axis.steps, *(step for forward in how.forward_axes for step in forward.steps)):
            check(step)
        assert last(axis, "kernel k″", "kernel") == anchor.attributes["ksize"][-1]
        assert last(axis, "padding p", "padding") == anchor.attributes["pads"][-1]
        [size] = [step for step in axis.steps if step.what.startswith("output size")]
        assert size.value == str(axis.pooled)
        lowered += 1
        canvases += any(step.what == "canvas C" for step in axis.steps)
    assert lowered > 50
    assert canvases > 5


def test_every_window_of_an_average_pool() -> None:
    """Its windows are the pool's own, over x or over a canvas."""
    canvases = lowered = 0
    for attributes in (each for each in WINDOWS if each["dilations"] == [1]):
        text = ", ".join(f"{name} = {value}" for name, value in attributes.items())
        model = parse(
            f"""g (float[1, 1, 7] X, float[1, 1, P] dY) => (float[1, 1, 7] dX) {{
                Y = AveragePool<{text}>(X)
                dX = AveragePoolGrad<{text}>(dY)
            }}"""
        )
        report, recorder = observed(model, "ascend950")
        [anchor], [record] = report.anchors, recorder.anchors
        if record.derivation is None:
            continue
        assert anchor.attributes is not None
        [axis] = record.derivation.axes
        for step in axis.steps:
            check(step)
        assert last(axis, "kernel", "effective kernel k′") == anchor.attributes["ksize"][-1]
        assert last(axis, "padding p", "padding") == anchor.attributes["pads"][-1]
        assert axis.steps[-1].what.startswith("output size")
        assert record.derivation.windows.endswith("the padding not counted")
        lowered += 1
        canvases += any(step.what == "canvas C" for step in axis.steps)
    assert lowered > 30
    assert canvases > 3


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [6, 7])
def test_auto_pad(auto_pad: str, stride: int, size: int) -> None:
    shape, attributes = [1, 1, size], {"kernel_shape": [3], "strides": [stride], "auto_pad": auto_pad}
    pooled = [1, 1, -(-size // stride)]
    text = f'kernel_shape = [3], strides = [{stride}], auto_pad = "{auto_pad}"'
    model = parse(
        f"""g (float{shape} X, float{pooled} dY) => (float{shape} dX) {{
            Y, I = MaxPool<{text}>(X)
            dX = MaxPoolGrad<{text}>(dY, I)
        }}"""
    )
    _, recorder = observed(model)
    [record] = recorder.anchors
    assert record.derivation is not None, attributes
    [axis] = record.derivation.axes
    for step in axis.steps:
        check(step)
    total = next(step for step in axis.steps if step.what.startswith("pads of"))
    assert int(total.value) == max((pooled[2] - 1) * stride + 3 - size, 0)


def test_a_symbolic_size_has_formulas_without_numbers() -> None:
    model = parse(
        """g (float[2, 3, L] X, float[2, 3, M] dY) => (float[2, 3, L] dX) {
            Y, I = MaxPool<kernel_shape = [2], strides = [2]>(X)
            dX = MaxPoolGrad<kernel_shape = [2], strides = [2]>(dY, I)
        }"""
    )
    _, recorder = observed(model)
    [record] = recorder.anchors
    assert record.derivation is not None
    [axis] = record.derivation.axes
    assert axis.steps[-1].numbers is None
    assert axis.steps[-1].value.endswith("for every size")
