# SPDX-License-Identifier: Apache-2.0

"""What became of the operators of training runtimes in a model, as data."""

from __future__ import annotations

from typing import Any, NamedTuple

from poolgrad_lowering.model.diagnostics.text import counted


class NodeLeft(NamedTuple):
    """A node that has no definition: its name, its operator, the code, and a sentence that names what is missing."""

    node: str
    operator: str
    code: str
    reason: str


class Standardised(NamedTuple):
    """What became of the operators of training runtimes: the number of replaced nodes by operator, and those left.

    `growth` is the number of nodes by which the model grew.
    """

    replaced: dict[str, int]
    left: tuple[NodeLeft, ...]
    growth: int = 0

    @property
    def is_standard(self) -> bool:
        """Whether the model consists of ONNX's operators and those of the dialect."""
        return not self.left

    @property
    def text(self) -> str:
        """What was done, as a sentence part."""
        total = sum(self.replaced.values())
        left = f", {len(self.left)} left" if self.left else ""
        return (
            f"{counted(total, 'node')} of {counted(len(self.replaced), 'operator')} of training runtimes replaced{left}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data with the keys of the JSON report."""
        return {"replaced": dict(sorted(self.replaced.items())), "left": [node._asdict() for node in self.left]}
