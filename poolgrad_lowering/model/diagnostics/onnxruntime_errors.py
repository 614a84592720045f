# SPDX-License-Identifier: Apache-2.0

"""The messages of onnxruntime's exceptions, as this package quotes them, and a reason that they do not name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

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
