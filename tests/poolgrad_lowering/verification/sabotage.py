# SPDX-License-Identifier: Apache-2.0

"""Deliberate miscompilations: edits of lowered models that a verification has to notice, and where it has to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper

from models import catalogue
from poolgrad_lowering import lower
from tests.pool_graphs import parse

Edit = Callable[[ModelProto], None]

TWINS = parse(
    """g (float[2,3,6,6] a, float[2,3,6,6] b, float[2,3,3,3] da, float[2,3,3,3] db)
        => (float[2,3,6,6] one, float[2,3,6,6] two) {
        ya, ia = MaxPool <kernel_shape=[2,2], strides=[2,2]> (a)
        yb, ib = MaxPool <kernel_shape=[2,2], strides=[2,2]> (b)
        one = MaxPoolGrad (da, ia)
        two = MaxPoolGrad (db, ib)
    }"""
)
"""Two gradients of the same shapes, each of a pool of its own."""


@dataclass(frozen=True)
class Sabotage:
    """An edit of a lowered model. `site` is the one that has to be named; without one, `says` is found elsewhere."""

    base: str
    edit: Edit
    says: str
    site: str | None = None


@cache
def base(name: str) -> tuple[bytes, bytes]:
    """An original and its lowered model, serialised."""
    source, target, forward = {
        "gradients": ("torch/nested", "atlas-a2", False),
        "pools": ("torch/nested", "atlas-a2", True),
        "planar": ("torch/nested", "ascend950", False),
        "twins": ("", "atlas-a2", False),
    }[name]
    model = onnx.load(catalogue.entry(source).file) if source else TWINS
    return model.SerializeToString(), lower(model, target=target, forward=forward).model.SerializeToString()


def models(name: str) -> tuple[ModelProto, ModelProto]:
    """The same as models of their own."""
    original, lowered = ModelProto(), ModelProto()
    original.ParseFromString(base(name)[0])
    lowered.ParseFromString(base(name)[1])
    return original, lowered


def node_of(model: ModelProto, name: str) -> NodeProto:
    """The node that makes a value, or has a name."""
    return next(node for node in model.graph.node if name in (*node.output, node.name))


def gradient_of(model: ModelProto, name: str) -> NodeProto:
    return node_of(model, f"{name}/MaxPool3DGradWithArgmax")


# -- edits


def attributes(node: str, **values: object) -> Edit:
    def edit(model: ModelProto) -> None:
        changed = node_of(model, node)
        kept = [attribute for attribute in changed.attribute if attribute.name not in values]
        del changed.attribute[:]
        changed.attribute.extend([*kept, *(helper.make_attribute(name, held) for name, held in values.items())])

    return edit


def inputs(node: str, *names: str) -> Edit:
    def edit(model: ModelProto) -> None:
        changed = node_of(model, node)
        del changed.input[:]
        changed.input.extend(names)

    return edit


def both(*edits: Edit) -> Edit:
    def edit(model: ModelProto) -> None:
        for each in edits:
            each(model)

    return edit


def inserted(before: str, op_type: str, reads: list[str], makes: list[str], **held: object) -> Edit:
    def edit(model: ModelProto) -> None:
        position = list(model.graph.node).index(node_of(model, before))
        model.graph.node.insert(position, helper.make_node(op_type, reads, makes, f"new {op_type}", **held))

    return edit


def deleted(node: str) -> Edit:
    return lambda model: model.graph.node.remove(node_of(model, node))


def output(node: str, position: int, name: str) -> Edit:
    def edit(model: ModelProto) -> None:
        node_of(model, node).output[position] = name

    return edit


def off_by_one(model: ModelProto) -> None:
    inserted("scatter_add/argmax", "Constant", [], ["one"], value_int=1)(model)
    inserted("scatter_add/argmax", "Add", ["getitem_5", "one"], ["shifted"])(model)
    inputs("scatter_add/argmax", "shifted")(model)


def in_body(op: str, op_type: str, change: Callable[[NodeProto], None]) -> Edit:
    def edit(model: ModelProto) -> None:
        body = next(held for held in model.functions if held.name == op)
        change([node for node in body.node if node.op_type == op_type][-1])

    return edit


def without_attribute(name: str) -> Callable[[NodeProto], None]:
    def change(node: NodeProto) -> None:
        node.attribute.remove(next(held for held in node.attribute if held.name == name))

    return change


def changed_weight(model: ModelProto) -> None:
    tensor = next(held for held in model.graph.initializer if held.name == "body_0_weight")
    tensor.raw_data = bytes([tensor.raw_data[0] ^ 1]) + tensor.raw_data[1:]


def stale_value_info(model: ModelProto) -> None:
    model.graph.value_info.append(helper.make_tensor_value_info("view_7", TensorProto.FLOAT, [8, 48]))


def stretched_gradient(model: ModelProto) -> None:
    shape = node_of(model, "scatter_add_1/grad_shape").attribute[0].t
    shape.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(shape)[[0, 1, 3, 2]]))


def swapped_nodes(model: ModelProto) -> None:
    nodes = list(model.graph.node)
    first = nodes.index(node_of(model, "transpose"))
    nodes[first], nodes[first + 1] = nodes[first + 1], nodes[first]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def renamed_everywhere(model: ModelProto) -> None:
    output("view_8/MaxPool3DGradWithArgmax", 0, "dx")(model)
    inputs("where", "le", "scalar_tensor_default", "dx")(model)


def function(name: str) -> Edit:
    def edit(model: ModelProto) -> None:
        model.functions.add(name=name, domain="npu").opset_import.extend(model.opset_import)

    return edit


WINDOWS = "outside of the window"
ELEMENTS = "elements differ"

SABOTAGES = {
    # what a site computes
    "ksize": Sabotage(
        "gradients", attributes("view_8/MaxPool3DGradWithArgmax", ksize=[1, 4, 4]), "windows", "main:scatter_add_2"
    ),
    "windows that no longer hold the maxima": Sabotage(
        "gradients", attributes("scatter_add/MaxPool3DGradWithArgmax", ksize=[1, 1, 1], pads=[0, 0, 0]), WINDOWS,
        "main:scatter_add"),
    "x and grad swapped": Sabotage(
        "gradients", inputs("view_8/MaxPool3DGradWithArgmax", "view_8/grad", "relu", "view_8/argmax"),
        "does not run|the shape is", "main:scatter_add_2"),
    "an input too few": Sabotage(
        "gradients", inputs("view_8/MaxPool3DGradWithArgmax", "relu", "view_8/grad"), "does not run|inputs",
        "main:scatter_add_2"),
    "argmax off by one": Sabotage("gradients", off_by_one, "does not run: indices range from 1", "main:scatter_add"),
    "a cast too few": Sabotage(
        "planar", inputs("view_8/MaxPoolGradWithArgmaxV3", "relu", "view_8/grad", "getitem_1"), "int64",
        "main:scatter_add_2"),
    "sums that are lost": Sabotage(
        "gradients", in_body("MaxPool3DGradWithArgmax", "ScatterElements", without_attribute("reduction")), ELEMENTS,
        "main:scatter_add"),
    "a pool's ksize": Sabotage(
        "pools", attributes("getitem_4/MaxPool3DWithArgmaxV2", ksize=[1, 1, 1], pads=[0, 0, 0]),
        "contradict each other", "main:scatter_add"),
    "a gradient reshaped to another shape": Sabotage(
        "gradients", stretched_gradient, "shape|run", "main:scatter_add_1"
    ),
    "gradients of two sites swapped": Sabotage(
        "twins",
        both(
            inputs("one/MaxPool3DGradWithArgmax", "a", "db", "one/argmax"),
            inputs("two/MaxPool3DGradWithArgmax", "b", "da", "two/argmax"),
        ),
        ELEMENTS,
        "main:one",
    ),
    # what is outside the sites
    "a node that is still read": Sabotage("gradients", deleted("le"), "uses 'le', which no node"),
    "a node that makes an output": Sabotage("gradients", deleted("mean"), "no node defines the output 'mean'"),
    "a node more": Sabotage("gradients", inserted("le", "Neg", ["relu"], ["new"]), "0 removed and 1 added"),
    "an attribute of another node": Sabotage(
        "gradients", attributes("sum_1", keepdims=1), "1 removed and 1 added nodes at 'sum_1'"
    ),
    "a value made twice": Sabotage(
        "gradients", inserted("le", "Neg", ["relu"], ["convolution"]), "defines 'convolution' a second time"
    ),
    "nodes in another order": Sabotage("gradients", swapped_nodes, "which it followed"),
    "a byte of an initializer": Sabotage("gradients", changed_weight, "initializer 'body_0_weight' is changed"),
    "an initializer too few": Sabotage(
        "gradients", lambda model: _remove(model.graph.initializer, "val_21"), "initializer 'val_21' is gone"
    ),
    "an initializer more": Sabotage(
        "gradients", lambda model: model.graph.initializer.append(TensorProto(name="new", data_type=1, dims=[0])),
        "initializer 'new' is new"),
    "a result renamed everywhere": Sabotage(
        "gradients", renamed_everywhere, "value_info 'view_8' describes a value that was removed"
    ),
    "a stale value_info": Sabotage("gradients", stale_value_info, "value_info 'view_7' describes a value that was"),
    "a value_info too few": Sabotage(
        "gradients", lambda model: _remove(model.graph.value_info, "le"), "value_info 'le' is gone"
    ),
    "a shape": Sabotage(
        "gradients", lambda model: _widen(model.graph.input[0]), "main: field 'input' differs|field 'input' differs"
    ),
    "no import of the dialect": Sabotage(
        "gradients", lambda model: model.opset_import.pop(), "the imported operator sets"
    ),
    "a function that nobody calls": Sabotage("gradients", function("AdaptiveMaxPool3d"), "nothing calls it"),
    "a body for somebody else's operator": Sabotage(
        "gradients", function("NPUMaxPool2dWithIndicesBackward"), "not an operator of the dialect"
    ),
    "a comment": Sabotage("gradients", lambda model: setattr(model, "doc_string", "x"), "field 'doc_string' differs"),
}  # fmt: skip

HARMLESS = {
    "provenance on a new node": Sabotage(
        "gradients", lambda model: _note(node_of(model, "view_8/MaxPool3DGradWithArgmax")), ""
    ),
}


def _remove(entries: object, name: str) -> None:
    entries.remove(next(entry for entry in entries if entry.name == name))  # type: ignore[attr-defined]


def _widen(value: onnx.ValueInfoProto) -> None:
    value.type.tensor_type.shape.dim[0].dim_value += 1


def _note(node: NodeProto) -> None:
    node.metadata_props.add(key="k", value="v")
