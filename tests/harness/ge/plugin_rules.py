# SPDX-License-Identifier: Apache-2.0

"""What single plugins refuse and change, as functions of a node; `plugin_table.py` says of which operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from tests.harness.ge.prototypes import Soc

Library = Literal["ops-math", "ops-nn"]
Outcome = str | list[NodeProto] | None

LARGEST_KERNEL, LARGEST_STRIDE = 255, 63
"""Of a 2-D pool on a core of ascend910b and ascend910_93; a larger one goes to the CPU of the device."""
CPU_PADDING = -65504.0
"""What the plugin pads with there: the least number of float16, not minus infinity."""
SELU = {"alpha": 1.67326324235, "gamma": 1.05070098736}
SELU_TOLERANCE = 1e-5
RANDOM_TYPES = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE}


@dataclass(frozen=True)
class Context:
    """What a plugin's work depends on besides the node.

    Attributes:
        opset: of ONNX's operators.
        first: whose library of plugins was loaded first; the first registration of a key wins.
    """

    opset: int
    soc: Soc = "ascend910b"
    first: Library = "ops-math"


class Node:
    """A node with its attributes as values."""

    def __init__(self, proto: NodeProto) -> None:
        self.proto = proto
        self.attributes: dict[str, Any] = {each.name: helper.get_attribute_value(each) for each in proto.attribute}

    def replaced(self, **attributes: Any) -> NodeProto:
        """Return the node with other attributes; None removes one."""
        replaced = NodeProto()
        replaced.CopyFrom(self.proto)
        del replaced.attribute[:]
        replaced.attribute.extend(each for each in self.proto.attribute if each.name not in attributes)
        given = {name: value for name, value in attributes.items() if value is not None}
        replaced.attribute.extend(helper.make_attribute(name, value) for name, value in given.items())
        return replaced

    def made(self, operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> NodeProto:
        """Return a node of another operator, one of those that take the place of this one."""
        given = {name: value for name, value in attributes.items() if value is not None}
        return helper.make_node(operator, inputs, outputs, name=f"{self.proto.name}/ge/{outputs[0]}", **given)

    def constant(self, name: str, value: Any) -> NodeProto:
        """Return a Constant of a numpy array."""
        return self.made("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value)))

    def inner(self, name: str) -> str:
        """Return the name of a value between the nodes that take this one's place."""
        return f"{next(filter(None, self.proto.output))}/ge/{name}"

    @property
    def axes(self) -> int:
        """The number of numbers of kernel_shape."""
        return len(self.attributes.get("kernel_shape", ()))


Rule = Callable[[Node, Context], Outcome]
"""For a node: the reason of its refusal, or the nodes that compute what GE computes; None for other nodes."""


def needs(attribute: str) -> Rule:
    """Return a rule that refuses a node without an attribute, or with an empty one."""

    def apply(node: Node, _: Context) -> Outcome:
        found = node.attributes.get(attribute)
        missing = found is None or (isinstance(found, list | bytes) and not found)
        return f"attr {attribute} must have value" if missing else None

    return apply


# -- convolutions and products


def conv_needs_an_attribute(node: Node, _: Context) -> Outcome:
    named = {"kernel_shape", "pads", "strides", "dilations"} & node.attributes.keys()
    return None if named else "node must have attr (kernel_shape,pads,strides,dilations) at least one"


def conv_3d_auto_pad(node: Node, _: Context) -> Outcome:
    axes = {"kernel_shape": 3, "strides": 3, "dilations": 3, "pads": 6}
    is_3d = any(len(node.attributes.get(name, ())) == length for name, length in axes.items())
    is_same = node.attributes.get("auto_pad", b"").startswith(b"SAME")
    return "auto_pad of a convolution over three axes has to be NOTSET or VALID" if is_3d and is_same else None


def gemm_without_c(node: Node, _: Context) -> Outcome:
    """alpha is lost."""
    lost = len(node.proto.input) != 3 and node.attributes.get("alpha", 1.0) != 1.0
    return [node.replaced(alpha=None)] if lost else None


# -- pools


def pool_with_indices(node: Node, _: Context) -> Outcome:
    return "The output of Indices is not support" if len(node.proto.output) != 1 else None


