# SPDX-License-Identifier: Apache-2.0

"""Draws plans of training graphs: inputs, pools of them, pools of pools, and decoys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx
from hypothesis import strategies as st

from poolgrad_lowering.model.diagnostics.codes import Code
from tests.generators.decoys import DECOYS
from tests.generators.forms import BFLOAT, FLOAT, FORMS, HALF, Form, refusal
from tests.generators.sites import SPELLINGS, Pooling
from tests.generators.windows import Windows

TARGETS = ("atlas-a2", "atlas-a3", "ascend950")
NEWEST = onnx.defs.onnx_opset_version()
OPSETS = (18, 16, 21, 23, 22, 20, 17, 15, 14, 13, 12, 11, 10, 9, NEWEST)
"""In the order in which a failing example is made simpler."""
VALUES = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.0, float("inf"))
"""Of x: few, so that windows have ties."""
SPECIAL_VALUES = (*VALUES, float("-inf"), float("nan"))
TERMS = (1.0, -1.0, 0.1, 3.0, 2.0**24, -(2.0**24), 0.0)
"""Of dy: their sums depend on the order."""
SPECIAL_TERMS = (*TERMS, -0.0, float("inf"), float("-inf"), float("nan"))
_FIRST_BFLOAT_POOL = 22
_ONE_BODY_FOR_ALL_TYPES = 15


@dataclass(frozen=True)
class Site:
    """A pool with its gradient, the pools over its output, and which values its own incoming gradient repeats."""

    form: str
    pooling: Pooling
    terms: tuple[int, ...]
    children: tuple[Site, ...] = ()

    @property
    def refusal(self) -> Code | None:
        """The code with which its gradient must be refused, None if it must be lowered."""
        return refusal(self.form, self.pooling)


@dataclass(frozen=True)
class Root:
    """An input x, the values that it repeats, and the pools over it.

    With `cast`, x, dy and dx of the graph are float32 and are cast to and from the element type.
    """

    x_shape: tuple[int, ...]
    element_type: int
    cast: bool
    values: tuple[int, ...]
    sites: tuple[Site, ...]


@dataclass(frozen=True)
class Plan:
    """A training graph and its target.

    `symbols`: the batch is one (1), the spatial sizes too (2). `special`: x and dy have NaN, infinities and zeros of
    both signs.
    """

    opset: int
    roots: tuple[Root, ...]
    decoys: tuple[tuple[str, int], ...]
    symbols: int
    special: bool
    constant_nodes: bool
    target: str
    forward: bool

    def sites(self) -> Iterator[tuple[str, Site]]:
        """All sites by name: `r0s1c0` is the first pool over the output of the second one over the first input."""
        for number, root in enumerate(self.roots):
            yield from _named(f"r{number}s", root.sites)

    @property
    def element_types(self) -> set[int]:
        return {root.element_type for root in self.roots}


def _named(prefix: str, sites: Sequence[Site]) -> Iterator[tuple[str, Site]]:
    for number, site in enumerate(sites):
        yield f"{prefix}{number}", site
        yield from _named(f"{prefix}{number}c", site.children)


@dataclass(frozen=True)
class _Frame:
    """The choices that all sites of a plan share: opset, symbolic sizes, special values and forms."""

    opset: int
    symbols: int
    special: bool
    known: tuple[str, ...]

    @property
    def forms(self) -> list[str]:
        """Those of the known forms that can be in the plan."""
        return [name for name in self.known if self._has(FORMS[name])]

    def _has(self, form: Form) -> bool:
        return form.since <= self.opset and form.symbols >= self.symbols and form.special >= self.special


@st.composite
def plans(draw: st.DrawFn, *, forms: Sequence[str] = tuple(FORMS), max_roots: int = 2, decoys: bool = True) -> Plan:
    """Draw a plan whose gradients have these forms; one is drawn first, so that each is as frequent."""
    leading = draw(st.sampled_from(forms))
    form = FORMS[leading]
    opset = draw(st.sampled_from([opset for opset in OPSETS if opset >= form.since]))
    frame = _Frame(opset, draw(st.integers(0, form.symbols)), form.special and draw(st.booleans()), tuple(forms))
    first = draw(_roots(frame, [leading]))
    others = draw(st.lists(_roots(frame, frame.forms), max_size=max_roots - 1))
    if opset < _ONE_BODY_FOR_ALL_TYPES:
        others = [root for root in others if root.element_type == first.element_type]
    beside = [name for name, decoy in DECOYS.items() if decoy.since <= opset]
    chosen = st.lists(st.tuples(st.sampled_from(beside), st.integers(1, 3)), max_size=2) if decoys else st.just([])
    return Plan(
        opset=opset,
        roots=(first, *others),
        decoys=tuple(draw(chosen)),
        symbols=frame.symbols,
        special=frame.special,
        constant_nodes=draw(st.booleans()),
        target=draw(st.sampled_from(TARGETS)),
        forward=draw(st.booleans()),
    )


@st.composite
def _roots(draw: st.DrawFn, frame: _Frame, leading: Sequence[str]) -> Root:
    """Draw an input whose first pool has a leading form."""
    own = [draw(st.sampled_from(leading))]
    form = FORMS[own[0]]
    types = [known for known in form.element_types if known != BFLOAT or frame.opset >= _FIRST_BFLOAT_POOL]
    element_type = draw(st.sampled_from([*types, FLOAT, FLOAT]))
    rank = draw(st.sampled_from(form.ranks))
    planes = form.planes or draw(st.sampled_from(((2, 3), (1, 1), (1, 2), (2, 1))))
    sizes = draw(st.lists(st.integers(1, 7 if rank < 3 else 4), min_size=rank, max_size=rank))
    shape = (*planes, *sizes)
    over_it = {"shape": shape, "element_type": element_type, "depth": 2}
    first, others = (
        draw(_sites(frame, own, **over_it)),
        draw(st.lists(_sites(frame, frame.forms, **over_it), max_size=1)),
    )
    return Root(
        shape,
        element_type,
        cast=element_type == BFLOAT or (element_type == HALF and draw(st.booleans())),
        values=draw(_choices(len(SPECIAL_VALUES) if frame.special else len(VALUES))),
        sites=(first, *others),
    )


@st.composite
def _sites(
    draw: st.DrawFn,
    frame: _Frame,
    leading: Sequence[str],
    *,
    shape: tuple[int, ...],
    element_type: int,
    depth: int,
) -> Site:
    """Draw a pool of a leading form, if one exists over such an x, and pools of any form over its output."""
    fitting = [name for name in leading if FORMS[name].takes(shape, element_type)]
    name = draw(st.sampled_from(fitting or ["F1"]))
    windows: Windows = draw(FORMS[name].windows(shape[2:], frame.opset))
    pooling = Pooling(windows, draw(SPELLINGS), shape, element_type, frame.symbols)
    children: tuple[Site, ...] = ()
    if FORMS[name].nests and depth and draw(st.integers(0, 3)) == 3:
        pooled = pooling.pooled_shape
        children = (draw(_sites(frame, frame.forms, shape=pooled, element_type=element_type, depth=depth - 1)),)
    return Site(name, pooling, draw(_choices(len(SPECIAL_TERMS) if frame.special else len(TERMS))), children)


def _choices(count: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(0, count - 1), min_size=1, max_size=11).map(tuple)
