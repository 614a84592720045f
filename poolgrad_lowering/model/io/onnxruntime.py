# SPDX-License-Identifier: Apache-2.0

"""Imports onnxruntime, which is optional, says what to install where it is missing or old, and quotes its errors."""

from __future__ import annotations

import re
import sys
from importlib.metadata import packages_distributions
from types import ModuleType
from typing import TYPE_CHECKING

from poolgrad_lowering.model.diagnostics.errors import OnnxRuntimeMissingError

if TYPE_CHECKING:
    import onnx

OLDEST_ONNXRUNTIME = "1.24.1"
OLDEST_PYTHON = (3, 11)
"""The oldest Python for which `OLDEST_ONNXRUNTIME` and newer releases have wheels."""


def import_onnxruntime() -> ModuleType:
    """Return the module `onnxruntime`.

    Raises `OnnxRuntimeMissingError` if it is not installed, or older than `OLDEST_ONNXRUNTIME`.
    """
    try:
        import onnxruntime  # noqa: PLC0415 - optional: the compiler and the libraries work without it
    except ImportError as error:
        raise OnnxRuntimeMissingError(f"onnxruntime cannot be imported ({error}); {advice()}") from error
    if not is_new_enough(onnxruntime.__version__):
        raise OnnxRuntimeMissingError(
            f"onnxruntime {onnxruntime.__version__} has no plugin execution providers of API 24; {advice()}"
        )
    module: ModuleType = onnxruntime
    return module


def advice() -> str:
    """Return what to install for the provider, without replacing another package that has the module onnxruntime.

    Releases of onnxruntime-training are all older than `OLDEST_ONNXRUNTIME`: lowered models train in them with the
    custom operators.
    """
    plain = f"pip install 'onnxruntime>={OLDEST_ONNXRUNTIME}'"
    installed = [name for name in packages_distributions().get("onnxruntime", ()) if name != "onnxruntime"]
    training = [name for name in installed if name.startswith("onnxruntime-training")]
    if training:
        return (
            f"{training[0]} trains lowered models with runtime.training.session_options() (docs/training.md); for the "
            f"provider, make a separate environment and there {plain}"
        )
    if sys.version_info[:2] < OLDEST_PYTHON:
        return f"make an environment with Python 3.11 or newer, for which it has wheels, and there {plain}"
    return plain.replace("onnxruntime", installed[0]) if installed else plain


def is_new_enough(version: str) -> bool:
    """Whether this version of onnxruntime is `OLDEST_ONNXRUNTIME` or newer."""
    return _release(version) >= _release(OLDEST_ONNXRUNTIME)


def _release(version: str) -> tuple[int, ...]:
    """Return the first three numbers of a version: (1, 25, 0) for "1.25.0.dev20260101"."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


_STATUS = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : ")
_SOURCE = re.compile(
    r"(?:/\S*/)?[\w-]+\.(?:cc|cpp|cu|h):\d+ "  # the file and the line
    r"(?:[\w:<>,&*~ ]*::[\w:<>~]+\((?:[^()]|\([^()]*\))*\)(?: const)?(?: \[with [^\]]*\])? )?"  # the function
)
_NO_KERNEL = re.compile(r"Could not find an implementation for \w+\(\d+\) node with name '(?P<node>[^']*)'")
_LACKING = {10: "float16", 11: "float64", 16: "bfloat16"}  # by the number in TensorProto.DataType


def quoted(error: BaseException) -> str:
    """Return the message of an exception without onnxruntime's status codes, source files, lines and functions."""
    return _SOURCE.sub("", _STATUS.sub("", str(error))).strip()


def type_without_kernel(error: BaseException, model: onnx.ModelProto | None) -> str:
    """Return that an element type is the reason, and which, if a node of the model has no kernel for it; else nothing.

    Float32 is the type that the CPU provider has all kernels for.
    """
    found = _NO_KERNEL.search(str(error))
    if found is None or model is None:
        return ""
    graph = model.graph
    typed = (*graph.input, *graph.output, *graph.value_info)
    types = {value.name: value.type.tensor_type.elem_type for value in typed}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    values = [name for node in graph.node if node.name == found["node"] for name in (*node.input, *node.output)]
    lacking = {_LACKING[types[name]] for name in values if types.get(name) in _LACKING}
    if not lacking:
        return ""
    return f"; the element type {' and '.join(sorted(lacking))} is the reason: compute in float32"