def column_major_pool(node: Node, _: Context) -> Outcome:
    return "storage_order is 1" if node.attributes.get("storage_order") == 1 else None


def pool_axes(node: Node, _: Context) -> Outcome:
    return None if node.axes in (1, 2, 3) else "a kernel_shape of 1, 2 or 3 axes is needed"


def pool_without_dilation(node: Node, _: Context) -> Outcome:
    lost = node.axes < 3 and any(number != 1 for number in node.attributes.get("dilations", ()))
    return [node.replaced(dilations=None)] if lost else None


def same_lower_is_same_upper(node: Node, _: Context) -> Outcome:
    lower = node.attributes.get("auto_pad") == b"SAME_LOWER"
    return [node.replaced(auto_pad="SAME_UPPER")] if lower else None


def large_pool(node: Node, context: Context) -> Outcome:
    """A pool on the device's CPU: explicit pads of -65504, without auto_pad and ceil_mode."""
    kernel, strides = node.attributes["kernel_shape"], node.attributes.get("strides", [1])
    large = math.prod(kernel) > LARGEST_KERNEL or max(strides) > LARGEST_STRIDE
    if context.soc == "ascend950" or node.axes == 3 or not large:
        return None
    pads = node.attributes.get("pads", [0])
    if not any(pads):
        return [node.replaced(auto_pad=None, ceil_mode=None, dilations=None, pads=None)]
    padded = node.inner("padded")
    pool = node.replaced(auto_pad=None, ceil_mode=None, dilations=None, pads=None)
    pool.input[0] = padded
    return [*_padding(node, context, pads, padded), pool]


def _padding(node: Node, context: Context, pads: Sequence[int], padded: str) -> list[NodeProto]:
    half = len(pads) // 2
    widths = [0, 0, *pads[:half], 0, 0, *pads[half:]]
    x = node.proto.input[0]
    if context.opset < 11:
        return [node.made("Pad", [x], [padded], pads=widths, value=CPU_PADDING)]
    names = [node.inner("pads"), node.inner("value"), node.inner("value_as_x")]
    return [
        node.constant(names[0], np.array(widths, np.int64)),
        node.constant(names[1], np.float32(CPU_PADDING)),
        *_cast_like(node, context, names[1], x, names[2]),
        node.made("Pad", [x, names[0], names[2]], [padded]),
    ]


def _cast_like(node: Node, context: Context, value: str, like: str, output: str) -> list[NodeProto]:
    """Return nodes that give a scalar the type of another value: older opsets have no operator for it."""
    if context.opset >= 15:
        return [node.made("CastLike", [value, like], [output])]
    return [node.made("Identity", [value], [output])]


def average_pool_3d(node: Node, _: Context) -> Outcome:
    lost = node.axes == 3 and node.attributes.get("auto_pad", b"NOTSET") != b"NOTSET"
    return [node.replaced(auto_pad=None)] if lost else None


def global_max_pool(node: Node, context: Context) -> Outcome:
    """Axes 2 and -1 in turn: H of D, H, W is not reduced; one axis, which both name, is right."""
    x, between = node.proto.input[0], node.inner("rows")
    first, second = node.inner("axis"), node.inner("last")
    if context.opset < 18:
        return [
            node.made("ReduceMax", [x], [between], axes=[2], keepdims=1),
            node.made("ReduceMax", [between], node.proto.output, axes=[-1], keepdims=1),
        ]
    return [
        node.constant(first, np.array([2], np.int64)),
        node.constant(second, np.array([-1], np.int64)),
        node.made("ReduceMax", [x, first], [between], keepdims=1),
        node.made("ReduceMax", [between, second], node.proto.output, keepdims=1),
    ]


# -- normalisation


