# SPDX-License-Identifier: Apache-2.0

"""The model of a step in onnxruntime, as a comparison runs it: random numbers are inputs, no type has 16 bits."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from torch import Tensor

from poolgrad_lowering.model.diagnostics.errors import SessionError
from poolgrad_lowering.model.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.model.io.onnxruntime import import_onnxruntime, quoted, type_without_kernel
from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.model.ir.graphs import opset_of
from poolgrad_lowering.torch.arrays import Arrays, to_array
from poolgrad_lowering.torch.errors import TorchExportError
from poolgrad_lowering.torch.halves import element_types, has_halves, in_float32


class Session:
    """Runs a model that has no 16-bit types. The caller gives the random numbers.

    Raises `TorchExportError` for random numbers that cannot be given, `SessionError` if onnxruntime cannot run it.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        model, self._random = _with_random_inputs(model)
        self._session = _session(_with_exact_sigmoids(model))
        self._results = [value.name for value in self._session.get_outputs()]

    def run(self, inputs: Arrays, draws: Sequence[Tensor]) -> Arrays:
        """Return the outputs by name for inputs, and for the numbers that PyTorch has drawn in the same step."""
        given = {name: in_float32(value) for name, value in (inputs | self._fed(draws)).items()}
        try:
            return dict(zip(self._results, self._session.run(None, given), strict=True))
        except Exception as error:
            raise SessionError(f"onnxruntime cannot run the training step: {quoted(error)}") from error

    def _fed(self, draws: Sequence[Tensor]) -> Arrays:
        """Return the drawn numbers by input. Raises `TorchExportError` if PyTorch draws fewer times."""
        if max(self._random.values(), default=-1) >= len(draws):
            raise TorchExportError(
                f"a step that draws random numbers {max(self._random.values()) + 1} times cannot be compared with "
                f"PyTorch, which draws {len(draws)} times"
            )
        return {name: to_array(draws[number]) for name, number in self._random.items()}


def open_as_exported(model: onnx.ModelProto) -> None:
    """Open the model as it was exported, of which a comparison runs a copy.

    Raises `TorchExportError` if the model is invalid, `SessionError` if onnxruntime cannot open it for another reason
    than a kernel for bfloat16.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
    except ONNX_ERRORS as error:
        raise TorchExportError(f"the exported step is not valid ONNX: {error}") from error
    try:
        _session(model)
    except SessionError as error:
        has_no_kernel = isinstance(error.__cause__, import_onnxruntime().capi.onnxruntime_pybind11_state.NotImplemented)
        if not (has_no_kernel and has_halves(model)):
            raise


def _session(model: onnx.ModelProto) -> Any:
    ort = import_onnxruntime()
    options = ort.SessionOptions()
    options.log_severity_level = 4  # what is wrong is raised
    try:
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        reason = type_without_kernel(error, model)
        raise SessionError(f"onnxruntime cannot run the training step: {quoted(error)}{reason}") from error


def _with_random_inputs(model: onnx.ModelProto) -> tuple[onnx.ModelProto, Mapping[str, int]]:
    """Return a copy of the model in which random numbers are inputs, and of these inputs the number of their node.

    Raises `TorchExportError` for random numbers that cannot be fed.
    """
    copied = copy.deepcopy(model)
    for node in copied.graph.node:
        if node.op_type in ("Multinomial", "Bernoulli"):
            raise TorchExportError(f"a step with {node.op_type} cannot be compared: its random numbers cannot be fed")
    numbers, nodes, types = dict[str, int](), list[onnx.NodeProto](), element_types(copied.graph)
    for node in copied.graph.node:
        if node.op_type not in names.RANDOM:
            nodes.append(node)
            continue
        result = given = node.output[0]
        if node.input:  # whose axes the model itself may have joined
            given, sizes = f"{result}.drawn", f"{result}.sizes"
            nodes.append(onnx.helper.make_node("Shape", node.input, [sizes]))
            nodes.append(onnx.helper.make_node("Reshape", [given, sizes], [result]))
        copied.graph.input.append(onnx.helper.make_tensor_value_info(given, types[result], None))
        numbers[given] = names.random_number(node.name)
    del copied.graph.node[:]
    copied.graph.node.extend(nodes)
    return copied, numbers


def _with_exact_sigmoids(model: onnx.ModelProto) -> onnx.ModelProto:
    """Let a model compute each Sigmoid as 1 / (1 + exp(−x)) in float64, and return it.

    That of onnxruntime in float32 is off by 1e-8, whatever it is: by all of it below an operand of -18.
    """
    exact = f"""<domain: "exact", opset_import: ["" : {opset_of(model)}]> Sigmoid (x) => (y) {{
        wide = Cast <to = 11> (x)
        minus = Neg (wide)
        power = Exp (minus)
        one = Constant <value = double {{1.0}}> ()
        sum = Add (power, one)
        quotient = Reciprocal (sum)
        y = CastLike (quotient, x)
    }}"""
    for node in model.graph.node:
        node.domain = "exact" if node.op_type == "Sigmoid" else node.domain
    model.functions.append(onnx.parser.parse_function(exact))
    model.opset_import.append(onnx.helper.make_opsetid("exact", 1))
    return model
