# SPDX-License-Identifier: Apache-2.0

"""The refusal codes: why an anchor is not lowered. Checks, reports, tests and docs share this table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Code(Enum):
    """A condition under which the compiler refuses to lower an anchor; `DESCRIPTIONS` explains each one to a user."""

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
    FORWARD_BODY = "forward-body"
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
    INPUT_DEFAULT = "input-default"
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
    UNRELATED_INDICES = "unrelated-indices"
    WINDOW_IN_PADDING = "window-in-padding"
    WINDOW_TABLES = "window-tables"


DESCRIPTIONS: dict[Code, str] = {
    Code.ARITY: "The node does not have the inputs of its operator (for example, TensorFlow's MaxPoolGrad has three).",
    Code.ATTRIBUTE_MISMATCH: "The gradient's attributes contradict those of the pool that recorded its Indices.",
    Code.AUTO_PAD_SYMBOLIC: "auto_pad SAME_* with a stride above 1 on an axis of symbolic size: the pads are not "
    "known.",
    Code.BASE_NOT_ZERO: "The scatter adds onto a tensor that is not all +0.0, or not proven to be.",
    Code.CONSTANT_INDICES: "The indices are a constant: a tracer stored those of its example input, so the gradient is "
    "wrong for every other input.",
    Code.DIALECT_CONFLICT: "The model uses another version of domain npu, or defines its own function with the name of "
    "a dialect operator.",
    Code.DTYPE: "The pooled input is not float32, float16 or bfloat16 (Ascend has no kernel for it), or the target's "
    "operator does not support the type.",
    Code.DTYPE_MIX: "The gradient is computed in another element type than the pooled input's, and not cast back to "
    "it.",
    Code.DX_SHAPE: "The result does not have the pooled input's shape, or is not proven to have it.",
    Code.EMPTY_WINDOW: "A window of the pool contains no element of the input, so its index has no meaning; or the "
    "input is empty.",
    Code.EXTERNAL_DATA: "The proof needs the value of a tensor in external data that cannot be read: the file is "
    "missing or too short, or the model's folder is not known.",
    Code.FORWARD_BODY: "The gradient is lowered, but its forward pool stays: its maximum is a ReduceMax, and no "
    "function body gives the same bits, or another pool of the model needs another body.",
    Code.FORWARD_READERS: "The gradient is lowered, but its forward pool stays: another node or a graph output uses "
    "the pool's Indices.",
    Code.FORWARD_SOURCE: "The gradient is lowered, but its forward pool stays: neither a single node nor a "
    "ReduceMax and an ArgMax over the same windows compute the pooled tensor and the indices from the gradient's x.",
    Code.FORWARD_WINDOWS: "The gradient is lowered, but its forward pool stays: the target's operator cannot express "
    "exactly these windows.",
    Code.FUNCTION_DTYPE: "Below opset 15 a function body supports one element type, and an earlier gradient of the "
    "model has another one.",
    Code.GRADIENT_TO_ALL_TIES: "A mask of all elements that equal their window's maximum: every one of equal maxima "
    "gets the gradient (or is kept), while a pool's gradient goes to the first only.",
    Code.GRAD_SHAPE: "The incoming gradient does not have the pooled shape.",
    Code.IMPLICIT_GRADIENT: "A Gradient operator requests the gradient, and no node of the graph computes it.",
    Code.INDICES_ALTERED: "A node between the pool's Indices and their use changes their values or order.",
    Code.INDICES_NUMBERING: "The indices have another numbering than their use needs (over the whole tensor instead of "
    "one plane, or the reverse).",
    Code.INDICES_SOURCE: "The indices do not come from a MaxPool, but from a graph input, a constant, labels or "
    "another operator.",
    Code.INPUT_DEFAULT: "The proof needs the value of an initializer that is also an input of the graph: a caller can "
    "override it, so it proves nothing.",
    Code.LAST_MAXIMUM: "An ArgMax selects the last of equal maxima, while a pool's gradient goes to the first.",
    Code.MALFORMED_GRADIENT: "The `PoolGradient` that a form returned is incomplete, or contradicts itself or the "
    "graph (most likely a form of another package).",
    Code.NOT_SELECTED: "POOLGRAD_ONLY is set and names neither the site nor its form (docs/command-line.md).",
    Code.NO_FORWARD_POOL: "TensorFlow's operator computes the maxima itself, and the graph has no MaxPool over the "
    "same tensor whose Indices can be used.",
    Code.OPERATOR_WINDOWS: "The operator that the plan chooses cannot express the pool's windows.",
    Code.OPSET: "The model's opset is older than the operators that the lowering needs.",
    Code.OTHER_CONSUMER: "A node outside the gradient uses an inner value that the lowered node does not compute.",
    Code.OUTPUT_SIZE: "The pool's output size differs from the one that the target computes for these windows.",
    Code.OVERLAPPING_OVERWRITE: "The scatter overwrites instead of adding, and the pool's windows overlap: where two "
    "windows share a maximum, the result is not the gradient.",
    Code.PLANE_BASE: "A value that is subtracted from the Indices, added to them or used to divide them is not proven "
    "to be the one that the plane numbering needs.",
    Code.PLANE_SIZE: "A plane has more elements than the target's operator can number.",
    Code.PLUGIN_FAILED: "A form of another package raised an error, or returned neither a gradient nor a refusal.",
    Code.POOL_ATTRIBUTES: "The MaxPool's attributes are missing, malformed or out of ONNX's range, or runtimes pad it "
    "differently (auto_pad with pads, or SAME_* with dilations or with strides larger than the kernel).",
    Code.REDUCTION: "The scatter overwrites, or uses another reduction than addition.",
    Code.ROWS_NOT_PLANES: "The scatter's rows are not the (n, c) planes of the pooled input.",
    Code.ROW_LENGTH: "The scatter's rows are longer or shorter than one plane of the pooled input.",
    Code.SHADOWED_NAME: "An inner value with the same name hides an operand of the lowered node (ONNX requires unique "
    "names).",
    Code.SKIPPED_BY_PLAN: "The plan does not lower the gradient, or its forward pool.",
    Code.SPATIAL_RANK: "The pool has no spatial axis, or four and more: Ascend has one to three.",
    Code.SPLITS_TIES: "A mask of all elements that equal the maximum over their axes: equal maxima share the gradient, "
    "while a pool's gradient goes to the first only.",
    Code.STORAGE_ORDER: "The pool numbers its Indices column-major (storage_order=1).",
    Code.SYMBOLIC_CANVAS: "The windows need a padded canvas, whose size is not known because a spatial size is "
    "symbolic.",
    Code.SYMBOLIC_CEIL: "ceil_mode with unequal pads on an axis of symbolic size: the output size cannot be proven.",
    Code.TARGET: "The target has no operator for this gradient.",
    Code.UNBATCHED: "The pooled input has no batch axis, which the dialect's operators need.",
    Code.UNKNOWN_DTYPE: "The pooled input's element type is not known.",
    Code.UNKNOWN_SHAPE: "A shape that the proof needs is not known.",
    Code.UNRELATED_INDICES: "Not a gradient of a pool: the indices are computed from integer inputs of the graph and "
    "constants alone, and what is scattered is a constant, or slices, or the inputs have one axis at most (labels). "
    "The node does not count as refused.",
    Code.WINDOW_IN_PADDING: "With ceil_mode the last window starts in the padding, where runtimes disagree and Indices "
    "have no meaning.",
    Code.WINDOW_TABLES: "A pool decomposed into Gather nodes: its windows and positions are not proven, value by "
    "value, to be those of a pool, or have more elements than are compared (2^23).",
}


@dataclass(frozen=True)
class Refusal:
    """The reason why an anchor is not lowered: a code, and a sentence that names the node or value at fault.

    The sentence is stored as a format string and its values, and formatted when it is read.
    """

    code: Code
    template: str
    values: tuple[object, ...]

    @property
    def reason(self) -> str:
        """The sentence: the template formatted with the values."""
        return self.template.format(*self.values)

    @property
    def rank(self) -> int:
        """Sort key: of the refusals of several forms, the first one with the lowest rank is reported."""
        return int(self.code in _OF_NO_FORM)


_OF_NO_FORM = frozenset({Code.INDICES_SOURCE, Code.UNRELATED_INDICES})
"""Codes of a form that does not recognise the source of the indices; the refusal of another form is more specific."""


class Refuse(Exception):  # noqa: N818 - raised as what it says
    """Raised where a condition of a form does not hold: the anchor is refused, with `refusal`."""

    def __init__(self, code: Code, template: str, *values: object) -> None:
        super().__init__(code, template, *values)
        self.refusal = Refusal(code, template, values)


def refuse(code: Code, template: str, *values: object) -> Refusal:
    """Return a refusal whose reason is `template.format(*values)`, formatted when it is read."""
    return Refusal(code, template, values)
