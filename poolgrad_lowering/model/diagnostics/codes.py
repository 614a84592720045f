# SPDX-License-Identifier: Apache-2.0

"""The refusal codes: why an anchor is not lowered. Checks, reports, tests and docs share this table."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar

from poolgrad_lowering.model.diagnostics.diagnostic import Diagnostic, Severity

P = ParamSpec("P")
T = TypeVar("T")

_OF_CONSTANTS = Severity.ERROR, True
"""The end of the row of a condition that also fails if the value of a constant is not known."""


class Code(Diagnostic):
    """A condition under which the compiler refuses to lower an anchor; the advice is what would have to change.

    `of_constants`: the condition also fails if the value of a constant is not known.
    """

    ARITY = (
        "The node does not have the inputs of its operator (for example, TensorFlow's MaxPoolGrad has three).",
        "Give the node the inputs that its operator takes, or rename it if it is another operator.",
    )
    ATTRIBUTE_MISMATCH = (
        "The gradient's attributes contradict those of the pool that recorded its Indices.",
        "Give the gradient the attributes of its MaxPool, or take the Indices from a MaxPool with the same attributes.",
    )
    AUTO_PAD_SYMBOLIC = (
        "auto_pad SAME_* with a stride above 1 on an axis of symbolic size: the pads are not known.",
        "Use explicit pads instead of auto_pad, or give the axis a fixed size.",
    )
    AVERAGE_DIVISORS = (
        "A gradient is added to windows as that of an average pool, but it is divided by numbers that are not those of "
        "an average pool over these windows, or by one number above 2^24.",
        "Divide by the number of elements of each window, with or without its padding, or by one integer up to 2^24.",
        *_OF_CONSTANTS,
    )
    BASE_NOT_ZERO = (
        "The scatter adds onto a tensor that is not all +0.0, or not proven to be.",
        "Scatter onto zeros that the model contains (a ConstantOfShape or an initializer), and add other gradients "
        "afterwards.",
        *_OF_CONSTANTS,
    )
    CONSTANT_INDICES = (
        "The indices are a constant: a tracer stored those of its example input, so the gradient is wrong for every "
        "other input.",
        "Export the model again so that the graph computes the Indices: script the module, or use the newer exporter, "
        "instead of a trace.",
    )
    DIALECT_CONFLICT = (
        "The model uses another version of domain npu, or defines its own function with the name of a dialect "
        "operator.",
        "Give the model's own operators another domain, or start from the model before its first lowering.",
    )
    DILATED_AVERAGE = (
        "An average pool with dilation: no operator of Ascend has windows with gaps between their elements.",
        "Average windows without dilation, or leave the gradient as it is.",
    )
    DTYPE = (
        "The pooled input is not float32, float16 or bfloat16 (Ascend has no kernel for it), or the target's operator "
        "does not support the type.",
        "Train in float32, float16 or bfloat16, or choose a target whose operator supports the type.",
    )
    DTYPE_MIX = (
        "The gradient is computed in another element type than the pooled input's, and not cast back to it.",
        "Compute the gradient in the pooled input's element type, or cast to it and back around the gradient.",
    )
    DX_SHAPE = (
        "The result does not have the pooled input's shape, or is not proven to have it.",
        "Reshape the result to the pooled input's shape, and declare the input's shape.",
        *_OF_CONSTANTS,
    )
    EMPTY_WINDOW = (
        "A window of the pool contains no element of the input, so its index has no meaning; or the input is empty.",
        "Choose pads smaller than the effective kernel, so that every window touches the input.",
    )
    EXTERNAL_DATA = (
        "The proof needs the value of a tensor in external data that cannot be read: the file is missing or too short,"
        " or the model's folder is not known.",
        "Put the complete file next to the model. For a model in memory, pass its folder to `lower` as base_dir.",
    )
    FEW_ELEMENTS = (
        "The gradient of an average pool of float16 or bfloat16, where x has fewer elements than windows and than the "
        "product has cores: the tiling of AvgPool3DGrad divides by zero.",
        "Train in float32, or pool more elements. So few are computed on the CPU in no time.",
    )
    FORM_FAILED = (
        "A form of this package raised an error, which is a defect. The log has the traceback.",
        "Report it with the model and the traceback. The gradient stays as it is; all others are not affected.",
    )
    FORWARD_BODY = (
        "The gradient is lowered, but its forward pool stays: its maximum is a ReduceMax, and no function body gives "
        "the same bits, or another pool of the model needs another body.",
        "Compute the pooled tensor and its indices with one MaxPool with two outputs, or lower pools of different "
        "kinds in models of their own.",
    )
    FORWARD_READERS = (
        "The gradient is lowered, but its forward pool stays: another node or a graph output uses the pool's Indices.",
        "Use the Indices in the gradient only: not as a graph output, not in another node.",
    )
    FORWARD_SOURCE = (
        "The gradient is lowered, but its forward pool stays: neither a single node nor a ReduceMax and an ArgMax over"
        " the same windows compute the pooled tensor and the indices from the gradient's x.",
        "Compute the pooled tensor and its indices with one MaxPool with two outputs, from the x whose gradient is "
        "computed.",
    )
    FORWARD_WINDOWS = (
        "The gradient is lowered, but its forward pool stays: the target's operator cannot express exactly these "
        "windows.",
        "Use pads of at most half the kernel, equal where a size is symbolic, and no dilation unless the target's "
        "pool takes one, as that of ascend950 does.",
    )
    FUNCTION_DTYPE = (
        "Below opset 15 a function body supports one element type, and an earlier gradient of the model has another "
        "one.",
        "Convert the model to opset 15 or newer, or use one element type for all pools.",
    )
    GRADIENT_TO_ALL_TIES = (
        "A mask of all elements that equal their window's maximum: every one of equal maxima gets the gradient (or is "
        "kept), while a pool's gradient goes to the first only.",
        "If only the first of equal maxima may get the gradient, compute the gradient from the pool's Indices. "
        "Otherwise the graph computes another function and stays as it is.",
    )
    GRAD_SHAPE = (
        "The incoming gradient does not have the pooled shape.",
        "Reshape the incoming gradient to the pooled shape, and declare both shapes.",
        *_OF_CONSTANTS,
    )
    IMPLICIT_GRADIENT = (
        "A Gradient operator requests the gradient, and no node of the graph computes it.",
        "Export the training graph with its gradient nodes (onnxruntime training's artifacts, PyTorch's joint graph).",
    )
    INDICES_ALTERED = (
        "A node between the pool's Indices and their use changes their values or order.",
        "Use the Indices as the pool recorded them. Between the pool and the gradient, only operators that keep values"
        " and order, and the conversion to plane-local indices, are allowed.",
        *_OF_CONSTANTS,
    )
    INDICES_NUMBERING = (
        "The indices have another numbering than their use needs (over the whole tensor instead of one plane, or the "
        "reverse).",
        "Convert the indices to the numbering that the scatter uses: subtract each plane's first index, or scatter "
        "over the whole tensor.",
        *_OF_CONSTANTS,
    )
    INDICES_SOURCE = (
        "The indices do not come from a MaxPool, but from a graph input, a constant, labels or another operator.",
        "Nothing to do if this is not a pool gradient (for example the scatter of an embedding). Otherwise take the "
        "indices from a MaxPool in the same graph. If a function of the model gets or returns them, inline it first: "
        "onnx.inliner.inline_local_functions. If they are an input of the model, because the forward pass is a model "
        "of its own, merge the two first: onnx.compose.merge_models.",
        *_OF_CONSTANTS,
    )
    INPUT_DEFAULT = (
        "The proof needs the value of an initializer that is also an input of the graph: a caller can override it, so "
        "it proves nothing.",
        "If no caller overrides it, lower with --trust-defaults (trust_defaults=True). Or export the model without "
        "keep_initializers_as_inputs.",
    )
    IN_ONNX = (
        "The gradient of an average pool is written in ONNX's own operators, which CANN's graph engine runs, and is "
        "left by an export or by --keep-onnx. Beside onnxruntime's CANN provider a node of the dialect ends a part "
        "of the graph, and ATC takes AdaptiveAvgPool3dGrad on Ascend 950 only.",
        "Nothing. To lower it all the same, leave out --keep-onnx, or give `export-cann` --lower-onnx.",
    )
    LAST_MAXIMUM = (
        "An ArgMax selects the last of equal maxima, while a pool's gradient goes to the first.",
        "Set select_last_index to 0.",
    )
    MALFORMED_GRADIENT = (
        "The gradient that a form returned is incomplete, or contradicts itself or the graph (most likely a form of "
        "another package).",
        "Report it to the package that provides the form. The docstring of the gradient's class defines the fields.",
    )
    MORE_WINDOWS = (
        "An adaptive average pool in ONNX's own operators, or of a symbolic batch, has more windows along an axis than "
        "elements. The provider would not run the lowered node: CANN's own tests have no such sizes.",
        "To lower it, pool to no more positions than there are.",
    )
    NOT_SELECTED = (
        "POOLGRAD_ONLY is set and names neither the site nor its form (docs/command-line.md).",
        "Unset POOLGRAD_ONLY, or add the site or its form to it.",
    )
    NO_FORWARD_POOL = (
        "TensorFlow's operator computes the maxima itself, and the graph has no MaxPool over the same tensor whose "
        "Indices can be used.",
        "Compute the pooled tensor with an ONNX MaxPool over the same tensor, with the operator's attributes.",
        *_OF_CONSTANTS,
    )
    OPERATOR_WINDOWS = (
        "The operator that the plan chooses cannot express the pool's windows.",
        "Keep the operator that `poolgrad inspect --plan` writes into the plan.",
    )
    OPSET = (
        "The model's opset is older than the operators that the lowering needs.",
        "Convert the model to a newer opset (onnx.version_converter), or export it with one.",
    )
    OTHER_CONSUMER = (
        "A node outside the gradient uses an inner value that the lowered node does not compute.",
        "Do not use the gradient's inner values outside the gradient, or compute them a second time.",
    )
    OUTPUT_SIZE = (
        "The pool's output size differs from the one that the target computes for these windows.",
        "Choose pads, stride and rounding for which the target's formula gives the graph's output size; correct a "
        "declared shape that is wrong.",
    )
    OVERLAPPING_OVERWRITE = (
        "The node overwrites instead of adding, and the pool's windows overlap: where two windows share a maximum, "
        "the result is not the gradient.",
        "Scatter with reduction=add: where windows overlap, the gradient is a sum, which MaxUnpool does not compute.",
    )
    PLANE_BASE = (
        "A value that is subtracted from the Indices, added to them or used to divide them is not proven to be the one"
        " that the plane numbering needs.",
        "Make the indices plane-local: subtract each plane's first index (the Indices of a 1×1 MaxPool), or take the "
        "remainder by the plane's size.",
        *_OF_CONSTANTS,
    )
    PLANE_SIZE = (
        "A plane has more elements than the target's operator can number.",
        "Pool smaller planes, or choose a target whose operator supports larger ones.",
    )
    PLUGIN_FAILED = (
        "A form of another package raised an error, or returned neither a gradient nor a refusal.",
        "Report the error to the package that provides the form, or uninstall it.",
    )
    POOL_ATTRIBUTES = (
        "The MaxPool's attributes are missing, malformed or out of ONNX's range, or runtimes pad it differently "
        "(auto_pad with pads, or SAME_* with dilations or with strides larger than the kernel).",
        "Give every attribute a value that ONNX allows, and use pads instead of auto_pad.",
        *_OF_CONSTANTS,
    )
    REDUCTION = "The scatter overwrites, or uses another reduction than addition.", "Scatter with reduction=add."
    ROWS_NOT_PLANES = (
        "The scatter's rows are not the (n, c) planes of the pooled input.",
        "Scatter with one row for each (n, c) plane of the pooled input.",
        *_OF_CONSTANTS,
    )
    ROW_LENGTH = (
        "The scatter's rows are longer or shorter than one plane of the pooled input.",
        "Scatter onto rows that are each exactly one plane of the pooled input; pad or crop afterwards.",
        *_OF_CONSTANTS,
    )
    SHADOWED_NAME = (
        "An inner value with the same name hides an operand of the lowered node (ONNX requires unique names).",
        "Give the inner value a unique name.",
    )
    SKIPPED_BY_PLAN = (
        "The plan does not lower the gradient, or its forward pool.",
        "Change the plan so that it lowers the site, or its forward pool.",
    )
    SPATIAL_RANK = (
        "The pool has no spatial axis, or four and more: Ascend has one to three.",
        "Fold the axes so that the pool has one to three spatial ones.",
    )
    SPLITS_TIES = (
        "A mask of all elements that equal the maximum over their axes: equal maxima share the gradient, while a "
        "pool's gradient goes to the first only.",
        "If only the first of equal maxima may get the gradient, compute the gradient from the index of the first "
        "maximum. Otherwise the graph computes another function and stays as it is.",
    )
    STORAGE_ORDER = (
        "The pool numbers its Indices column-major (storage_order=1).",
        "Record row-major Indices: storage_order=0.",
    )
    SYMBOLIC_CANVAS = (
        "The windows need a padded canvas, whose size is not known because a spatial size is symbolic.",
        "Give the spatial axes fixed sizes, or choose pads of at most half the kernel.",
    )
    SYMBOLIC_CEIL = (
        "ceil_mode with unequal pads on an axis of symbolic size: the output size cannot be proven.",
        "Give the axis a fixed size, use equal pads, or round down (ceil_mode=0).",
    )
    TARGET = (
        "The target has no operator for this gradient.",
        "Choose a target that has the operator: `poolgrad targets` lists the operators of each.",
    )
    UNBATCHED = (
        "The pooled input has no batch axis, which the dialect's operators need.",
        "Give the pooled input a batch axis of size 1 (Unsqueeze).",
    )
    UNKNOWN_DTYPE = (
        "The pooled input's element type is not known.",
        "Declare the pooled input's element type in value_info (onnx.shape_inference does).",
    )
    UNKNOWN_SHAPE = (
        "A shape that the proof needs is not known.",
        "Declare the shapes of the graph's inputs, with one symbol for each size that varies.",
        *_OF_CONSTANTS,
    )
    UNRELATED_INDICES = (
        "Not a gradient of a pool, whose indices are positions of maxima. These are labels, rows of an embedding or "
        "the like, which integer inputs and constants alone decide; or positions of several largest elements, of "
        "minima, of maxima of integers or of what a mask keeps; or each names several elements. The node does not "
        "count as refused.",
        "Nothing: the scatter makes the one-hot labels of a loss, or belongs to an embedding, topk, sort, min or a "
        "mask.",
        Severity.NOTE,
    )
    UNRELATED_MASK = (
        "Not a gradient of a pool: a mask of the elements that equal the maximum of the window around them, as "
        "the local maxima of a heat map. In a pool, an element may be the maximum of one window and not of another. "
        "The node does not count as refused.",
        "Nothing.",
        Severity.NOTE,
    )
    UNRELATED_UPSAMPLING = (
        "Not a gradient of a pool: a transposed convolution with equal weights whose planes nothing divides by the "
        "elements of a window, or that mixes channels. The node does not count as refused.",
        "Nothing: the node enlarges an image, or is a layer with such weights.",
        Severity.NOTE,
    )
    WINDOW_IN_PADDING = (
        "With ceil_mode the last window starts in the padding, where runtimes disagree and Indices have no meaning.",
        "Make the end padding smaller, or round down (ceil_mode=0), so that every window starts in the input.",
    )
    WINDOW_TABLES = (
        "A pool decomposed into Gather nodes: its windows and positions are not proven, value by value, to be those of"
        " a pool, or have more elements than are compared (2^23).",
        "Export the pool as a MaxPool or an ATen node instead of Gather nodes, or with smaller sizes.",
        *_OF_CONSTANTS,
    )


DEFECTS = (Code.FORM_FAILED, Code.PLUGIN_FAILED)
"""The codes of errors in forms, which no model may cause."""


class Refusal(NamedTuple):
    """The reason why an anchor is not lowered, or an operator not defined.

    A code, and a sentence that names the node or value at fault.

    The sentence is stored as a format string and its values, and formatted when it is read.
    """

    code: Diagnostic
    template: str
    values: tuple[object, ...]

    @property
    def reason(self) -> str:
        """The sentence: the template formatted with the values."""
        return self.template.format(*self.values)

    @property
    def rank(self) -> int:
        """Sort key: of the refusals of several forms, the first one with the lowest rank is reported.

        That of a form that does not recognise the source of the indices is less specific than any other. That a form
        failed is no property of the graph, and must be seen.
        """
        return -1 if self.code in DEFECTS else int(self.code in (Code.INDICES_SOURCE, Code.UNRELATED_INDICES))


class Refuse(Exception):  # noqa: N818 - raised as what it says
    """Raised where a condition of a form or a definition does not hold: the node is refused, with `refusal`."""

    def __init__(self, code: Diagnostic, template: str, *values: object) -> None:
        super().__init__(code, template, *values)
        self.refusal = Refusal(code, template, values)


def attempt(step: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T | Refusal:
    """Return the result of a step, or the refusal that it raises."""
    try:
        return step(*arguments, **options)
    except Refuse as refused:
        return refused.refusal
