# SPDX-License-Identifier: Apache-2.0

"""The obstacles to GE's reading of a model, in ATC and in graph mode: checks, reports, tests and docs share this table.

Sources: the ONNX parser of CANN's graph engine (GE), its parser plugins, and the operator definitions of ops-nn.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from poolgrad_lowering.model.diagnostics.diagnostic import Diagnostic, Severity


class Obstacle(Diagnostic):
    """A condition under which GE refuses a model, or takes it for one with other results.

    A warning is what GE's parser takes: whether the model runs, only a device can tell, or where the graph is cut.
    """

    ARGMAX_TYPE = (
        "An operator of the dialect has an int64 argmax; on Atlas A2 and A3, Ascend's operators take int32 only.",
        "Export the original model, or lower it for this target.",
    )
    CHANNELS_LAST = (
        "An AdaptiveAvgPool3dGrad of the dialect. In a graph for Atlas A2 and A3 it takes a gradient of (D, H, W, N·C) "
        "only, and writes its result in this order.",
        "Leave this gradient as it is by a plan, or choose the target ascend950.",
    )
    COMPUTED_SIZES = (
        "The operand orig_input_shape of an average pool's gradient is computed, and the shape of the result is not "
        "known. GE then builds a graph in which its sizes are unknown.",
        "Use numbers for sizes, e.g. a fixed batch, or declare the shape of the result.",
    )
    DILATION = (
        "A max pool of the dialect or its gradient has a dilation. On Atlas A2 and A3 the pool's operator refuses it, "
        "and the gradient's loses gradients; so does MaxPoolGradWithArgmaxV3 on Ascend 950.",
        "Give a gradient windows without dilation that span the same elements, as the lowering does: a kernel of "
        "dilation · (kernel − 1) + 1. Leave the pool an ONNX node.",
    )
    DROPPED_ALPHA = (
        "A Gemm has an alpha and no C, and its element type is not known. The plugin then drops alpha.",
        "Declare the type of its input, or multiply by alpha in a node of its own.",
    )
    DROPPED_DILATION = (
        "A padded MaxPool over one or two axes has a dilation, and a size of its input is not known. The plugin drops "
        "the dilation without an error.",
        "Use numbers for sizes but the batch, or choose the target ascend950, whose pools have a dilation.",
    )
    ELEMENT_TYPE = "A value has an element type that GE's parser does not know.", "Export the model with another type."
    EMPTY_INPUT = (
        "In graph mode, an input of the graph that nodes read has no elements. GE refuses such a size of an input.",
        "Leave the tensor out of the model, e.g. a parameter of no elements.",
    )
    EMPTY_NAMES = (
        "A node leaves out an output, and a node leaves out an input. ATC's parser takes the empty name for a value "
        "and joins the two.",
        "Give the output a name.",
    )
    FEW_ELEMENTS = (
        "An AvgPool3DGrad of float16 or bfloat16 has fewer elements than windows and than the product has cores. Its "
        "tiling divides by zero.",
        "Compute this gradient in float32.",
    )
    FLOAT64 = (
        "A node computes float64. GE's parser takes it; Ascend's vector and matrix units do not have it, so it runs on"
        " the device's CPU or not at all.",
        "Export the model in float32.",
        Severity.WARNING,
    )
    FUNCTION_CALL = (
        "A node calls a function of the model. ATC ignores functions.",
        "Inline the functions before the export (onnx.inliner.inline_local_functions of the original model).",
    )
    KEPT_INDICES = (
        "A MaxPool's Indices are read whole or it is padded, and a size but the batch is not known. The plugin refuses "
        "its Indices.",
        "Use numbers for sizes; `poolgrad inspect` says why the pool was not lowered.",
    )
    KERNEL_SHAPE = (
        "A ConvTranspose has no kernel_shape, or a Conv has none of kernel_shape, pads, strides and dilations, and the "
        "shape of its weight is not known. The plugin refuses it.",
        "Declare the weight's shape, or write kernel_shape.",
    )
    KERNEL_TYPE = (
        "An operand has an element type that CANN does not document for its operator: bfloat16 of some operators, or "
        "statistics of a BatchNormalization that are not float32.",
        "Cast the operand to float32 before the node.",
        Severity.WARNING,
    )
    LARGE_KERNEL = (
        "The windows of a convolution or a pool are larger than CANN documents: a kernel of 255 along an axis, over "
        "three axes 511 on Atlas A2 and A3, a stride of 63, pads and dilations of 255, a pool of 255 elements.",
        'In PyTorch, leave `weight_gradient` at "by_shape". Averages of whole planes of known sizes become means.',
        Severity.WARNING,
    )
    LARGE_RANK = (
        "A value has more axes than CANN documents for an operator: eight, six for a MatMul.",
        "Join axes by a Reshape.",
        Severity.WARNING,
    )
    LARGE_WINDOW = (
        "A MaxPool over one or two spatial axes has a window of more than 255 elements or a stride above 63, and "
        "padding or ceil_mode. ATC's plugin for Atlas A2 and A3 then drops ceil_mode and auto_pad, and pads with "
        "−65504.",
        "Pad the tensor with −inf before the pool, or pool in several steps.",
    )
    LAST_INDEX = "An ArgMax or ArgMin has select_last_index 1, which the plugin refuses.", "Use the first index."
    NEGATIVE_PADS = (
        "A Pad has negative pads that cannot be written as a Slice: its mode is not constant, or the rank of its input"
        " is not known. Only Ascend 950 has a kernel for them.",
        "Cut the tensor by a Slice.",
    )
    NO_INPUT = (
        "The graph has no input that is not an initializer; ATC needs one.",
        "Make what changes between runs a graph input.",
    )
    NO_OPEN_PROTOTYPE = (
        "The plugin of an operator makes an operator of GE that is in none of CANN's open repositories. A release of "
        "CANN may have it.",
        "Try it; if GE refuses it, write it in other operators.",
        Severity.WARNING,
    )
    ON_THE_CPU = (
        "In graph mode, onnxruntime's CANN provider does not take an operator, or a node without an operand that "
        "changes. The node runs on the CPU, and what it reads and makes is copied in each step.",
        "Write it in operators that the provider takes; those that a training step out of PyTorch has are.",
        Severity.WARNING,
    )
    OPSET = (
        "The model imports a version of ONNX's operators outside 8 to 18. GE has no plugins for other versions.",
        "Export the model at opset 18 (`torch.onnx.export(…, opset_version=18)`, `export-torch --opset 18`).",
    )
    PAD_AXES = (
        "A Pad has the input axes, and its pads, its axes or its rank are not known. The plugin refuses it.",
        "Write the pads of all axes as a constant.",
    )
    POOL_AXES = (
        "A MaxPool has four spatial axes or more. ATC's plugin takes one to three.",
        "Reshape the tensor so that at most three axes are pooled.",
    )
    SAME_LOWER = (
        "A pool or convolution has auto_pad SAME_LOWER, and a size of its input is not known. The plugin pads it as "
        "SAME_UPPER, without an error.",
        "Write the pads as numbers.",
    )
    SCATTER_REDUCTION = (
        "A ScatterND has a reduction, and its data has a size that is not known. Two libraries of CANN register "
        "ScatterND, and one drops the reduction.",
        "Declare the shape of the data, or use ScatterElements.",
    )
    SELECTED_SIZE = (
        "In graph mode, a part of the graph reads a value of another part whose shape numbers decide, e.g. what a mask "
        "selects. GE does not know the shape when it builds the parts.",
        "Put the selection and what reads it into one part, e.g. between the same two pools.",
        Severity.WARNING,
    )
    SHAPE_OPERAND = (
        "In graph mode, the shape of a Reshape or Expand is computed, or a bound of a Slice or the like from numbers "
        "of another part of the graph. It may be an input of the part that GE builds, and GE has to know it then.",
        "Use numbers for sizes, e.g. a fixed batch.",
        Severity.WARNING,
    )
    STORAGE_ORDER = (
        "A MaxPool has storage_order 1, which ATC's plugin refuses.",
        "Use storage_order 0; without Indices it makes no difference.",
    )
    TRAINING_MODE = (
        "A BatchNormalization has training_mode 1, and its operands are not all float32, or of unknown rank. The "
        "plugin drops its momentum: the running statistics become those of the batch.",
        "Export the model with torch's decompositions, as `poolgrad_lowering.torch` does.",
    )
    TRANSPOSED_VOLUME = (
        "A ConvTranspose over three axes has dilations, or more output_padding than padding at the end. CANN documents "
        "neither in a graph.",
        "Write the dilations into the weight, as zeros; cut or pad the result by a node of its own.",
        Severity.WARNING,
    )
    UNKNOWN_RANK = (
        "An operator of the dialect needs tensors of rank 5, and the rank of its input is not known.",
        "Declare the input's shape, symbolic sizes included, or export the model with shapes.",
    )
    UNREGISTERED_OPERATOR = (
        "CANN has no ATC plugin for a node's operator at the version that the model imports.",
        "For operators of onnxruntime-training, lower the original with `--standard`. PyTorch's graphs at opset 18 "
        "use ONNX's operators only.",
    )
    WRONG_TARGET = (
        "The model was lowered to an operator that the target does not have, or not for the element type.",
        "Export the original model, or lower it for this target.",
    )


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
    def is_weak(self) -> bool:
        """Whether GE's parser takes the node, and what follows is not known."""
        return Obstacle(self.code).severity is Severity.WARNING

    @property
    def advice(self) -> str:
        """What the user can do about it."""
        return Obstacle(self.code).advice

    def to_dict(self) -> dict[str, str]:
        """Return the obstacle as plain data with the keys of the JSON report."""
        return {**asdict(self), "advice": self.advice}
