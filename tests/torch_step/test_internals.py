# SPDX-License-Identifier: Apache-2.0

"""What `poolgrad_lowering.torch` uses of torch that is not public: this fails first when torch moves it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import torch

import poolgrad_lowering.torch
from poolgrad_lowering.torch.dynamic_shapes import Symbol, SymbolicSize
from poolgrad_lowering.torch.internals.graphs import run_annotated
from poolgrad_lowering.torch.internals.modes import Draws, InWiderType
from poolgrad_lowering.torch.internals.tracing import trace
from poolgrad_lowering.torch.operators.random_numbers import OF_RANDOM_NUMBERS

ROOM = Path(str(poolgrad_lowering.torch.__file__)).parent
PRIVATE = re.compile(r"torch\.(\w+\.)*_|torch\.fx\.experimental|torch\._")


def imported(path: Path) -> set[str]:
    """The modules that a file imports, and the dotted names that it uses."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return found | {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_only_one_folder_uses_private_names_of_torch() -> None:
    users = {path.parent.name for path in ROOM.rglob("*.py") if any(PRIVATE.match(name) for name in imported(path))}
    assert users == {"internals"}


def test_a_gradient_is_traced_with_a_symbolic_batch() -> None:
    def gradient(x: Any, w: Any) -> tuple[Any, ...]:
        weight = w.detach().requires_grad_()
        return torch.autograd.grad((x * weight).relu().sum(), [weight])

    graph = trace(
        gradient, {"x": torch.ones(4, 4), "w": torch.ones(4)}, {"x": {0: SymbolicSize(1, Symbol("n"))}}, {}, {}
    )
    for rows in (4, 9):
        (found,) = graph(torch.ones(rows, 4), torch.ones(4))
        assert torch.equal(found, torch.full((4,), float(rows)))


def test_random_numbers_are_kept_and_given_again() -> None:
    """Those of dropout are uniform ones, in which its mask is where they are below the probability to stay."""

    def draw() -> list[Any]:
        dropped = torch.nn.functional.dropout(torch.ones(100), 0.25)
        channels = torch.nn.functional.dropout2d(torch.ones(5, 7, 3, 3), 0.5)
        drawn = torch.rand(3), torch.randn(2, 2), torch.rand_like(dropped), torch.randn_like(dropped)
        return [dropped, channels, *drawn, torch.bernoulli(torch.full((9,), 0.5))]

    with Draws(OF_RANDOM_NUMBERS) as kept:
        first = draw()
    assert [value.numel() for value in kept.values] == [100, 35, 3, 4, 100, 100, 9]
    assert torch.equal(first[0] > 0, kept.values[0] < 0.75)
    assert torch.equal(first[1] > 0, (kept.values[1] < 0.5).expand(5, 7, 3, 3))
    with Draws(OF_RANDOM_NUMBERS, kept.values):
        assert all(map(torch.equal, first, draw()))


def test_float32_becomes_float64() -> None:
    """Of what is made, converted and held, and in views that are written to."""
    held = torch.full((3,), 1 / 3, dtype=torch.float64).float()
    with InWiderType(torch.float64, {}), torch.autocast("cpu", torch.bfloat16):
        made = torch.full((3, 3), 1 / 3, dtype=torch.float32)
        assert made.half().bfloat16().float()[0, 0].item() == 1 / 3
        product = made @ held
        made[1:].add_(held)
    assert product.dtype == torch.float64
    assert torch.equal(made[1:], (1 / 3 + held.double()).expand(2, 3))


def test_new_tensors_of_numbers_are_in_float64() -> None:
    with InWiderType(torch.float64, {}):
        part = torch.tensor([0.25])
        assert part.dtype == torch.float64
        torch.quantile(torch.ones(3).double(), part)  # takes operands of one type
        least = torch.finfo(part.dtype).min
        assert torch.full((), least).item() == least


def test_a_graph_runs_on_other_strides_than_it_was_traced_with() -> None:
    x = torch.arange(6.0).view(2, 3)
    graph = trace(lambda value: (value.view(6),), {"x": x}, {}, {}, {})
    assert torch.equal(run_annotated(graph, [x.t().contiguous().t()])[0], x.flatten())
