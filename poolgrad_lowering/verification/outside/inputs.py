# SPDX-License-Identifier: Apache-2.0

"""Graph inputs of a lowered model that are initializers of the original: weights that are to be trained.

Such an input has the type and shape of the initializer, and no value in the lowered model. It is compared, and fed,
with the value that it has in the original.
"""

from __future__ import annotations

from copy import deepcopy

import onnx
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

from poolgrad_lowering.verification.graph.protos import replace_entries
from poolgrad_lowering.verification.result import Difference


def initializers_as_inputs(original: GraphProto, lowered: GraphProto) -> dict[str, TensorProto]:
    """Return the initializers of the original without a value in the lowered model that are inputs there, by name."""
    valued = {tensor.name for tensor in lowered.initializer}
    inputs = {value.name for value in lowered.input}
    return {tensor.name: tensor for tensor in original.initializer if tensor.name in inputs - valued}


def compare_inputs(original: ModelProto, lowered: ModelProto) -> list[Difference]:
    """Return the differences in the inputs of the main graphs: new ones have the type of an initializer."""
    weights = initializers_as_inputs(original.graph, lowered.graph)
    known = {value.name for value in original.graph.input}
    kept = [value for value in lowered.graph.input if value.name in known or value.name not in weights]
    found = [
        Difference("main", f"input '{value.name}' has another type than the initializer whose place it takes")
        for value in lowered.graph.input
        if value.name in weights and value.name not in known and value != _declared(weights[value.name])
    ]
    names = [value.name for value in lowered.graph.input]
    if len(set(names)) < len(names) or kept != list(original.graph.input):
        found.append(Difference("main", "field 'input' differs"))
    return found


def with_inputs_of(lowered: ModelProto, original: ModelProto) -> tuple[ModelProto, dict[str, TensorProto]]:
    """Return the original with the same initializers as inputs, so that runtimes optimise both alike, and their values.

    A model without such initializers is returned as it is.
    """
    weights = initializers_as_inputs(original.graph, lowered.graph)
    if not weights:
        return original, {}
    changed = deepcopy(original)
    replace_entries(changed.graph, "initializer", [t for t in original.graph.initializer if t.name not in weights])
    declared = {value.name for value in original.graph.input}
    changed.graph.input.extend(_declared(tensor) for name, tensor in weights.items() if name not in declared)
    return changed, weights


def _declared(tensor: TensorProto) -> ValueInfoProto:
    return onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