def batch_norm_in_training(node: Node, _: Context) -> Outcome:
    """momentum is lost: the new statistics are those of the batch, as exponential_avg_factor is 1 by default.

    The variance is unbiased (ops-nn:norm/batch_norm/op_graph/batch_norm_proto.h).
    """
    if node.attributes.get("training_mode") != 1 or len(node.proto.output) < 2:
        return None
    x, scale, offset, mean, variance = node.proto.input
    y, *statistics = [*node.proto.output, "", ""][:3]
    biased = node.inner("biased")
    given = node.made(
        "BatchNormalization",
        [x, scale, offset, mean, variance],
        [y, statistics[0] or node.inner("mean"), biased],
        epsilon=node.attributes.get("epsilon"),
        training_mode=1,
        momentum=0.0,
    )
    return [given, *_unbiased(node, biased, statistics[1])] if statistics[1] else [given]


def _unbiased(node: Node, biased: str, output: str) -> list[NodeProto]:
    """Return nodes that compute biased * n / (n - 1) in float32, n = elements of x / channels."""
    x, scale = node.proto.input[:2]
    names = {name: node.inner(name) for name in ("size", "channels", "n", "one", "less", "as_n", "as_less", "sum")}
    return [
        node.made("Size", [x], [names["size"]]),
        node.made("Size", [scale], [names["channels"]]),
        node.made("Div", [names["size"], names["channels"]], [names["n"]]),
        node.constant(names["one"], np.int64(1)),
        node.made("Sub", [names["n"], names["one"]], [names["less"]]),
        node.made("Cast", [names["n"]], [names["as_n"]], to=TensorProto.FLOAT),
        node.made("Cast", [names["less"]], [names["as_less"]], to=TensorProto.FLOAT),
        node.made("Mul", [biased, names["as_n"]], [names["sum"]]),
        node.made("Div", [names["sum"], names["as_less"]], [output]),
    ]


def batch_norm_of_old_opsets(node: Node, _: Context) -> Outcome:
    """There is no training_mode: the given statistics are used and returned."""
    if len(node.proto.output) < 2:
        return None
    mean, variance = node.proto.input[3:5]
    given = zip(node.proto.output[1:], (mean, variance, mean, variance), strict=False)
    inference = node.made(
        "BatchNormalization", node.proto.input, node.proto.output[:1], epsilon=node.attributes.get("epsilon")
    )
    return [inference, *(node.made("Identity", [value], [output]) for output, value in given if output)]


def log_softmax_of_one_axis(node: Node, _: Context) -> Outcome:
    """Over one axis, the last one by default; ONNX flattens to two axes, at axis 1 by default.

    With x as (before, axis, after): the same kernel and bits as the node's if the axis is the last one.
    """
    x, [y] = node.proto.input[0], node.proto.output
    axis = node.attributes.get("axis", -1)
    if axis == -1:
        return [node.replaced(axis=-1)]
    steps = ("shape", "at", "length", "zero", "minus", "sizes", "flat", "planes", "rows", "result", "back")
    names = {name: node.inner(name) for name in steps}
    return [
        node.made("Shape", [x], [names["shape"]]),
        node.constant(names["at"], np.array([axis], np.int64)),
        node.constant(names["zero"], np.array([0], np.int64)),
        node.constant(names["minus"], np.array([-1], np.int64)),
        node.made("Gather", [names["shape"], names["at"]], [names["length"]], axis=0),
        node.made("Concat", [names["zero"], names["length"], names["minus"]], [names["sizes"]], axis=0),
        node.made("Flatten", [x], [names["flat"]], axis=axis),
        node.made("Reshape", [names["flat"], names["sizes"]], [names["planes"]]),
        node.made("Transpose", [names["planes"]], [names["rows"]], perm=[0, 2, 1]),
        node.made("LogSoftmax", [names["rows"]], [names["result"]], axis=2),
        node.made("Transpose", [names["result"]], [names["back"]], perm=[0, 2, 1]),
        node.made("Reshape", [names["back"], names["shape"]], [y]),
    ]


def loss_without_ignored_class(node: Node, _: Context) -> Outcome:
    """It is 0, the prototype's default: labels of class 0 do not count."""
    return None if "ignore_index" in node.attributes else [node.replaced(ignore_index=0)]


# -- activations


def selu(node: Node, _: Context) -> Outcome:
    differs = any(abs(node.attributes.get(name, value) - value) > SELU_TOLERANCE for name, value in SELU.items())
    return "alpha and gamma have to be the defaults" if differs else None


