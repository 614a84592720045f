# SPDX-License-Identifier: Apache-2.0

"""Damage by other tools to a lowered model: what is left of its nodes, and what to do about it.

Comes from operators, attributes, declared types and names alone. Knows neither reports nor runtimes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from onnx import FunctionProto, TensorProto, TypeProto
from onnx.shape_inference import InferenceError, infer_function_output_types

from poolgrad_lowering.dialect import DOMAIN, OPS, TYPES
from poolgrad_lowering.dialect.op import VALUE
from poolgrad_lowering.model.diagnostics.note_codes import NoteCode
from poolgrad_lowering.model.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.model.diagnostics.text import counted, either
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Node

_MARKERS = {body.marker for op in OPS.values() for body in op.bodies.values() if body.marker}
_BODY_VALUE = re.compile(rf"(?:^|[_/])(?:{'|'.join(sorted(_MARKERS))})[_\d]*$", re.MULTILINE)
"""The marker of a gradient's function body, with what the tools that inline functions put before and after it:
`argmax_planes__2`, `argmax_planes_2`, `_inlfunc_MaxPool3DGradWithArgmax_argmax_planes`."""


def damages(index: ModelIndex) -> Iterator[tuple[NoteCode, str]]:
    """Yield each damage to an indexed model, with a text on what was found and what follows, without the advice."""
    bodies = {function.name: function for function in index.model.functions if function.domain == DOMAIN}
    nodes = list(dialect_nodes(index))
    known = [node for node in nodes if node.proto.op_type in OPS]
    if bare := [node for node in known if node.proto.op_type not in bodies]:
        yield (
            NoteCode.NO_BODIES,
            f"{_counted(bare)} without a function body ({_operators(bare)}): a tool has removed the model's functions "
            "(onnx.version_converter does), and without them onnxruntime loads the model neither with the execution "
            "provider nor without it",
        )
    if mistyped := _mistyped(known, bodies):
        yield (
            NoteCode.MISTYPED_BODIES,
            f"{_counted(mistyped)} of an element type that the function body does not take ({_operators(mistyped)}): "
            "a tool has changed the model's types (converters to float16 do), and onnxruntime does not load it",
        )
    if incomplete := {node: missing for node in known if (missing := _missing_attributes(node))}:
        yield (
            NoteCode.MISSING_ATTRIBUTES,
            f"{_counted(incomplete)} without {either(sorted(set().union(*incomplete.values())))}: a tool has removed "
            "attributes, and the execution provider runs no node without them",
        )
    others = {node.proto.op_type for node in nodes} - OPS.keys()
    if renamed := sorted(name for name in others if name.endswith(tuple(OPS))):
        yield (
            NoteCode.RENAMED_OPERATORS,
            f"domain {DOMAIN} has no operator {either(renamed)}, and the execution provider does not run it: a tool "
            "has renamed an operator (onnx.compose.add_prefix does)",
        )
    if inlined := _inlined(index):
        rest = "" if known or renamed else f"no node of domain {DOMAIN} is left, and "
        yield (
            NoteCode.INLINED_BODIES,
            f"the function bodies of {counted(inlined, f'{DOMAIN} gradient')} were inlined: {rest}the execution "
            "provider does not run what replaced them. Only a model for ATC is meant to be so",
        )


def dialect_nodes(index: ModelIndex) -> Iterator[Node]:
    """Yield the nodes of domain npu, without those of its function bodies."""
    for scope in index.scopes:
        if not is_body(scope.root.proto):
            for (domain, _), positions in scope.by_op.items():
                if domain == DOMAIN:
                    yield from map(scope.node, positions)


def is_body(proto: object) -> bool:
    """Whether this is a function body of the dialect."""
    return isinstance(proto, FunctionProto) and proto.domain == DOMAIN


def _counted(nodes: Collection[Node]) -> str:
    return counted(len(nodes), f"{DOMAIN} node")


def _operators(nodes: Iterable[Node]) -> str:
    return ", ".join(sorted({node.proto.op_type for node in nodes}))


def _missing_attributes(node: Node) -> set[str]:
    """Return the attributes that the rewrite writes and the node lacks. It writes those with a default, too."""
    op = OPS[node.proto.op_type]
    return {attribute.name for attribute in op.attributes} - {attribute.name for attribute in node.proto.attribute}


def _mistyped(nodes: Iterable[Node], bodies: Mapping[str, FunctionProto]) -> list[Node]:
    """Return the nodes of an element type, as far as declared, that the body of their operator does not take."""
    found: dict[tuple[str, int | None], bool] = {}
    mistyped = []
    for node in nodes:
        key = node.proto.op_type, declared_element_type(node)
        if key not in found:
            found[key] = key[0] in bodies and key[1] is not None and not _takes(bodies[key[0]], key[1], node)
        if found[key]:
            mistyped.append(node)
    return mistyped


def _takes(body: FunctionProto, element_type: int, node: Node) -> bool:
    """Whether a body has types if x and the gradients are of an element type."""
    inputs = OPS[body.name].inputs
    elements = [element_type if one.type_variable == VALUE else TensorProto.INT64 for one in inputs]
    types = [TypeProto(tensor_type=TypeProto.Tensor(elem_type=each)) for each in elements]
    try:
        infer_function_output_types(body, types, list(node.proto.attribute))
    except InferenceError:
        return False
    except ONNX_ERRORS:  # such as an assertion of onnx about a malformed body
        return True
    return True


def declared_element_type(node: Node) -> int | None:
    """Return the element type that the model declares for x, a gradient or y of a node of the dialect, or None."""
    op = OPS[node.proto.op_type]
    operands = zip((*op.inputs, *op.outputs), (*node.inputs, *node.outputs), strict=False)
    for operand, value in operands:
        if value is not None and operand.type_variable == VALUE:
            declared = value.scope.declared(value.name)
            if declared is not None and declared.type.tensor_type.elem_type in TYPES[VALUE]:
                return declared.type.tensor_type.elem_type
    return None


def _inlined(index: ModelIndex) -> int:
    """Return the number of gradients whose function body was put in place of a node of the dialect."""
    values = ["\n".join(scope.producers) for scope in index.scopes if not is_body(scope.root.proto)]
    return sum(len(_BODY_VALUE.findall(names)) for names in values if any(marker in names for marker in _MARKERS))
