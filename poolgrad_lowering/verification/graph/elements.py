# SPDX-License-Identifier: Apache-2.0

"""Element types that follow from the operators around a value, where onnx's inference stops.

Inference goes forwards, and ends at an operator that ONNX does not have. But an Add has operands and a result of one
type, whichever of them is known; so have a pool's gradient, x, and what it computes, in every producer's operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx
from onnx.defs import OpSchema

from poolgrad_lowering.verification.graph import roles
from poolgrad_lowering.verification.graph.flat import FlatNode


def elements_around(nodes: Iterable[FlatNode], known: Mapping[str, int], opset: int) -> dict[str, int]:
    """Return the element types (`TensorProto.DataType`) of values that are not `known`, as far as they follow."""
    found: dict[str, int] = {}
    own = list(nodes)
    recorded = {value: x for node in own if (x := roles.pooled(node)) for value in node.outputs[1:] if value}
    waiting = [group for node in own for group in _alike(node, recorded, opset) if not group <= known.keys()]
    while waiting:
        left = []
        for group in [*waiting, *waiting[::-1]]:
            element = next((e for name in group if (e := known.get(name, found.get(name))) is not None), None)
            if element is not None:
                found.update((name, element) for name in group if name not in known)
        left = [group for group in waiting if not group <= found.keys() | known.keys()]
        if len(left) == len(waiting):
            break
        waiting = left
    return found


def _alike(node: FlatNode, recorded: Mapping[str, str], opset: int) -> Iterator[set[str]]:
    """Yield sets of values with the same element type around a node; `recorded` has x by the indices of its pool."""
    if not node.op[0] and onnx.defs.has(node.op[1], max_inclusive_version=opset):
        schema = onnx.defs.get_schema(node.op[1], max_inclusive_version=opset)
        by_type: dict[str, set[str]] = {}
        for values, formal in ((node.inputs, schema.inputs), (node.outputs, schema.outputs)):
            for value, parameter in zip(values, _repeated(formal, len(values)), strict=False):
                if value and parameter.is_homogeneous:
                    by_type.setdefault(parameter.type_str, set()).add(value)
        variables = {constraint.type_param_str for constraint in schema.type_constraints}
        yield from (group for name, group in by_type.items() if name in variables and len(group) > 1)
    else:
        x = roles.pooled(node) or recorded.get(roles.same_shape(node) or "")
        of_pool = set(filter(None, (x, roles.incoming_gradient(node))))
        if of_pool and any(node.outputs[:1]):
            yield {*of_pool, node.outputs[0]}


def _repeated(formal: Iterable[OpSchema.FormalParameter], count: int) -> list[OpSchema.FormalParameter]:
    """Return the parameters for a number of operands: the last one is repeated if it stands for several."""
    given = list(formal)
    if given and given[-1].option == OpSchema.FormalParameterOption.Variadic:
        given += given[-1:] * (count - len(given))
    return given
