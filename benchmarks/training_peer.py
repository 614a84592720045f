# SPDX-License-Identifier: Apache-2.0

"""Runs onnxruntime-training in a child process of another environment, controlled by a pipe."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

TRAINING_PYTHON = "POOLGRAD_TRAINING_PYTHON"
"""Environment variable with the interpreter that has onnxruntime-training, which is not measured without it."""

CHILD = Path(__file__).with_name("training_peer_child.py")


class Peer:
    """A child process that answers each line with `done`. `python` is the other environment's interpreter."""

    def __init__(self, python: Path, child: Path) -> None:
        self._name = child.name
        self._child = subprocess.Popen(
            [str(python), str(child)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ask(self, line: str) -> None:
        """Send a line, and wait for the answer. Raises `RuntimeError` if the child ends."""
        if self._child.stdin is None or self._child.stdout is None:
            raise AssertionError("both are pipes")
        self._child.stdin.write(line + "\n")
        if self._child.stdout.readline() != "done\n":
            raise RuntimeError(f"{self._name} ended with {self._child.wait()}; its output is above")

    def close(self) -> None:
        """End the child process."""
        self._child.communicate()


class TrainingPeer(Peer):
    """A child process that runs MaxPoolGrad. Models and inputs are files in `work`."""

    def __init__(self, python: Path, work: Path) -> None:
        super().__init__(python, CHILD)
        self._work = work

    def runner(
        self, windows: dict[str, Sequence[int]], shape: Sequence[int], feeds: dict[str, Any]
    ) -> Callable[[], None]:
        """A call that runs one gradient in the child. `feeds` are `dy` and `indices`, positions in the flattened x.

        `shape` is that of x. The call raises `RuntimeError` if the child ends.
        """
        model, arrays = self._work / "gradient.onnx", self._work / "gradient.npz"
        onnx.save(_model(windows, shape, feeds), model)
        np.savez(arrays, **feeds)
        self.ask(f"{model}\t{arrays}")
        return lambda: self.ask("")


def _model(windows: dict[str, Sequence[int]], shape: Sequence[int], feeds: dict[str, Any]) -> onnx.ModelProto:
    node = helper.make_node("MaxPoolGrad", list(feeds), ["dx"], **windows)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    graph = helper.make_graph(
        [node], "one_node", inputs, [helper.make_tensor_value_info("dx", TensorProto.FLOAT, shape)]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
