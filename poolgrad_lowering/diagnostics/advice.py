# SPDX-License-Identifier: Apache-2.0

"""What a user can change so that a refused gradient is lowered: one text for each code of `codes`."""

from __future__ import annotations

from poolgrad_lowering.diagnostics.codes import Code

ADVICE: dict[Code, str] = {
    Code.ARITY: "Give the node the inputs that its operator takes, or rename it if it is another operator.",
    Code.ATTRIBUTE_MISMATCH: "Give the gradient the attributes of its MaxPool, or take the Indices from a MaxPool with "
    "the same attributes.",
    Code.AUTO_PAD_SYMBOLIC: "Use explicit pads instead of auto_pad, or give the axis a fixed size.",
    Code.BASE_NOT_ZERO: "Scatter onto zeros that the model contains (a ConstantOfShape or an initializer), and add "
    "other gradients afterwards.",
    Code.CONSTANT_INDICES: "Export the model again so that the graph computes the Indices: script the module, or use "
    "the newer exporter, instead of a trace.",
    Code.DIALECT_CONFLICT: "Give the model's own operators another domain, or start from the model before its first "
    "lowering.",
    Code.DTYPE: "Train in float32, float16 or bfloat16, or choose a target whose operator supports the type.",
    Code.DTYPE_MIX: "Compute the gradient in the pooled input's element type, or cast to it and back around the "
    "gradient.",
    Code.DX_SHAPE: "Reshape the result to the pooled input's shape, and declare the input's shape.",
    Code.EMPTY_WINDOW: "Choose pads smaller than the effective kernel, so that every window touches the input.",
    Code.EXTERNAL_DATA: "Put the complete file next to the model. For a model in memory, pass its folder to `lower` as "
    "base_dir.",
    Code.FORWARD_BODY: "Compute the pooled tensor and its indices with one MaxPool with two outputs, or lower pools of "
    "different kinds in models of their own.",
    Code.FORWARD_READERS: "Use the Indices in the gradient only: not as a graph output, not in another node.",
    Code.FORWARD_SOURCE: "Compute the pooled tensor and its indices with one MaxPool with two outputs, from the x "
    "whose gradient is computed.",
    Code.FORWARD_WINDOWS: "Use pads of at most half the kernel, equal where a size is symbolic, and no dilation unless "
    "the target is ascend950.",
    Code.FUNCTION_DTYPE: "Convert the model to opset 15 or newer, or use one element type for all pools.",
    Code.GRADIENT_TO_ALL_TIES: "If only the first of equal maxima may get the gradient, compute the gradient from the "
    "pool's Indices. Otherwise the graph computes another function and stays as it is.",
    Code.GRAD_SHAPE: "Reshape the incoming gradient to the pooled shape, and declare both shapes.",
    Code.IMPLICIT_GRADIENT: "Export the training graph with its gradient nodes (onnxruntime training's artifacts, "
    "PyTorch's joint graph).",
    Code.INDICES_ALTERED: "Use the Indices as the pool recorded them. Between the pool and the gradient, only "
    "operators that keep values and order, and the conversion to plane-local indices, are allowed.",
    Code.INDICES_NUMBERING: "Convert the indices to the numbering that the scatter uses: subtract each plane's first "
    "index, or scatter over the whole tensor.",
    Code.INDICES_SOURCE: "Nothing to do if this is not a pool gradient (for example the scatter of an embedding). "
    "Otherwise take the indices from a MaxPool in the same graph. If they are an input, because the forward pass is a "
    "model of its own, merge the two first: onnx.compose.merge_models.",
    Code.INPUT_DEFAULT: "If no caller overrides it, lower with --trust-defaults (trust_defaults=True). Or export the "
    "model without keep_initializers_as_inputs.",
    Code.LAST_MAXIMUM: "Set select_last_index to 0.",
    Code.MALFORMED_GRADIENT: "Report it to the package that provides the form. The docstring of `PoolGradient` defines "
    "the fields.",
    Code.NOT_SELECTED: "Unset POOLGRAD_ONLY, or add the site or its form to it.",
    Code.NO_FORWARD_POOL: "Compute the pooled tensor with an ONNX MaxPool over the same tensor, with the operator's "
    "attributes.",
    Code.OPERATOR_WINDOWS: "Keep the operator that `poolgrad inspect --plan` writes into the plan.",
    Code.OPSET: "Convert the model to a newer opset (onnx.version_converter), or export it with one.",
    Code.OTHER_CONSUMER: "Do not use the gradient's inner values outside the gradient, or compute them a second time.",
    Code.OUTPUT_SIZE: "Choose pads, stride and rounding for which the target's formula gives the graph's output size; "
    "correct a declared shape that is wrong.",
    Code.OVERLAPPING_OVERWRITE: "Scatter with reduction=add: where windows overlap, the gradient is a sum.",
    Code.PLANE_BASE: "Make the indices plane-local: subtract each plane's first index (the Indices of a 1×1 MaxPool), "
    "or take the remainder by the plane's size.",
    Code.PLANE_SIZE: "Pool smaller planes, or choose a target whose operator supports larger ones.",
    Code.PLUGIN_FAILED: "Report the error to the package that provides the form, or uninstall it.",
    Code.POOL_ATTRIBUTES: "Give every attribute a value that ONNX allows, and use pads instead of auto_pad.",
    Code.REDUCTION: "Scatter with reduction=add.",
    Code.ROWS_NOT_PLANES: "Scatter with one row for each (n, c) plane of the pooled input.",
    Code.ROW_LENGTH: "Scatter onto rows that are each exactly one plane of the pooled input; pad or crop afterwards.",
    Code.SHADOWED_NAME: "Give the inner value a unique name.",
    Code.SKIPPED_BY_PLAN: "Change the plan so that it lowers the site, or its forward pool.",
    Code.SPATIAL_RANK: "Fold the axes so that the pool has one to three spatial ones.",
    Code.SPLITS_TIES: "If only the first of equal maxima may get the gradient, compute the gradient from the index of "
    "the first maximum. Otherwise the graph computes another function and stays as it is.",
    Code.STORAGE_ORDER: "Record row-major Indices: storage_order=0.",
    Code.SYMBOLIC_CANVAS: "Give the spatial axes fixed sizes, or choose pads of at most half the kernel.",
    Code.SYMBOLIC_CEIL: "Give the axis a fixed size, use equal pads, or round down (ceil_mode=0).",
    Code.TARGET: "Choose a target that has the operator: ascend950, atlas-a3 or atlas-a2.",
    Code.UNBATCHED: "Give the pooled input a batch axis of size 1 (Unsqueeze).",
    Code.UNKNOWN_DTYPE: "Declare the pooled input's element type in value_info (onnx.shape_inference does).",
    Code.UNKNOWN_SHAPE: "Declare the shapes of the graph's inputs, with one symbol for each size that varies.",
    Code.UNRELATED_INDICES: "Nothing: the scatter makes the one-hot labels of a loss, or belongs to an embedding.",
    Code.WINDOW_IN_PADDING: "Make the end padding smaller, or round down (ceil_mode=0), so that every window starts in "
    "the input.",
    Code.WINDOW_TABLES: "Export the pool as a MaxPool or an ATen node instead of Gather nodes, or with smaller sizes.",
}