def clip_needs_a_bound(node: Node, _: Context) -> Outcome:
    return None if any(node.proto.input[1:3]) else "At least 'min' or 'max' must not be None or Empty"


def clip_casts(node: Node, _: Context) -> Outcome:
    """The input is cast to float32."""
    cast = node.inner("float")
    clip = node.replaced()
    clip.input[0] = cast
    return [node.made("Cast", node.proto.input[:1], [cast], to=TensorProto.FLOAT), clip]


# -- data movement


def split_counts(node: Node, _: Context) -> Outcome:
    outputs = len(node.proto.output)
    counts = {len(node.attributes.get("split", ())), node.attributes.get("num_outputs", 0)} - {0}
    return None if counts <= {outputs} else f"{outputs} outputs are not {sorted(counts)}"


def slice_bounds(node: Node, _: Context) -> Outcome:
    given = node.attributes.get("starts") and node.attributes.get("ends")
    return None if given else "attr must have ends and starts"


def resize_inputs(node: Node, _: Context) -> Outcome:
    return "Input size is less than 3" if len(node.proto.input) < 3 else None


def nearest_resize(node: Node, _: Context) -> Outcome:
    """nearest_mode is lost: halves are rounded up; unknown modes of coordinates are asymmetric with floor."""
    if node.attributes.get("mode", b"nearest") != b"nearest":
        return None
    mode = node.attributes.get("coordinate_transformation_mode", b"half_pixel").decode()
    kept = {"half_pixel": "half_pixel", "pytorch_half_pixel": "half_pixel", "align_corners": "align_corners"}
    taken = kept.get(mode, "asymmetric")
    nearest = "floor" if taken == "asymmetric" else "round_prefer_ceil"
    if (taken, nearest) == (mode, node.attributes.get("nearest_mode", b"round_prefer_floor").decode()):
        return None
    return [node.replaced(coordinate_transformation_mode=taken, nearest_mode=nearest)]


def constant_without_value(node: Node, _: Context) -> Outcome:
    """A scalar without data; its number here is one that no result survives."""
    [output] = node.proto.output
    return None if "value" in node.attributes else [node.constant(output, np.float32("nan"))]


# -- indices


def gather_nd_batches(node: Node, _: Context) -> Outcome:
    return "only support batch_dims=0" if node.attributes.get("batch_dims", 0) else None


def scatter_nd_of_ops_math(node: Node, context: Context) -> Outcome:
    """The library of ops-math is loaded first."""
    lost = context.first == "ops-math" and node.attributes.get("reduction", b"none") != b"none"
    return [node.replaced(reduction=None)] if lost else None


def scatter_nd_of_ops_nn(node: Node, context: Context) -> Outcome:
    """The library of ops-nn is loaded first."""
    multiplies = context.first == "ops-nn" and node.attributes.get("reduction") == b"mul"
    return "reduction mul is not supported" if multiplies else None


def last_index(node: Node, _: Context) -> Outcome:
    return "Only support select_last_index=0" if node.attributes.get("select_last_index") == 1 else None


def narrow_result(position: int) -> Rule:
    """Return a rule by which a result of a node is int32."""

    def apply(node: Node, _: Context) -> Outcome:
        if len(node.proto.output) <= position or not node.proto.output[position]:
            return None
        wide = node.inner("int64")
        changed, narrow = node.replaced(), node.proto.output[position]
        changed.output[position] = wide
        return [changed, node.made("Cast", [wide], [narrow], to=TensorProto.INT32)]

    return apply


def arg_min(node: Node, context: Context) -> Outcome:
    return None if context.soc == "ascend950" else narrow_result(0)(node, context)


# -- arithmetic


def mod_truncates(node: Node, _: Context) -> Outcome:
    """The kernel is C's fmod for reals, and the remainder of a truncated quotient for integers."""
    return None if node.attributes.get("fmod") else [node.replaced(fmod=1)]


def random_type(node: Node, _: Context) -> Outcome:
    dtype = node.attributes.get("dtype", TensorProto.FLOAT)
    return None if dtype in RANDOM_TYPES else f"output dtype {dtype} is not supported"
