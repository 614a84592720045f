# SPDX-License-Identifier: Apache-2.0

"""The dialect: Ascend's max pools, their gradients and those of average pools as ONNX custom ops of domain `npu`.

Defines the ops (`OPS`), their schemas, and their function bodies in standard ONNX. Does not depend on training graphs,
patterns, targets or runtimes.
"""

from poolgrad_lowering.dialect.functions import NoFunctionBodyError, function_body
from poolgrad_lowering.dialect.inference import DialectError
from poolgrad_lowering.dialect.op import DOMAIN, TYPES, VERSION, Attribute, Op
from poolgrad_lowering.dialect.ops import OPS
from poolgrad_lowering.dialect.schemas import registered_schemas, schema

__all__ = [
    "DOMAIN",
    "OPS",
    "TYPES",
    "VERSION",
    "Attribute",
    "DialectError",
    "NoFunctionBodyError",
    "Op",
    "function_body",
    "registered_schemas",
    "schema",
]
