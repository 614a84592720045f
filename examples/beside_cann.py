# SPDX-License-Identifier: Apache-2.0

"""Runs a training graph on an NPU: pools and gradients on this package's provider, the rest on onnxruntime's CANN one.

    python examples/beside_cann.py

Runs the LeNet of this repository with the stored inputs. Needs an NPU with CANN, and Python 3.11 to 3.13:

    pip install poolgrad-lowering onnxruntime-cann==1.24.4 'numpy<2'
    source /usr/local/Ascend/ascend-toolkit/set_env.sh

docs/with-onnxruntime-cann.md describes the options.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx

import poolgrad_lowering
from poolgrad_lowering import runtime

LENET = Path(__file__).parents[1] / "models" / "built" / "torch" / "lenet.onnx"
TARGET = "Ascend910B3"  # the SoC name that npu-smi prints


def main() -> None:
    """Lower the model, run one step, and print which provider runs how many nodes."""
    lowered = poolgrad_lowering.lower(onnx.load(LENET), target=TARGET).model
    session = runtime.create_session(lowered, backend="cann", providers=["CANNExecutionProvider"])
    for provider, nodes in sorted(Counter(node.provider for node in runtime.assignment(session)).items()):
        print(f"{provider}: {nodes} nodes")

    with np.load(LENET.with_suffix(".npz")) as stored:
        feeds = {value.name: stored[f"in:{value.name}"] for value in session.get_inputs()}
    for output, result in zip(session.get_outputs(), session.run(None, feeds), strict=True):
        print(f"{output.name}: shape {list(result.shape)}, norm {np.linalg.norm(result):.6g}")


if __name__ == "__main__":
    main()
