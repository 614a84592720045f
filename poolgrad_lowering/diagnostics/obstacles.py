# SPDX-License-Identifier: Apache-2.0

"""The obstacles to a conversion with ATC: checks, reports, tests and docs share this table.

Sources: the ONNX parser of CANN's graph engine (GE), its parser plugins, and the operator definitions of ops-nn.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from poolgrad_lowering.diagnostics.faults import Meaning


class Obstacle(Enum):
    """A condition under which ATC does not convert a model, or converts it to other results."""

    ARGMAX_TYPE = "argmax-type"
    DROPPED_DILATION = "dropped-dilation"
    EMPTY_NAMES = "empty-names"
    FLOAT64 = "float64"
    FUNCTION_CALL = "function-call"
    KEPT_INDICES = "kept-indices"
    LARGE_WINDOW = "large-window"
    NO_INPUT = "no-input"
    OPSET = "opset"
    POOL_AXES = "pool-axes"
    SAME_LOWER = "same-lower"
    STORAGE_ORDER = "storage-order"
    UNKNOWN_RANK = "unknown-rank"
    UNREGISTERED_OPERATOR = "unregistered-operator"
    WRONG_TARGET = "wrong-target"


OBSTACLES: dict[Obstacle, Meaning] = {
    Obstacle.ARGMAX_TYPE: Meaning(
        "An operator of the dialect has an int64 argmax; on Atlas A2 and A3, Ascend's operators take int32 only.",
        "Export the original model, or lower it for this target.",
    ),
    Obstacle.DROPPED_DILATION: Meaning(
        "A MaxPool over one or two spatial axes has a dilation. ATC's plugin drops it without an error.",
        "Choose the target ascend950, whose pools have a dilation, or train without one.",
    ),
    Obstacle.EMPTY_NAMES: Meaning(
        "A node leaves out an output, and a node leaves out an input. ATC's parser takes the empty "
        "name for a value and joins the two.",
        "Give the output a name.",
    ),
    Obstacle.FLOAT64: Meaning(
        "A node computes float64, which Ascend's vector and matrix units do not have.",
        "Export the model in float32.",
    ),
    Obstacle.FUNCTION_CALL: Meaning(
        "A node calls a function of the model. ATC ignores functions.",
        "Inline the functions before the export (onnx.inliner.inline_local_functions of the original model).",
    ),
    Obstacle.KEPT_INDICES: Meaning(
        "A MaxPool has an Indices output that is read. ATC's plugin refuses such a MaxPool.",
        "`poolgrad inspect` says why the pool was not lowered; use its Indices in a max-pool gradient only.",
    ),
    Obstacle.LARGE_WINDOW: Meaning(
        "A MaxPool over one or two spatial axes has a window of more than 255 elements or a stride above 63, and "
        "padding or ceil_mode. ATC's plugin for Atlas A2 and A3 then drops ceil_mode and auto_pad, and pads with "
        "−65504.",
        "Pad the tensor with −inf before the pool, or pool in several steps.",
    ),
    Obstacle.NO_INPUT: Meaning(
        "The graph has no input that is not an initializer; ATC needs one.",
        "Make what changes between runs a graph input.",
    ),
    Obstacle.OPSET: Meaning(
        "The model imports a version of ONNX's operators outside 11 to 18. ATC has no plugins for other versions.",
        "Export the model at opset 18 (`torch.onnx.export(…, opset_version=18)`).",
    ),
    Obstacle.POOL_AXES: Meaning(
        "A MaxPool has four spatial axes or more. ATC's plugin takes one to three.",
        "Reshape the tensor so that at most three axes are pooled.",
    ),
    Obstacle.SAME_LOWER: Meaning(
        "A MaxPool has auto_pad SAME_LOWER. ATC's plugin pads it as SAME_UPPER, without an error.",
        "Write the pads as numbers.",
    ),
    Obstacle.STORAGE_ORDER: Meaning(
        "A MaxPool has storage_order 1, which ATC's plugin refuses.",
        "Use storage_order 0; without Indices it makes no difference.",
    ),
    Obstacle.UNKNOWN_RANK: Meaning(
        "An operator of the dialect needs tensors of rank 5, and the rank of its input is not known.",
        "Declare the input's shape, symbolic sizes included, or export the model with shapes.",
    ),
    Obstacle.UNREGISTERED_OPERATOR: Meaning(
        "CANN has no ATC plugin for a node's operator at the version that the model imports.",
        "Export the training step with PyTorch at opset 18: its joint graphs use ONNX's operators only, those of "
        "onnxruntime training do not.",
    ),
    Obstacle.WRONG_TARGET: Meaning(
        "The model was lowered to an operator that the target does not have.",
        "Export the original model, or lower it for this target.",
    ),
}


@dataclass(frozen=True)
class NodeObstacle:
    """An obstacle at one node: the node's name, its operator with its domain, the code, and a sentence.

    `node` and `operator` are empty for an obstacle of the whole model.
    """

    node: str
    operator: str
    code: str
    reason: str

    @property
    def advice(self) -> str:
        """What the user can do about it."""
        return OBSTACLES[Obstacle(self.code)].advice
