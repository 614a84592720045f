# SPDX-License-Identifier: Apache-2.0

"""Joins the training model and the optimizer model of onnxruntime's artifacts to one model of a step.

The step has the inputs `weight.<parameter>`, `state.<slot>.<parameter>`, `state.steps` and `learning_rate` beside those
of the batch, and the outputs `loss`, `new_weight.<parameter>` and `new_state.<…>`, as the steps that
`poolgrad_lowering.torch` exports.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping

from onnx import NodeProto, TensorProto, TypeProto, helper

from poolgrad_lowering.model import scalar_axes
from poolgrad_lowering.model.diagnostics.errors import FileError
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import is_opaque
from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.model.ir.dims import Dim, Shape, Shown, is_static, size
from poolgrad_lowering.model.ir.graphs import opset_of, remove_entries, rename
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Scope, Value
from poolgrad_lowering.standard.artifact_graphs import Update, declare
from poolgrad_lowering.standard.inline import Inliner
from poolgrad_lowering.standard.update_writer import Array, UpdateWriter, claim, tensors_of

NEWEST_IR_VERSION = 10
"""The newest IR version that onnxruntime 1.18 loads, the first release that runs steps."""
_SHAPED = ("ConstantOfShape", "Expand", "Reshape")
"""The operators whose results have a shape that is an operand."""
_GRADIENT = re.compile(r"(.+)_grad(?:_\d+)?")
"""The name of a value's gradient, or of one that is added to others."""


def join_step(
    index: ModelIndex,
    gradients: Mapping[str, str],
    frozen: Collection[str],
    update: Update | None,
    *,
    accumulate: bool = False,
) -> dict[str, Array]:
    """Append the updates to a training model without accumulators, and name its inputs and outputs; in place.

    `index` is the model's, and not valid afterwards. Returns the first values of the state. Without an `update` the
    outputs are the gradients. With `accumulate` the step has an input `update`: where it is false, the gradients are
    only added to those of the steps before.
    """
    model, taken, graph = index.model, index.names(), index.model.graph
    of_gradients = _shapes_of_gradients(index, gradients)
    declared = {value.name: value.type.tensor_type for value in graph.input}
    shapes = {name: _weight_shape(name, declared[name]) for name in gradients}
    model.ir_version = min(model.ir_version, NEWEST_IR_VERSION)
    renamed = {name: names.weight(name) for name in (*gradients, *frozen) if name in declared}
    renamed[graph.output[0].name] = names.LOSS
    reserved = {name for name in taken if name not in renamed}
    for name in renamed.values():
        claim(name, reserved)
    rename(graph, renamed)
    found = {name: renamed.get(gradient, gradient) for name, gradient in gradients.items()}
    inliner = Inliner(graph, opset_of(model), taken)
    for name, known in of_gradients.items():
        if known is None or not is_static(known):  # a graph engine has to know the ranks of operands
            gradient, found[name] = tensors_of({"": found[name]})[""], f"update/{name}/known"
            graph.node.extend(inliner.nodes(f"update/{name}", {found[name]: gradient.reshape(shapes[name])}))
    if update is None:
        for name, shape in shapes.items():
            result = names.gradient(name)
            claim(result, reserved)
            graph.node.append(helper.make_node("Identity", [found[name]], [result], name=f"grad/{name}"))
            graph.output.append(helper.make_tensor_value_info(result, TensorProto.FLOAT, shape))
        return {}
    writer = UpdateWriter(graph, inliner, update, reserved, accumulate=accumulate)
    writer.write(shapes, found)
    return writer.state


