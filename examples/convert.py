# SPDX-License-Identifier: Apache-2.0

"""Converts a training graph: lowers the gradients of its max pools, and proves the result before it is written.

    python examples/convert.py [TRAINING.onnx [LOWERED.onnx]]

Without arguments it converts the LeNet of this repository into the current folder. Needs `pip install
poolgrad-lowering`, on any system.
"""

from __future__ import annotations

import sys
from pathlib import Path

import poolgrad_lowering

LENET = Path(__file__).parents[1] / "models" / "built" / "torch" / "lenet.onnx"
TARGET = "Ascend910B3"  # the SoC name that npu-smi prints, or a product: see `poolgrad targets`


def main(source: str = str(LENET), destination: str = "lowered.onnx") -> None:
    """Convert the model in one file into another file."""
    report = poolgrad_lowering.lower_file(source, destination, target=TARGET, verify=True)
    for anchor in report.anchors:
        print(f"{anchor.name}: {anchor.status}: {anchor.op or anchor.reason}")
    print(f"wrote {destination} for {report.target}: {len(report.lowered)} gradients lowered and proven")


if __name__ == "__main__":
    main(*sys.argv[1:])
