# SPDX-License-Identifier: Apache-2.0

"""What `poolgrad_lowering.torch` uses of torch that is not public: this fails first when torch moves it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import poolgrad_lowering.torch  # noqa: E402
from poolgrad_lowering.torch import internals  # noqa: E402

ROOM = Path(str(poolgrad_lowering.torch.__file__)).parent
PRIVATE = re.compile(r"torch\.(\w+\.)*_|torch\.fx\.experimental|torch\._")


def imported(path: Path) -> set[str]:
    """The modules that a file imports, and the dotted names that it uses."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return found | {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_only_one_module_uses_private_names_of_torch() -> None:
    users = {path.name for path in ROOM.glob("*.py") if any(PRIVATE.match(name) for name in imported(path))}
    assert users == {"internals.py"}


def test_a_gradient_is_traced_with_a_symbolic_batch() -> None:
    def gradient(x: Any, w: Any) -> tuple[Any, ...]:
        weight = w.detach().requires_grad_()
        return torch.autograd.grad((x * weight).relu().sum(), [weight])

    graph = internals.trace(gradient, [torch.ones(4, 4), torch.ones(4)], [0], {})
    for rows in (4, 9):
        (found,) = graph(torch.ones(rows, 4), torch.ones(4))
        assert torch.equal(found, torch.full((4,), float(rows)))


def test_masks_of_dropout_are_recorded() -> None:
    with internals.RecordedMasks() as recorded:
        x = torch.nn.functional.dropout(torch.ones(100), 0.25)
        y = torch.nn.functional.dropout2d(torch.ones(5, 7, 3, 3), 0.5)
    assert [mask.numel() for mask in recorded.masks] == [100, 35]
    assert torch.equal(x > 0, recorded.masks[0] > 0)
    assert torch.equal(y > 0, (recorded.masks[1] > 0).expand(5, 7, 3, 3))
