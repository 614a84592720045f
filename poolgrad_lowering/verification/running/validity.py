# SPDX-License-Identifier: Apache-2.0

"""Whether a model that onnxruntime does not run is valid ONNX, by onnx's checker."""

from __future__ import annotations

from collections.abc import Collection

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from poolgrad_lowering.verification.graph import protos
from poolgrad_lowering.verification.running.evaluator import first_line

_FOREIGN = "operators that ONNX does not have"
"""The domain for operators of runtimes whose nodes name ONNX's own domain: the checker passes over others."""

_OF_TYPES = ("to", "dtype")
"""The attributes that are element types."""


def flaw_of(model: ModelProto) -> str | None:
    """Return what onnx's checker, with shape inference, says of a model that is not valid; None of a valid one.

    The checker passes over operators that ONNX does not have, and results of unknown rank, which runtimes take. It
    takes bfloat16 for float16, which older versions of operators have too.
    """
    try:
        onnx.checker.check_model(_for_checker(model).SerializeToString(), full_check=True)
    except Exception as error:  # the checker raises errors of many classes
        return first_line(error)
    return None


def _for_checker(model: ModelProto) -> ModelProto:
    """Return a copy of a model, with what `flaw_of` says, without large initializers and in topological order."""
    made = protos.without_weights(model)
    made.functions.extend(model.functions)
    made.graph.name = model.graph.name
    of_known_rank = [value for value in model.graph.output if value.type.tensor_type.HasField("shape")]
    protos.replace_entries(made.graph, "output", of_known_rank)
    made = protos.in_order(made)
    opset = protos.default_opset(model)
    own = {function.name for function in made.functions if function.domain in ("", "ai.onnx")}
    for scope in protos.scopes_of(made):
        for node in scope.node:
            _name_foreign(node, own, opset)
        _read_as_float16(scope)
    for imports in (made.opset_import, *(function.opset_import for function in made.functions)):
        imports.add(domain=_FOREIGN, version=1)
    return made


def _name_foreign(node: NodeProto, own: Collection[str], opset: int) -> None:
    """Give a node the domain `_FOREIGN` if ONNX's has no such operator at this opset, and neither has the model."""
    is_known = node.op_type in own or onnx.defs.has(node.op_type, max_inclusive_version=opset)
    if node.domain in ("", "ai.onnx") and not is_known:
        node.domain = _FOREIGN


def _read_as_float16(scope: GraphProto | FunctionProto) -> None:
    """Put float16, whose numbers have as many bits, in place of bfloat16."""
    half: dict[int, TensorProto.DataType] = {TensorProto.BFLOAT16: TensorProto.FLOAT16}
    values = [*scope.value_info, *([*scope.input, *scope.output] if isinstance(scope, GraphProto) else [])]
    for value in values:
        tensor = value.type.tensor_type
        tensor.elem_type = half.get(tensor.elem_type, tensor.elem_type)
    attributes = [attribute for node in scope.node for attribute in node.attribute]
    for attribute in attributes:
        if attribute.name in _OF_TYPES:
            attribute.i = half.get(attribute.i, attribute.i)
    held = [attribute.t for attribute in attributes if attribute.HasField("t")]
    for stored in [*held, *(scope.initializer if isinstance(scope, GraphProto) else [])]:
        stored.data_type = half.get(stored.data_type, stored.data_type)
