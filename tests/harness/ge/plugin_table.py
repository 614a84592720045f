# SPDX-License-Identifier: Apache-2.0

"""What CANN's open plugins for ONNX's operators read of a node, refuse, and change: one row for each operator.

Written from the sources of the plugins and of the prototypes (ops-nn e5c3fa93, ops-math c4193324; `source` says where).

An attribute that a plugin does not read is lost: GE computes what the operator does without it. A rule says more than
that: it refuses nodes, or says what GE computes instead, in ONNX's own operators (`plugin_rules.py`). A comment says
what the stand-in does not follow, because what the device does then is not known.

The stand-ins for ATC and for graph mode read this table; the compiler has one of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.harness.ge import plugin_rules as rules
from tests.harness.ge.plugin_rules import Context, Node, Outcome, Rule

OLDEST, NEWEST = 8, 18
"""The opsets for which the plugins register ONNX's operators."""


@dataclass(frozen=True)
class Plugin:
    """The plugin of one operator.

    Attributes:
        source: `<repository>:<path>`.
        reads: the attributes that it reads; GE does not see the others.
        rules: what it does with some nodes besides dropping attributes.
        inputs: how many inputs the operator of GE has; None if the plugin makes as many as the node has.
        without_prototype: the first and the last opset whose operator of GE has no open prototype, or None.
    """

    operator: str
    source: str
    reads: frozenset[str] = frozenset()
    rules: tuple[Rule, ...] = ()
    inputs: int | None = None
    without_prototype: tuple[int, int] | None = None


_NN, _MATH = "ops-nn:common/src/framework/", "ops-math:common/src/framework/"
_SIMILAR = _MATH + "similar_opp_onnx_plugin.cpp"
_ALL = (OLDEST, NEWEST)


def _row(
    operator: str,
    source: str,
    reads: str = "",
    *rules_of: Rule,
    inputs: int | None = None,
    without_prototype: tuple[int, int] | None = None,
) -> Plugin:
    return Plugin(operator, source, frozenset(reads.split()), rules_of, inputs, without_prototype)


def _plain(operators: str, inputs: int) -> Iterable[Plugin]:
    """Yield the rows of operators that are handed on by name, without attributes."""
    return (_row(operator, _SIMILAR, inputs=inputs) for operator in operators.split())


def _reduction(operator: str, folder: str, name: str) -> Plugin:
    return _row(operator, f"ops-math:math/{folder}/framework/{name}", "axes keepdims noop_with_empty_axes")


def _without_prototype(operators: str, source: str, opsets: tuple[int, int] = _ALL) -> Iterable[Plugin]:
    return (_row(operator, source, without_prototype=opsets) for operator in operators.split())


def _since(opset: int, rule: Rule) -> Rule:
    """Return a rule of an opset and all newer ones."""

    def apply(node: Node, context: Context) -> Outcome:
        return rule(node, context) if context.opset >= opset else None

    return apply


def _until(opset: int, rule: Rule) -> Rule:
    """Return a rule of an opset and all older ones."""

    def apply(node: Node, context: Context) -> Outcome:
        return rule(node, context) if context.opset <= opset else None

    return apply


_POOL = "auto_pad ceil_mode kernel_shape pads strides"

