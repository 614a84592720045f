"""Schemas of the dialect in onnx's own registry, for as long as someone needs them there.

The registry is global to the process: nothing is registered at import, and what `registered_schemas` adds it removes.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import onnx.defs
from onnx import AttributeProto, TensorProto
from onnx.defs import OpSchema

from poolgrad_lowering.dialect.attributes import default_proto
from poolgrad_lowering.dialect.gradient_inference import infer_gradient
from poolgrad_lowering.dialect.op import DOMAIN, TYPES, VERSION, Attribute, Kind, Op, Operand
from poolgrad_lowering.dialect.ops import OPS
from poolgrad_lowering.dialect.pool_inference import infer_adaptive_pool, infer_pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from onnx.shape_inference import InferenceContext

_INFERENCE: Mapping[Kind, Callable[[Op, InferenceContext], None]] = MappingProxyType(
    {Kind.GRADIENT: infer_gradient, Kind.POOL: infer_pool, Kind.ADAPTIVE_POOL: infer_adaptive_pool}
)


def schema(op: Op) -> OpSchema:
    """Build the schema of `op`; with shape inference where onnx lets Python define it (1.19 and newer)."""
    used = {operand.type_variable for operand in (*op.inputs, *op.outputs)}
    built = OpSchema(
        op.name,
        DOMAIN,
        VERSION,
        op.doc,
        inputs=[_parameter(operand) for operand in op.inputs],
        outputs=[_parameter(operand) for operand in op.outputs],
        type_constraints=[(name, [_type_text(t) for t in TYPES[name]], "") for name in TYPES if name in used],
        attributes=[_attribute(attribute) for attribute in op.attributes],
    )
    if hasattr(built, "set_type_and_shape_inference_function"):
        built.set_type_and_shape_inference_function(partial(_INFERENCE[op.kind], op))
    return built


@contextmanager
def registered_schemas() -> Iterator[None]:
    """Keep the schemas of the dialect in onnx's registry while the context is entered, by any thread, any depth.

    Within, `onnx.checker` and `onnx.shape_inference` check the nodes of domain `npu` too. Schemas that somebody else
    registered are used and left as they are.
    """
    _registration.acquire()
    try:
        yield
    finally:
        _registration.release()


class _Registration:
    """Counts who needs the schemas: the first registers what is missing, the last removes it again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._own: list[str] = []

    def acquire(self) -> None:
        with self._lock:
            if self._users == 0:
                self._register_missing()
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._deregister_own()

    def _register_missing(self) -> None:
        try:
            for op in OPS.values():
                if not onnx.defs.has(op.name, DOMAIN):
                    onnx.defs.register_schema(schema(op))
                    self._own.append(op.name)
        except BaseException:
            self._deregister_own()
            raise

    def _deregister_own(self) -> None:
        while self._own:
            name = self._own.pop()
            if onnx.defs.has(name, DOMAIN):
                onnx.defs.deregister_schema(name, VERSION, DOMAIN)


_registration = _Registration()


def _parameter(operand: Operand) -> OpSchema.FormalParameter:
    return OpSchema.FormalParameter(operand.name, operand.type_variable, operand.doc)


def _attribute(attribute: Attribute) -> OpSchema.Attribute:
    if attribute.required:
        kind = getattr(OpSchema.AttrType, AttributeProto.AttributeType.Name(attribute.type))
        return OpSchema.Attribute(attribute.name, kind, attribute.doc, required=True)
    return OpSchema.Attribute(attribute.name, default_proto(attribute), attribute.doc)


def _type_text(element_type: int) -> str:
    return f"tensor({TensorProto.DataType.Name(element_type).lower()})"
