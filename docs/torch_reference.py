# SPDX-License-Identifier: Apache-2.0

"""Writes the reference of `poolgrad_lowering.torch`, which needs PyTorch, for the page of the Python reference.

    python3 tools/environments.py torch-step python -m docs.torch_reference

The page is generated without PyTorch, from the file that this writes; a test with PyTorch compares it with the code.
"""

from __future__ import annotations

from docs.api_reference import section
from docs.generate import DOCS
from poolgrad_lowering import torch

TASKS = {
    "Export a training step": ("export_training_step", "TrainingStep", "StepCheck"),
    "Optimizers": ("SGD", "Adam", "AdamW", "Group", "export_update", "Update"),
    "Evaluate": ("export_forward", "Forward"),
    "Errors": ("TorchExportError", "StepMismatchError", "TorchMissingError"),
}
"""The public names of the module, by what they are for."""

FILE = DOCS / "torch_reference.txt"


def text() -> str:
    """The reference as Markdown."""
    return section("poolgrad_lowering.torch", torch, TASKS) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
