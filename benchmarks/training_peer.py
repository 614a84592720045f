# SPDX-License-Identifier: Apache-2.0

"""Runs MaxPoolGrad of onnxruntime-training in a child process of another environment, controlled by a pipe."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

CHILD = Path(__file__).with_name("training_peer_child.py")


class TrainingPeer:
    """The child process. `python` is the other environment's interpreter; models and inputs are files in `work`."""

    def __init__(self, python: Path, work: Path) -> None:
        self._work = work
        self._child = subprocess.Popen(
            [str(python), str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def runner(
        self, windows: dict[str, Sequence[int]], shape: Sequence[int], feeds: dict[str, Any]
    ) -> Callable[[], None]:
        """A call that runs one gradient in the child. `feeds` are `dy` and `indices`, positions in the flattened x.

        `shape` is that of x. The call raises `RuntimeError` if the child ends.
        """
        model, arrays = self._work / "gradient.onnx", self._work / "gradient.npz"
        onnx.save(_model(windows, shape, feeds), model)
        np.savez(arrays, **feeds)
        self._ask(f"{model}\t{arrays}")
        return lambda: self._ask("")

    def close(self) -> None:
        """End the child process."""
        self._child.communicate()

    def _ask(self, line: str) -> None:
        if self._child.stdin is None or self._child.stdout is None:
            raise AssertionError("both are pipes")
        self._child.stdin.write(line + "\n")
        if self._child.stdout.readline() != "done\n":
            raise RuntimeError(f"{CHILD.name} ended with {self._child.wait()}; its output is above")


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