def declare_sizes(index: ModelIndex, facts: Facts) -> None:
    """Declare sizes that follow from those of inputs, where onnx's inference does not tell them; both stay valid.

    onnx makes up names for sizes, outputs have the names that torch's exporter gave their sizes, and what a shape is
    computed for may have no declaration. `verify` believes one where it cannot infer a size itself.
    """
    scope, graph = index.scopes[0], index.model.graph
    values = (*graph.input, *graph.output, *graph.value_info)
    declared = {value.name for value in values if value.type.tensor_type.HasField("shape")}
    measured = [node.input[0] for node in graph.node if node.op_type == "Shape"]
    computed = [node for node in graph.node if node.op_type in _SHAPED and not _is_constant(facts, scope, node)]
    names = [*measured, *(node.output[0] for node in computed)]
    found = {name: scope.resolve(name) for name in names if name not in declared}
    types = {name: (facts.element_type(value), facts.shape(value)) for name, value in found.items()}
    known = {name: (element, shape) for name, (element, shape) in types.items() if element and shape is not None}
    remove_entries(graph.value_info, lambda entry: entry.name in known)
    for name, (element, shape) in known.items():
        graph.value_info.append(helper.make_tensor_value_info(name, element, [None] * len(shape)))
    for entry in graph.value_info:
        sizes = entry.type.tensor_type.shape.dim
        symbolic = [axis for axis, size in enumerate(sizes) if not size.HasField("dim_value")]
        own = (facts.shape(scope.resolve(entry.name)) if symbolic else None) or ()
        for axis in symbolic if len(own) == len(sizes) else ():
            if not is_opaque(own[axis]):
                declare(sizes[axis], own[axis])


def _is_constant(facts: Facts, scope: Scope, node: NodeProto) -> bool:
    """Whether the shape that a node gives its result, its last operand, is a constant."""
    return facts.constant(scope.resolve(node.input[-1])) is not None


def give_axes(index: ModelIndex, facts: Facts) -> None:
    """Let the scalars of a step have axes where they are faster so (`model.scalar_axes`); `index` is the step's."""
    scope = index.scopes[0]

    def sizes(name: str) -> list[int] | None:
        shape = facts.shape(Value(scope, name))
        return None if shape is None else [dim.static or 0 for dim in shape]

    scalar_axes.give_axes(index.model.graph, sizes)


def _weight_shape(name: str, declared: TypeProto.Tensor) -> list[int]:
    """Return the shape of a parameter; raises `FileError` if it is no float32 tensor of known sizes."""
    if declared.elem_type != TensorProto.FLOAT or not all(dim.HasField("dim_value") for dim in declared.shape.dim):
        raise FileError(
            f"the parameter '{name}' is no float32 tensor of known sizes, which a step needs: keep weights in "
            "float32, and let the model cast them to 16 bits"
        )
    return [dim.dim_value for dim in declared.shape.dim]


def _shapes_of_gradients(index: ModelIndex, gradients: Mapping[str, str]) -> dict[str, Shape | None]:
    """Return the shapes of the gradients of parameters.

    Raises `FileError` if the gradient of a parameter or of another value has another shape, by what is known of both.
    """
    facts, scope = Facts(index), index.scopes[0]
    made = (name for node in index.model.graph.node for name in node.output)
    every = {name: found[1] for name in made if (found := _GRADIENT.fullmatch(name))}
    every |= {gradient: name for name, gradient in gradients.items()}
    shapes = {name: facts.shape(Value(scope, name)) for name in every}
    for gradient, value in every.items():
        own, known = facts.shape(Value(scope, value)), shapes[gradient]
        if own is not None and known is not None and _has_other_shape(known, own):
            why = (
                "leaves out the parts of a Split that nothing reads: use Slice, or read them all"
                if size(known).coefficient < size(own).coefficient
                else "sums no gradient of what a Where broadcasts, nor of other operands whose sizes it does not know: "
                "give them the shape of the result by Expand, and sizes as numbers"
            )
            text = f"has shape {_shown(known)}, the value {_shown(own)}"
            raise FileError(f"the gradient of '{value}' {text}; generate_artifacts {why}")
    return {name: shapes[gradient] for name, gradient in gradients.items()}


def _shown(shape: Shape) -> Shown:
    """Return the shape as text, with a question mark for each size that is not known."""
    return Shown(tuple(Dim(1, ("?",)) if is_opaque(dim) else dim for dim in shape))


def _has_other_shape(gradient: Shape, own: Shape) -> bool:
    """Whether a gradient has another number of elements than its value, by what is known of their sizes."""
    elements, own_elements = size(gradient), size(own)
    if elements.symbols == own_elements.symbols:
        return elements.coefficient != own_elements.coefficient
    sizes = zip(reversed(gradient), itertools.chain(reversed(own), itertools.repeat(Dim(1))), strict=False)
    return any(one.static == 1 and dim.static is None and not is_opaque(dim) for dim, one in sizes)
