# SPDX-License-Identifier: Apache-2.0

"""How the attributes of a lowered node follow from those of its pool: formulas with numbers, axis by axis."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from poolgrad_lowering.model.ir.dims import Dim, Shape

HOLDS = "holds"

_SYMBOL = re.compile(r"\b[a-zA-Z]\b[′″]?")


@dataclass(frozen=True)
class Step:
    """One formula: the quantity (`what`), the formula in symbols and with numbers, and its value.

    `numbers` is None if the formula holds for every size of a symbolic axis. A comparison has the value `HOLDS`.
    """

    what: str
    formula: str
    numbers: str | None
    value: str

    @classmethod
    def of(cls, what: str, formula: str, known: Mapping[str, int | None], value: Dim | int | str) -> Step:
        """Return a step with the symbols of the formula replaced by numbers, if all of them are known."""
        if any(known.get(symbol) is None for symbol in _SYMBOL.findall(formula)):
            return cls(what, formula, None, str(value))
        return cls(what, formula, _SYMBOL.sub(lambda found: str(known[found[0]]), formula), str(value))


@dataclass(frozen=True)
class AxisDerivation:
    """The steps of one spatial axis (`D`, `H` or `W`), in order. `size` is that of x, `count` that of the output."""

    axis: str
    size: Dim
    count: Dim
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class OperandRole:
    """An operand or result of a lowered node: what it is to the operator, and its name, element type and shape."""

    what: str
    name: str
    element_type: int
    shape: Shape


@dataclass(frozen=True)
class Derivation:
    """The derivation of a site: the pool's windows in ONNX's terms, the operands, and the steps of each axis.

    `rank` is that of x. `forward_axes` is empty if the forward pool is not lowered.
    """

    windows: str
    rank: int
    roles: tuple[OperandRole, ...]
    axes: tuple[AxisDerivation, ...]
    forward_axes: tuple[AxisDerivation, ...] = ()
