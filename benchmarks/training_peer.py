# SPDX-License-Identifier: Apache-2.0

"""MaxPoolGrad of onnxruntime-training, which needs an environment of its own: a process there, asked by a pipe."""

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
    """`python` is the interpreter of the other environment; models and their inputs go through the folder `work`."""

    def __init__(self, python: Path, work: Path) -> None:
        self._work = work
        self._child = subprocess.Popen(
            [str(python), str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def runner(
        self, windows: dict[str, Sequence[int]], shape: Sequence[int], feeds: dict[str, Any]
    ) -> Callable[[], None]:
        """A call that has the child run one gradient; `feeds` are arrays of `dy` and of `indices` in the whole x."""
        model, arrays = self._work / "gradient.onnx", self._work / "gradient.npz"
        onnx.save(_model(windows, shape, feeds), model)
        np.savez(arrays, **feeds)
        self._ask(f"{model}\t{arrays}")
        return lambda: self._ask("")

    def close(self) -> None:
        """End the child."""
        self._child.communicate()

    def _ask(self, line: str) -> None:
        if self._child.stdin is None or self._child.stdout is None:
            raise AssertionError("both are pipes")
        self._child.stdin.write(line + "\n")
        if self._child.stdout.readline() != "done\n":
            raise RuntimeError(f"{CHILD.name} ended with {self._child.wait()}; what it says is above")


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
