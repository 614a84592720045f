# SPDX-License-Identifier: Apache-2.0

"""The symbolic sizes of a trace, and the conditions on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from traceback import FrameSummary
from types import CodeType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from sympy import Add, Eq, Expr, Integer, Mul, Symbol
from sympy.logic.boolalg import Boolean
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    StrictMinMaxConstraint,
    uninteresting_files,
)
from torch.utils._sympy import functions
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from poolgrad_lowering.torch.dynamic_shapes import Symbol as SizeSymbol
from poolgrad_lowering.torch.errors import TorchExportError
from poolgrad_lowering.torch.explanations import OF_TRANSFORMS, function_of, is_file_of_a_model, is_own, running_place
from poolgrad_lowering.torch.internals.branches import answer_without_error, asking_frame

_TRIED = 100
"""So many other sizes must fulfil a condition."""

_OF_SIZES = (
    "A size stays symbolic where nothing makes it a number, as `int()`, `float()`, `range()` and a loop over a tensor "
    "do, or compares it; else give it as a multiple ('2*height') or a torch.export.Dim with a range, or leave it out"
)

is_transformed = torch._C._are_functorch_transforms_active  # noqa: SLF001 - there is no other way
"""Whether a transform of torch.func is active, e.g. `vmap`."""


class PlacedShapes(ShapeEnv):
    """An environment of symbolic sizes that notes in which function of the model each condition is asked first.

    `outermost` is the code of the function that the model runs inside of.
    """

    def __init__(self, outermost: CodeType, **options: Any) -> None:
        super().__init__(**options)
        self._outermost = outermost
        self.places: dict[Any, str | None] = {}
        self.transformed: set[Any] = set()
        """The conditions that transforms of torch.func ask."""

    def evaluate_sym_node(self, sym_node: Any, *others: Any, **named: Any) -> Any:
        """Return the value of a size or condition; of a condition that numbers decide, that which raises no error.

        What torch itself asks of such a size chooses between ways to the same numbers: the answer is that for sizes of
        2 or more.
        """
        try:
            return super().evaluate_sym_node(sym_node, *others, **named)
        except GuardOnDataDependentSymNode:
            if sym_node.pytype is not bool:
                raise
            frame = asking_frame(_is_of_conditions)
            is_of_layers = _is_of_layers(frame.f_code.co_filename)
            answer = answer_without_error(frame, self._outermost) if is_of_layers else None
            if answer is None and not is_file_of_a_model(frame.f_code.co_filename):
                answer = super().evaluate_sym_node(sym_node, size_oblivious=True)
            if answer is None:
                raise
            return answer

    def _log_guard(self, prefix: str, g: Any, *others: Any, **named: Any) -> None:
        self.places.setdefault(g, running_place(self._outermost))
        if is_transformed():
            self.transformed.add(g)
        super()._log_guard(prefix, g, *others, **named)


uninteresting_files().add(__file__)  # torch notes the innermost other file as the one that asks
_TORCH = Path(torch.__file__)


def _is_of_conditions(file: str) -> bool:
    """Whether a file is of the symbols themselves, or of this package."""
    return is_own(file) or Path(file) == _TORCH or Path(file).is_relative_to(_TORCH.parent / "fx")


def _is_of_layers(file: str) -> bool:
    """Whether a file is of a model, or of torch's layers: torch's other functions choose by conditions what they do."""
    return is_file_of_a_model(file) or Path(file).is_relative_to(_TORCH.parent / "nn")


_common_factor = functions.simple_floordiv_gcd


def powers_divided() -> AbstractContextManager[Any]:
    """While it is active, s² // s is s, as s·t // s is t: of all pairs in a batch, torch parts the rows so."""
    return patch.object(functions, "simple_floordiv_gcd", _common_powers)


def _common_powers(size: Expr, divisor: Expr) -> Expr:
    """Return the common factor that torch finds of a size and its divisor, with the powers that it leaves."""
    found = _common_factor(size, divisor)
    terms = [(term / found).as_powers_dict() for term in Add.make_args(size)]
    for factor in Mul.make_args(divisor / found):
        base, exponent = factor.as_base_exp()
        powers = [exponent, *(term.get(base, 0) for term in terms)]
        if all(isinstance(power, int | Integer) for power in powers):
            found *= base ** min(powers)
    return found


class Symbols:
    """The symbolic sizes of a trace."""

    def __init__(self, shapes: PlacedShapes) -> None:
        self._shapes = shapes
        self._sizes: dict[SizeSymbol, torch.SymInt] = {}
        self._symbols: dict[Symbol, SizeSymbol] = {}

    def size(self, symbol: SizeSymbol, value: int) -> torch.SymInt:
        """Return the size of a symbol, which is `value` in the example inputs."""
        if symbol not in self._sizes:
            source = ConstantSource(symbol.name)
            span = ValueRanges(symbol.least, int_oo if symbol.most is None else symbol.most)
            own = self._shapes.create_symbol(
                value, source, DimDynamic.DYNAMIC, StrictMinMaxConstraint(vr=span, warn_only=False)
            )
            self._symbols[own] = symbol
            self._sizes[symbol] = self._shapes.create_symintnode(own, hint=value, source=source)
        return self._sizes[symbol]

    def check_conditions(self) -> None:
        """Raise `TorchExportError` if what was traced is right for some of the sizes alone.

        torch notes what was asked of sizes, and holds for those of the example inputs. An inequality that torch asks
        chooses between ways to the same numbers; all others must hold for any sizes, which is tried with some.
        """
        tried = list(self._others())
        for guard in self._shapes.guards:
            place = guard.sloc.framework_loc
            is_of_the_model = isinstance(place, FrameSummary) and is_file_of_a_model(place.filename)
            if not (is_of_the_model or isinstance(guard.expr, Eq)) or all(_holds(guard.expr, each) for each in tried):
                continue
            asked = guard.expr.xreplace({own: Symbol(symbol.name) for own, symbol in self._symbols.items()})
            condition = f"{asked.lhs} = {asked.rhs}" if isinstance(asked, Eq) else str(asked)
            name = function_of(place) if is_of_the_model else self._shapes.places.get(guard.expr)
            where = f", by what {name} does with a size" if name else ""
            advice = OF_TRANSFORMS if guard.expr in self._shapes.transformed else _OF_SIZES
            raise TorchExportError(f"the graph would be right only for {condition}{where}. {advice}")

    def narrowed(self) -> dict[SizeSymbol, int]:
        """Return the symbols of which torch took only larger values than `least`, with the least of these.

        It takes fewer where an operator needs so many elements, and where it chooses between ways to the same numbers.
        """
        lowest = {symbol: self._shapes.var_to_range[own].lower for own, symbol in self._symbols.items()}
        return {symbol: int(value) for symbol, value in lowest.items() if value > symbol.least}

    def _others(self) -> Iterator[dict[Symbol, int]]:
        """Yield values of all symbols: the least ones, and others up to a million more, with more small ones."""
        yield {own: symbol.least for own, symbol in self._symbols.items()}
        random = np.random.default_rng(0)
        for _ in range(_TRIED):
            drawn = {own: symbol.least + int(2 ** random.uniform(0, 20)) for own, symbol in self._symbols.items()}
            yield {own: min(value, self._symbols[own].most or value) for own, value in drawn.items()}


def _holds(condition: Boolean, sizes: Mapping[Symbol, int]) -> bool:
    """Whether a condition holds for sizes, or says nothing of them, since they leave a tensor without elements."""
    try:
        return bool(condition.xreplace(sizes))
    except ZeroDivisionError:
        return True
