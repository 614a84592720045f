"""What would have to change for what is declined to be lowered: one sentence for each code of `codes`."""

from __future__ import annotations

from poolgrad_lowering.diagnostics.codes import Code

ADVICE: dict[Code, str] = {
    Code.ARITY: "Give the node the inputs of its form, or call an operator of another meaning by another name.",
    Code.ATTRIBUTE_MISMATCH: "Give the gradient the attributes of its MaxPool, or take the Indices from the pool whose "
    "attributes it has.",
    Code.AUTO_PAD_SYMBOLIC: "Write the pads out instead of auto_pad, or give the axis a fixed size.",
    Code.BASE_NOT_ZERO: "Scatter onto zeros that the model holds itself (a ConstantOfShape, an initializer), and add "
    "other gradients afterwards.",
    Code.CONSTANT_INDICES: "Export anew so that the Indices are computed in the graph: script the module, or use the "
    "newer exporter, instead of a trace.",
    Code.DIALECT_CONFLICT: "Give the model's own operators another domain, or start from the model before its first "
    "lowering.",
    Code.DTYPE: "Train in float32, float16 or bfloat16, or choose a target whose operator takes the type.",
    Code.DTYPE_MIX: "Compute the gradient in the pooled input's element type, or cast to it and back around the "
    "gradient.",
    Code.DX_SHAPE: "Bring the result into the pooled input's shape with a Reshape, and declare the input's shape.",
    Code.EMPTY_WINDOW: "Choose pads smaller than the effective kernel, so that every window touches the input.",
    Code.EXTERNAL_DATA: "Put the complete file beside the model. For a model in memory, pass its folder to `lower` as "
    "base_dir.",
    Code.FORWARD_READERS: "Let nothing but the gradient read the Indices: no graph output, no other node.",
    Code.FORWARD_SOURCE: "Compute the pooled tensor and its indices with one MaxPool of two outputs, over the x whose "
    "gradient is taken.",
    Code.FORWARD_WINDOWS: "Use pads of at most half the kernel, equal where a size is symbolic, and no dilation unless "
    "the target is ascend950.",
    Code.FUNCTION_DTYPE: "Convert the model to opset 15 or newer, or keep all pools in one element type.",
    Code.GRADIENT_TO_ALL_TIES: "Write the gradient by the recorded Indices of the pool, if ties may go to the first "
    "maximum; as it is, it is another function.",
    Code.GRAD_SHAPE: "Bring the incoming gradient into the pooled shape with a Reshape, and declare both shapes.",
    Code.IMPLICIT_GRADIENT: "Export the training graph with its gradient nodes (onnxruntime training's artifacts, "
    "PyTorch's joint graph).",
    Code.INDICES_ALTERED: "Use the Indices as the pool recorded them; only what keeps values and order, and the "
    "step to plane-local indices, may stand between.",
    Code.INDICES_NUMBERING: "Bring the indices into the numbering of their use: subtract each plane's first index, or "
    "scatter over the whole tensor.",
    Code.INDICES_SOURCE: "Nothing, if it is no pool gradient (an embedding's or a loss's scatter, say). Else take "
    "the indices from the MaxPool in the same graph.",
    Code.LAST_MAXIMUM: "Set select_last_index to 0.",
    Code.MALFORMED_GRADIENT: "Report it to the package that brings the form; `PoolGradient` says what fields mean.",
    Code.NOT_SELECTED: "Unset POOLGRAD_ONLY, or name the site or its form in it.",
    Code.NO_FORWARD_POOL: "Compute the pooled tensor with an ONNX MaxPool over the same tensor, with the operator's "
    "attributes.",
    Code.OPERATOR_WINDOWS: "Leave the operator in the plan as `poolgrad inspect --plan` writes it.",
    Code.OPSET: "Convert the model to a newer opset (onnx.version_converter), or export it with one.",
    Code.OTHER_CONSUMER: "Let nothing outside the gradient read its inner values, or compute them a second time.",
    Code.OUTPUT_SIZE: "Choose pads, stride and rounding for which the target's formula gives the graph's output size; "
    "correct a declared shape that is wrong.",
    Code.OVERLAPPING_OVERWRITE: "Scatter with reduction=add: where windows overlap, only sums are the gradient.",
    Code.PLANE_BASE: "Make the indices plane-local by each plane's own first index: a 1×1 MaxPool's Indices, or the "
    "remainder by the plane's size.",
    Code.PLANE_SIZE: "Pool smaller planes, or choose a target whose operator numbers larger ones.",
    Code.PLUGIN_FAILED: "Report the error to the package that brings the form, or uninstall it.",
    Code.POOL_ATTRIBUTES: "Write the attributes out in ONNX's range, pads instead of auto_pad.",
    Code.REDUCTION: "Scatter with reduction=add.",
    Code.ROWS_NOT_PLANES: "Scatter with one row for each (n, c) plane of the pooled input.",
    Code.ROW_LENGTH: "Scatter onto rows of exactly one plane of the pooled input each, and pad or crop afterwards.",
    Code.SHADOWED_NAME: "Give the inner value a name of its own.",
    Code.SKIPPED_BY_PLAN: "Let the plan lower the site, or its pool.",
    Code.SPATIAL_RANK: "Fold the axes so that the pool has one to three spatial ones.",
    Code.SPLITS_TIES: "Write the gradient by the index of the first maximum, if ties may go to it alone; as it is, it "
    "is another function.",
    Code.STORAGE_ORDER: "Record the Indices row-major: storage_order=0.",
    Code.SYMBOLIC_CANVAS: "Give the spatial axes fixed sizes, or choose pads of at most half the kernel.",
    Code.SYMBOLIC_CEIL: "Give the axis a fixed size, use equal pads, or round down (ceil_mode=0).",
    Code.TARGET: "Choose a target that has the operator: ascend950, atlas-a3 or atlas-a2.",
    Code.UNBATCHED: "Give the pooled input a batch axis of size 1 (Unsqueeze).",
    Code.UNKNOWN_DTYPE: "Declare the pooled input's element type in value_info (onnx.shape_inference does).",
    Code.UNKNOWN_SHAPE: "Declare the shapes around the gradient in value_info (onnx.shape_inference does), with one "
    "symbol for each size that varies.",
    Code.WINDOW_IN_PADDING: "Make the end padding smaller, or round down (ceil_mode=0), so that every window starts in "
    "the input.",
    Code.WINDOW_TABLES: "Export the pool as a MaxPool or an ATen node instead of gathers, or with smaller sizes.",
}
