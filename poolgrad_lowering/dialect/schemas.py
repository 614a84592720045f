# SPDX-License-Identifier: Apache-2.0

"""The schemas of the dialect, and their temporary registration in onnx's registry.

The registry is global to the process: importing this module registers nothing, and `registered_schemas` removes what it
added.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial

import onnx.defs
from onnx import AttributeProto, TensorProto
from onnx.defs import OpSchema

from poolgrad_lowering.dialect.op import DOMAIN, TYPES, VERSION, Attribute, Op, default_proto
from poolgrad_lowering.dialect.ops import OPS

_lock = threading.Lock()
_users = 0
_own: list[str] = []
"""The operators that the active contexts have registered; the last one to finish removes them."""


def schema(op: Op) -> OpSchema:
    """Return the schema of `op`, with shape inference."""
    inputs, outputs = (
        [OpSchema.FormalParameter(operand.name, operand.type_variable, operand.doc) for operand in operands]
        for operands in (op.inputs, op.outputs)
    )
    built = OpSchema(
        op.name,
        DOMAIN,
        VERSION,
        op.doc,
        inputs=inputs,
        outputs=outputs,
        type_constraints=[
            (name, [f"tensor({TensorProto.DataType.Name(number).lower()})" for number in types], "")
            for name, types in TYPES.items()
        ],
        attributes=[_attribute(attribute) for attribute in op.attributes],
    )
    built.set_type_and_shape_inference_function(partial(op.infer, op))
    return built


@contextmanager
def registered_schemas() -> Iterator[None]:
    """Register the schemas of the dialect with onnx while the context is active. Thread-safe, and can be nested.

    Inside, `onnx.checker` and `onnx.shape_inference` also check the nodes of domain `npu`. Schemas that were already
    registered are used and stay registered.
    """
    global _users  # noqa: PLW0603 - onnx's registry is global to the process, and so is this count
    with _lock:
        _register_missing()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _deregister_own()


@cache
def _schemas() -> list[OpSchema]:
    return [schema(op) for op in OPS.values()]


def _register_missing() -> None:
    try:
        for built in _schemas():
            if not onnx.defs.has(built.name, DOMAIN):
                onnx.defs.register_schema(built)
                _own.append(built.name)
    except BaseException:
        _deregister_own()
        raise


def _deregister_own() -> None:
    while _own:
        name = _own.pop()
        if onnx.defs.has(name, DOMAIN):
            onnx.defs.deregister_schema(name, VERSION, DOMAIN)


def _attribute(attribute: Attribute) -> OpSchema.Attribute:
    if attribute.required:
        kind = getattr(OpSchema.AttrType, AttributeProto.AttributeType.Name(attribute.type))
        return OpSchema.Attribute(attribute.name, kind, attribute.doc)
    return OpSchema.Attribute(attribute.name, default_proto(attribute), attribute.doc)