_ROWS: tuple[Plugin, ...] = (
    # -- products and convolutions
    # A Conv over three axes with kernel_shape alone: the layout of GE's Conv3D is then NCHW.
    _row(
        "Conv", _NN + "conv_onnx_plugin.cpp", "auto_pad dilations group kernel_shape pads strides",
        rules.conv_needs_an_attribute, rules.conv_3d_auto_pad),
    # If an earlier ConvTranspose of the process had output_shape, and none had auto_pad, auto_pad is SAME_LOWER: two
    # variables of the plugin are never reset.
    _row(
        "ConvTranspose", _NN + "conv_transpose_onnx_plugin.cpp",
        "auto_pad dilations group kernel_shape output_padding output_shape pads strides", rules.needs("kernel_shape")),
    _row("Gemm", _NN + "gemm_onnx_plugin.cpp", "alpha beta transA transB", rules.gemm_without_c),
    _row("MatMul", "ops-nn:matmul/mat_mul_v3/framework/matmul_onnx_plugin.cpp", inputs=4),
    _row("Einsum", _MATH + "einsum_onnx_plugin.cpp", "equation", rules.needs("equation")),
    # -- pools
    _row(
        "MaxPool", _NN + "max_pool_onnx_plugin.cpp", f"{_POOL} dilations storage_order",
        rules.pool_with_indices, rules.column_major_pool, rules.pool_axes, rules.pool_without_dilation,
        rules.same_lower_is_same_upper, rules.large_pool),
    _row(
        "AveragePool", _NN + "average_pool_onnx_plugin.cpp", f"{_POOL} count_include_pad",
        rules.pool_axes, rules.average_pool_3d, rules.same_lower_is_same_upper),
    _row("GlobalMaxPool", _NN + "global_max_pool_onnx_plugin.cpp", "", rules.global_max_pool),
    _row("GlobalAveragePool", _SIMILAR, inputs=1),
    # -- normalisation
    _row(
        "BatchNormalization", "ops-nn:norm/batch_norm/framework/batch_normalization_onnx_plugin.cpp",
        "epsilon training_mode", _since(14, rules.batch_norm_in_training), _until(13, rules.batch_norm_of_old_opsets),
        inputs=5),
    _row("LayerNormalization", _NN + "layer_normalization_onnx_plugin.cpp", "axis epsilon stash_type"),
    _row(
        "InstanceNormalization", "ops-nn:norm/instance_norm_v3/framework/instancenormalization_onnx_plugin.cpp",
        "epsilon"),
    _row(
        "LogSoftmax", "ops-nn:activation/log_softmax_v2/framework/logsoftmax_onnx_plugin.cpp", "axis",
        _until(12, rules.log_softmax_of_one_axis), inputs=1),
    # Up to opset 12, of another axis than the last one: one axis and a request for a fusion.
    _row("Softmax", "ops-nn:activation/softmax_v2/framework/softmax_onnx_plugin.cpp", "axis", inputs=1),
    _row("LRN", _NN + "lrn_onnx_plugin.cpp", "alpha beta bias size"),
    _row("LpNormalization", "ops-nn:norm/lp_norm_v2/framework/lp_normalization_onnx_plugin.cpp", "axis p"),
    _row(
        "SoftmaxCrossEntropyLoss", _NN + "softmax_cross_entropy_loss_onnx_plugin.cpp", "ignore_index reduction",
        rules.loss_without_ignored_class),
    # -- activations
    _row("LeakyRelu", "ops-nn:activation/leaky_relu/framework/leaky_relu_onnx_plugin.cpp", "alpha", inputs=1),
    _row("Elu", "ops-nn:activation/elu/framework/elu_onnx_plugin.cpp", "alpha", inputs=1),
    _row("Celu", "ops-nn:activation/celu/framework/celu_onnx_plugin.cpp", "alpha", inputs=1),
    _row("HardSigmoid", "ops-nn:activation/hard_sigmoid/framework/hard_sigmoid_onnx_plugin.cpp", "alpha beta"),
    _row("ThresholdedRelu", "ops-nn:activation/threshold/framework/threshold_relu_onnx_plugin.cpp", "alpha"),
    _row("Shrink", "ops-nn:activation/shrink/framework/shrink_onnx_plugin.cpp", "bias lambd"),
    _row("Selu", "ops-nn:activation/selu/framework/selu_onnx_plugin.cpp", "alpha gamma", rules.selu),
    _row(
        "Clip", "ops-math:conversion/clip_by_value/framework/clip_onnx_plugin.cpp", "max min",
        _since(11, rules.clip_needs_a_bound), _until(10, rules.clip_casts)),
    # -- shapes and data movement
    _row(
        "Pad", "ops-math:conversion/pad_v3/framework/pad_onnx_plugin.cpp", "mode pads value",
        _until(10, rules.needs("pads")), inputs=3),
    _row("Shape", "ops-math:math/shape/framework/shape_onnx_plugin.cpp", inputs=1),
    _row("Size", _NN + "size_onnx_plugin.cpp", inputs=1),
    _row("Reshape", "ops-math:conversion/reshape/framework/reshape_onnx_plugin.cpp", "allowzero", inputs=2),
    _row("Flatten", "ops-math:conversion/flatten/framework/flatten_onnx_plugin.cpp", "axis", inputs=1),
    _row(
        "Transpose", "ops-math:conversion/transpose/framework/transpose_onnx_plugin.cpp", "perm", rules.needs("perm")),
    _row("Concat", "ops-math:conversion/concat/framework/concat_onnx_plugin.cpp", "axis", rules.needs("axis")),
    # With num_outputs and no sizes the plugin reads the shape of its input, which the parser has not inferred.
    _row(
        "Split", "ops-math:conversion/split_d/framework/split_onnx_plugin.cpp", "axis num_outputs split",
        rules.split_counts),
    _row(
        "Slice", "ops-math:conversion/strided_slice_v2/framework/slice_onnx_plugin.cpp", "axes ends starts",
        _until(9, rules.slice_bounds), inputs=5),
    _row("Squeeze", "ops-math:conversion/squeeze/framework/squeeze_onnx_plugin.cpp", "axes", inputs=2),
    _row(
        "Unsqueeze", "ops-math:conversion/unsqueeze/framework/unsequeeze_onnx_plugin.cpp", "axes",
        _until(12, rules.needs("axes")), inputs=2),
    # Of a type that GE does not know the undefined type is handed on.
    _row("Cast", "ops-math:math/cast/framework/cast_onnx_plugin.cpp", "to", rules.needs("to"), inputs=1),
    _row("Trilu", "ops-math:conversion/trilu/framework/trilu_onnx_plugin.cpp", "upper"),
    _row(
        "DepthToSpace", "ops-math:conversion/depth_to_space/framework/depth_to_space_onnx_plugin.cpp", "blocksize mode"
    ),
    _row("SpaceToDepth", "ops-math:conversion/space_to_depth/framework/space_to_depth_onnx_plugin.cpp", "blocksize"),
    _row(
        "Resize", _NN + "resize_onnx_plugin.cpp", "coordinate_transformation_mode mode",
        _since(11, rules.resize_inputs), _since(11, rules.nearest_resize)),
    _row("EyeLike", _MATH + "eyelike_onnx_plugin.cpp", "dtype k"),
    # The plugin has no data for a value in a field of its own that is not int32, int64, float32 or float64.
    _row("ConstantOfShape", _NN + "constantofshape_onnx_plugin.cpp", "value"),
    _row("Constant", "ge:parser/parser/onnx/onnx_constant_parser.cc", "value", rules.constant_without_value),
    # -- indices
    _row("Gather", "ops-nn:index/gather_v2/framework/gather_onnx_plugin.cpp", "axis"),
    _row("GatherElements", "ops-nn:index/gather_elements/framework/gather_elements_onnx_plugin.cpp", "axis", inputs=2),
    _row(
        "GatherND", "ops-nn:index/gather_nd/framework/gather_nd_onnx_plugin.cpp", "batch_dims",
        rules.gather_nd_batches, inputs=2),
    _row(
        "ScatterND", f"{_SIMILAR} and {_NN}scatter_nd_onnx_plugin.cpp", "reduction",
        rules.scatter_nd_of_ops_math, rules.scatter_nd_of_ops_nn),
    _row(
        "ScatterElements", "ops-nn:index/scatter_elements/framework/scatter_elements_onnx_plugin.cpp",
        "axis reduction", inputs=3),
    _row("NonZero", "ops-nn:index/non_zero/framework/non_zero_onnx_plugin.cpp"),
    _row("OneHot", "ops-math:math/one_hot/framework/onehot_onnx_plugin.cpp", "axis"),
    _row(
        "TopK", _NN + "topk_onnx_plugin.cpp", "axis k largest sorted",
        _until(9, rules.needs("k")), rules.narrow_result(1)),
    _row(
        "ArgMax", "ops-math:math/arg_max_v2/framework/argmax_onnx_plugin.cpp", "axis keepdims select_last_index",
        rules.last_index),
    _row(
        "ArgMin", "ops-math:math/arg_min/framework/argmin_onnx_plugin.cpp", "axis keepdims select_last_index",
        rules.last_index, rules.arg_min),
    _row("MaxUnpool", _NN + "maxunpool_onnx_plugin.cpp", "kernel_shape pads strides"),
    # -- arithmetic
    _row("Mod", "ops-math:math/mod/framework/mod_onnx_plugin.cpp", "", rules.mod_truncates, inputs=2),
    _row("IsInf", "ops-math:math/is_inf/framework/isinf_onnx_plugin.cpp"),
    _row("BitShift", "ops-math:math/right_shift/framework/bitshift_onnx_plugin.cpp", "direction"),
    _row("CumSum", "ops-math:math/cumsum/framework/cumsum_onnx_plugin.cpp", "exclusive reverse", inputs=2),
    _row("Max", "ops-math:math/maximum/framework/max_onnx_plugin.cpp"),
    _row("Min", "ops-math:math/minimum/framework/min_onnx_plugin.cpp"),
    _row("Sum", "ops-math:math/accumulate_nv2/framework/sum_onnx_plugin.cpp"),
    _row("Mean", "ops-math:math/accumulate_nv2/framework/mean_onnx_plugin.cpp"),
    _reduction("ReduceSum", "reduce_sum", "reduce_sum_onnx_plugin.cpp"),
    _reduction("ReduceMean", "reduce_mean", "reduce_mean_onnx_plugin.cpp"),
    _reduction("ReduceMax", "reduce_max", "reduce_max_onnx_plugin.cpp"),
    _row("RandomUniformLike", _MATH + "random_uniform_like_onnx_plugin.cpp", "dtype high low seed", rules.random_type),
    _row("RandomNormalLike", _MATH + "random_normal_like_onnx_plugin.cpp", "dtype mean scale seed", rules.random_type),
    _row("If", _NN + "if_onnx_plugin.cpp", "then_branch else_branch"),
    # -- handed on by name
    *_plain("Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Identity IsNaN Log Neg Not", 1),
    *_plain("Reciprocal Relu Round Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh", 1),
    *_plain("Add And Div Equal Expand Greater GreaterOrEqual Less LessOrEqual Mul Or Pow PRelu Sub Tile", 2),
    *_plain("Range Where", 3),
    # -- registered for an operator of GE that has no open prototype
    *_without_prototype("CastLike Det Dropout", _SIMILAR),
    *_without_prototype("HardSwish", _SIMILAR, (14, NEWEST)),
    *_without_prototype("ReduceLogSum", "ops-math:math/reduce_sum/framework/reduce_log_sum_onnx_plugin.cpp", (13, 18)),
    *_without_prototype(
        "SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength",
        _MATH + "sequence_onnx_plugin.cpp",
    ),
    *_without_prototype("SplitToSequence", _MATH + "split_to_sequence_onnx_plugin.cpp"),
    *_without_prototype("ConcatFromSequence", _MATH + "concat_from_sequence_onnx_plugin.cpp"),
)  # fmt: skip

PLUGINS: Mapping[str, Plugin] = {row.operator: row for row in _ROWS}
"""By ONNX operator. An operator without a row is handed on as it is."""

assert len(PLUGINS) == len(_ROWS)
