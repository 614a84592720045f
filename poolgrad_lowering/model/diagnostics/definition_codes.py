# SPDX-License-Identifier: Apache-2.0

"""Why an operator of a training runtime is not written in standard ONNX. Checks, reports, tests and docs share this."""

from poolgrad_lowering.model.diagnostics.diagnostic import Diagnostic


class DefinitionCode(Diagnostic):
    """A condition under which a node stays as it is with `standard`."""

    ATEN_FUNCTION = (
        "An ATen node calls a function of PyTorch that has no definition; pools and maxima along an axis have one.",
        "Export the step by `poolgrad_lowering.torch`, which writes ONNX's operators.",
    )
    NO_DEFINITION = (
        "The operator is neither one of ONNX nor one of a training runtime that is known here.",
        "Export the model without it, or run it in the runtime that has it.",
    )
    OLD_OPSET = (
        "The definition needs an operator that the model's opset does not have.",
        "Export the forward graph at opset 18, and make the artifacts again.",
    )
    OUTSIDE_OF_THE_GRAPH = (
        "The operator calls Python, exchanges values with other processes, or is written for CUDA alone.",
        "Export the step without it.",
    )
    PART_OF_A_STEP = (
        "The node is a part of a step that another program drives: a cut between its halves, or an optimizer over "
        "sequences of tensors.",
        "For artifacts, use `poolgrad lower-artifacts --standard`, which writes the step as one model. For ORTModule, "
        "export the step by `poolgrad_lowering.torch`.",
    )
    UNCOVERED_OPERAND = (
        "The node has an attribute or an operand that the definition does not cover; the text names it.",
        "Export the forward graph without it, or run the step in onnxruntime-training.",
    )
    UNKNOWN_SIZES = (
        "The definition depends on a size, a rank or an element type that is not known.",
        "Give the sizes of images as numbers in the forward graph; the batch may be symbolic.",
    )
