"""Why an anchor is not lowered: one table of codes, shared by checks, reports, tests and docs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Code(Enum):
    """A condition under which the compiler declines; `DESCRIPTIONS` says what each means for a user."""

    ARITY = "arity"
    ATTRIBUTE_MISMATCH = "attribute-mismatch"
    AUTO_PAD_SYMBOLIC = "auto-pad-symbolic"
    BASE_NOT_ZERO = "base-not-zero"
    CONSTANT_INDICES = "constant-indices"
    DIALECT_CONFLICT = "dialect-conflict"
    DTYPE = "dtype"
    DTYPE_MIX = "dtype-mix"
    DX_SHAPE = "dx-shape"
    EMPTY_WINDOW = "empty-window"
    EXTERNAL_DATA = "external-data"
    FORWARD_READERS = "forward-readers"
    FORWARD_SOURCE = "forward-source"
    FORWARD_WINDOWS = "forward-windows"
    FUNCTION_DTYPE = "function-dtype"
    GRADIENT_TO_ALL_TIES = "gradient-to-all-ties"
    GRAD_SHAPE = "grad-shape"
    IMPLICIT_GRADIENT = "implicit-gradient"
    INDICES_ALTERED = "indices-altered"
    INDICES_NUMBERING = "indices-numbering"
    INDICES_SOURCE = "indices-source"
    LAST_MAXIMUM = "last-maximum"
    MALFORMED_GRADIENT = "malformed-gradient"
    NOT_SELECTED = "not-selected"
    NO_FORWARD_POOL = "no-forward-pool"
    OPERATOR_WINDOWS = "operator-windows"
    OPSET = "opset"
    OTHER_CONSUMER = "other-consumer"
    OUTPUT_SIZE = "output-size"
    OVERLAPPING_OVERWRITE = "overlapping-overwrite"
    PLANE_BASE = "plane-base"
    PLANE_SIZE = "plane-size"
    PLUGIN_FAILED = "plugin-failed"
    POOL_ATTRIBUTES = "pool-attributes"
    REDUCTION = "reduction"
    ROWS_NOT_PLANES = "rows-not-planes"
    ROW_LENGTH = "row-length"
    SHADOWED_NAME = "shadowed-name"
    SKIPPED_BY_PLAN = "skipped-by-plan"
    SPATIAL_RANK = "spatial-rank"
    SPLITS_TIES = "splits-ties"
    STORAGE_ORDER = "storage-order"
    SYMBOLIC_CANVAS = "symbolic-canvas"
    SYMBOLIC_CEIL = "symbolic-ceil"
    TARGET = "target"
    UNBATCHED = "unbatched"
    UNKNOWN_DTYPE = "unknown-dtype"
    UNKNOWN_SHAPE = "unknown-shape"
    WINDOW_IN_PADDING = "window-in-padding"
    WINDOW_TABLES = "window-tables"


DESCRIPTIONS: dict[Code, str] = {
    Code.ARITY: "The node has not the inputs of the form it is named after (TensorFlow's three-input MaxPoolGrad, "
    "say).",
    Code.ATTRIBUTE_MISMATCH: "The gradient's own attributes contradict those of the pool its Indices come from.",
    Code.AUTO_PAD_SYMBOLIC: "auto_pad SAME_* with a stride above 1 on an axis of symbolic size: the pads are not "
    "known.",
    Code.BASE_NOT_ZERO: "The scatter does not add onto zeros, or onto a tensor that cannot be seen to be all +0.0.",
    Code.CONSTANT_INDICES: "The indices are a constant: a tracer wrote down those of its example, so the gradient is "
    "another one for every other input.",
    Code.DIALECT_CONFLICT: "The model uses another version of domain npu, or defines a function of a dialect "
    "operator's name itself.",
    Code.DTYPE: "The pooled input is not float32, float16 or bfloat16 (Ascend has no such kernel), or the target's "
    "operator does not take it.",
    Code.DTYPE_MIX: "The gradient is computed in another element type than the pooled input, without the casts that "
    "would make it the pool's.",
    Code.DX_SHAPE: "The result does not have the pooled input's shape, or cannot be proven to have it.",
    Code.EMPTY_WINDOW: "A window of the pool touches no element of its input, so that its index means nothing; or the "
    "input has no element.",
    Code.EXTERNAL_DATA: "The proof needs the value of a tensor in external data, which cannot be read: the file is "
    "missing or too short, or the model's folder is not known.",
    Code.FORWARD_READERS: "The gradient is lowered, its forward pool stays: something else reads the pool's Indices.",
    Code.FORWARD_SOURCE: "The gradient is lowered, its forward pool stays: no one node computes both the pooled tensor "
    "and the indices, from the x that the gradient is of.",
    Code.FORWARD_WINDOWS: "The gradient is lowered, its forward pool stays: the target cannot look at exactly these "
    "windows.",
    Code.FUNCTION_DTYPE: "Below opset 15 one function body serves one element type; this gradient has another than the "
    "model's first one.",
    Code.GRADIENT_TO_ALL_TIES: "A mask of all elements that equal their window's maximum: of equal maxima each gets "
    "the gradient (or is kept), a pool's gradient goes to the first alone.",
    Code.GRAD_SHAPE: "The incoming gradient does not have the pooled shape.",
    Code.IMPLICIT_GRADIENT: "The gradient is asked for by a Gradient operator, and no node of the graph computes it.",
    Code.INDICES_ALTERED: "Something between the pool's Indices and their use changed their values or order.",
    Code.INDICES_NUMBERING: "The indices count in another numbering than their use needs (whole tensor against one "
    "plane).",
    Code.INDICES_SOURCE: "The indices do not come from a MaxPool (a graph input, a constant, labels, another "
    "operator).",
    Code.LAST_MAXIMUM: "An ArgMax that selects the last of equal maxima: a pool's gradient goes to the first.",
    Code.MALFORMED_GRADIENT: "A form's record of a gradient is incomplete, or contradicts itself or the graph (a form "
    "of another package, most likely).",
    Code.NOT_SELECTED: "POOLGRAD_ONLY is set and names neither the site nor its form (docs/command-line.md).",
    Code.NO_FORWARD_POOL: "TensorFlow's operator computes the maxima itself, and no MaxPool over the same tensor is "
    "found whose Indices could serve.",
    Code.OPERATOR_WINDOWS: "The operator that a plan asks for does not have the pool's windows.",
    Code.OPSET: "The model's opset is older than the operators that the lowering needs.",
    Code.OTHER_CONSUMER: "An inner value of the gradient is read elsewhere in a way that the lowered node cannot "
    "serve.",
    Code.OUTPUT_SIZE: "The pool's output size is not the one that the target computes for these windows.",
    Code.OVERLAPPING_OVERWRITE: "The scatter overwrites instead of adding, and the pool's windows overlap: where they "
    "share a maximum, it is no gradient.",
    Code.PLANE_BASE: "What is subtracted from the Indices, divided out or added again is not proven to be each plane's "
    "first index.",
    Code.PLANE_SIZE: "A plane has more elements than the target's operator can number.",
    Code.PLUGIN_FAILED: "A form from another package raised an error, or answered with something that is no verdict.",
    Code.POOL_ATTRIBUTES: "The MaxPool's attributes are missing, malformed, out of ONNX's range, or padded differently "
    "by different runtimes (auto_pad SAME_* with dilations, or with strides beyond the kernel).",
    Code.REDUCTION: "The scatter overwrites or reduces otherwise instead of adding.",
    Code.ROWS_NOT_PLANES: "The scatter's rows are not the (n, c) planes of the pooled input.",
    Code.ROW_LENGTH: "The scatter's rows are longer or shorter than one plane of the pooled input.",
    Code.SHADOWED_NAME: "A value that the lowered node has to read is hidden from its subgraph by another one of the "
    "same name (ONNX wants names to be unique).",
    Code.SKIPPED_BY_PLAN: "The plan that was given leaves the gradient, or its forward pool, as it is.",
    Code.SPATIAL_RANK: "The pool has no spatial axis, or four and more: Ascend has one to three.",
    Code.SPLITS_TIES: "A mask of all elements that equal the maximum of their axes: equal maxima share the gradient, "
    "a pool's gradient goes to the first alone.",
    Code.STORAGE_ORDER: "The pool numbers its Indices column-major (storage_order=1).",
    Code.SYMBOLIC_CANVAS: "The windows need a padded canvas, and its size is not known where a spatial size is "
    "symbolic.",
    Code.SYMBOLIC_CEIL: "ceil_mode with unequal pads on an axis of symbolic size: the output size cannot be proven.",
    Code.TARGET: "The target has no Ascend operator for this gradient.",
    Code.UNBATCHED: "The pooled input has no batch axis, which the dialect's operators need.",
    Code.UNKNOWN_DTYPE: "The pooled input's element type is not known.",
    Code.UNKNOWN_SHAPE: "A shape that the proof needs is not known.",
    Code.WINDOW_IN_PADDING: "With ceil_mode the last window starts in the padding, where runtimes disagree and Indices "
    "are meaningless.",
    Code.WINDOW_TABLES: "A pool written out by gathers: its windows and the positions it reports are not proven, "
    "value by value, to be those of a pool, or there are too many of them (2^23 elements are compared).",
}


@dataclass(frozen=True)
class Refusal:
    """The reason one anchor stays as it is: a code, and a sentence that names the node or value at fault.

    The sentence is a format string and its values, put together only when somebody reads it.
    """

    code: Code
    template: str
    values: tuple[object, ...]

    @property
    def reason(self) -> str:
        """The sentence."""
        return self.template.format(*self.values)

    @property
    def rank(self) -> int:
        """How little the form knows of the anchor: of the refusals of several forms the lowest is reported."""
        return int(self.code in _OF_NO_FORM)


_OF_NO_FORM = frozenset({Code.INDICES_SOURCE})
"""Codes of forms that do not recognise where the indices come from: any other refusal says more."""


class Refuse(Exception):  # noqa: N818 - raised as what it says
    """Raised where a condition of a form does not hold: the anchor is refused, with `refusal`."""

    def __init__(self, code: Code, template: str, *values: object) -> None:
        super().__init__(code, template, *values)
        self.refusal = Refusal(code, template, values)


def refuse(code: Code, template: str, *values: object) -> Refusal:
    """A refusal whose reason is `template.format(*values)`, formatted when it is read."""
    return Refusal(code, template, values)
