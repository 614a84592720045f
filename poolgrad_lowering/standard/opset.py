# SPDX-License-Identifier: Apache-2.0

"""Declares models in ONNX's opset 18, the newest that CANN takes, where all of their nodes mean the same in it."""

from __future__ import annotations

import onnx
from onnx import ModelProto, NodeProto, TensorProto

from poolgrad_lowering.model.facts.training_operators import MICROSOFT
from poolgrad_lowering.model.ir.graphs import all_nodes, is_standard, opset_of, remove_entries

OPSET = 18
_NEWEST = 21
_WIDER = (
    *("AveragePool", "Cast", "CastLike", "Constant", "ConstantOfShape", "Equal", "Flatten", "Identity", "If", "IsInf"),
    *("IsNaN", "Loop", "Pad", "ReduceMax", "ReduceMin", "Reshape", "Resize", "Scan", "Shape", "Size", "Squeeze"),
    *("Transpose", "Unsqueeze"),
)
"""Operators of which the versions up to opset 21 only take more element types, attributes, or values of these.

Source: the schemas and the changelog of ONNX.
"""
_OF_OTHER_TYPES = ("saturate",)
"""Attributes that mean nothing for the types that opset 18 has."""
_NEWER_VALUES = {("Pad", "mode"): b"wrap", ("Resize", "coordinate_transformation_mode"): b"half_pixel_symmetric"}
"""Values of attributes that opset 18 does not have."""


_GELU = {b"none": "Gelu", b"tanh": "FastGelu"}
"""By attribute `approximate`, onnxruntime's operators that are ONNX's Gelu of opset 20, and have a definition."""


def use_older_opset(model: ModelProto) -> bool:
    """Let a model of opset 19 to 21 import opset 18 if all of its nodes mean the same; in place, return if it does."""
    version = opset_of(model)
    nodes = [node for node in all_nodes(model) if is_standard(node)]
    if not OPSET < version <= _NEWEST or model.functions or not all(_is_older(node, version) for node in nodes):
        return False
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = OPSET
    gelus = [node for node in nodes if node.op_type == "Gelu"]
    for node in gelus:
        spelled = next((held.s for held in node.attribute), b"none")
        node.domain, node.op_type = MICROSOFT, _GELU[spelled]
        node.ClearField("attribute")
    if gelus and MICROSOFT not in {entry.domain for entry in model.opset_import}:
        model.opset_import.add(domain=MICROSOFT, version=1)
    for node in nodes:
        remove_entries(node.attribute, lambda held: held.name in _OF_OTHER_TYPES)
    return True


def _is_older(node: NodeProto, version: int) -> bool:
    """Whether a node means the same in opset 18 as in a newer one. onnxruntime's have ONNX's domain, but no version."""
    if not onnx.defs.has(node.op_type):
        return True
    if not onnx.defs.has(node.op_type, max_inclusive_version=version):
        return False  # the model is not valid
    if onnx.defs.get_schema(node.op_type, version).since_version <= OPSET:
        return True
    held = {attribute.name: attribute for attribute in node.attribute if attribute.name not in _OF_OTHER_TYPES}
    if node.op_type == "Gelu":
        return "approximate" not in held or held["approximate"].s in _GELU
    if node.op_type not in _WIDER:
        return False
    older = onnx.defs.get_schema(node.op_type, OPSET)
    if not held.keys() <= older.attributes.keys() or len(node.input) > older.max_input:
        return False
    numbers = {name: attribute.i for name, attribute in held.items()}
    is_newer_type = node.op_type == "Cast" and numbers.get("to", 0) > TensorProto.BFLOAT16
    # Of the windows that ceil_mode adds, onnxruntime counts other elements in each version.
    counts_otherwise = node.op_type == "AveragePool" and numbers.get("ceil_mode", 0)
    is_newer_value = any(_NEWER_VALUES.get((node.op_type, name)) == each.s for name, each in held.items() if each.s)
    return not (is_newer_type or counts_otherwise or is_newer_value)
