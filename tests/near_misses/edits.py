# SPDX-License-Identifier: Apache-2.0

"""Every model that differs from a given one in one place: an input, an attribute, a constant, an operator, a shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    ValueInfoProto,
    helper,
    numpy_helper,
    shape_inference,
)

Edit = Callable[[ModelProto], None]
_TEXTS = {b"NOTSET": b"VALID", b"add": b"none", b"none": b"add", b"SAME_UPPER": b"SAME_LOWER"}
_TEXTS_OTHERWISE = b"other"


def edited(model: ModelProto, edit: Edit) -> ModelProto:
    """A copy with an edit; nothing says that onnx accepts it."""
    copy = ModelProto()
    copy.CopyFrom(model)
    edit(copy)
    return copy


def edits(model: ModelProto) -> Iterator[tuple[str, Edit]]:
    """Each edit with its name."""
    types = _element_types(model)
    for number, node in enumerate(model.graph.node):
        for what, edit in _node_edits(node, number, types):
            yield f"node {number} ({node.op_type}): {what}", edit
    for number, tensor in enumerate(model.graph.initializer):
        for what, tensor_edit in _tensor_edits(tensor):
            yield f"initializer {tensor.name}: {what}", partial(_of_initializer, number, tensor_edit)
    for field in ("input", "value_info", "output"):
        for number, value in enumerate(getattr(model.graph, field)):
            for what, shape_edit in _shape_edits(value):
                yield f"{field} {value.name}: {what}", partial(_of_value, field, number, shape_edit)
    for number in range(len(model.graph.output)):
        yield f"output {number} left out", partial(_drop_output, number)


def _element_types(model: ModelProto) -> dict[str, int]:
    """The element types by the names of values, as far as onnx infers them."""
    graph = shape_inference.infer_shapes(model).graph
    values = [*graph.input, *graph.value_info, *graph.output]
    found = {value.name: value.type.tensor_type.elem_type for value in values}
    return found | {tensor.name: tensor.data_type for tensor in graph.initializer}


def _node_edits(node: NodeProto, number: int, types: dict[str, int]) -> Iterator[tuple[str, Edit]]:
    for place, name in enumerate(node.input):
        if name:
            kind = types.get(name) or TensorProto.FLOAT
            yield f"input {place} is an input of the model", partial(_feed, number, place, kind)
            yield f"input {place} left out", partial(_empty_input, number, place)
    for place, name in enumerate(node.output):
        if name:
            yield f"output {place} is an output of the model", partial(_side_output, name, types.get(name) or 1)
    for place, attribute in enumerate(node.attribute):
        yield f"{attribute.name} left out", partial(_drop_attribute, number, place)
        for what, edit in _attribute_edits(attribute):
            yield f"{attribute.name}: {what}", partial(_of_attribute, number, place, edit)
    yield "another operator", partial(_rename, number)


def _attribute_edits(attribute: AttributeProto) -> Iterator[tuple[str, Callable[[AttributeProto], None]]]:
    kind = attribute.type
    if kind == AttributeProto.INT:
        yield "one more", lambda held: setattr(held, "i", held.i + 1)
        yield "one less", lambda held: setattr(held, "i", held.i - 1)
    elif kind == AttributeProto.FLOAT:
        yield "one more", lambda held: setattr(held, "f", held.f + 1)
    elif kind == AttributeProto.STRING:
        yield "another text", lambda held: setattr(held, "s", _TEXTS.get(held.s, _TEXTS_OTHERWISE))
    elif kind == AttributeProto.INTS:
        yield "appended to", lambda held: held.ints.append(1)
        for place in range(len(attribute.ints)):
            yield f"{place} is one more", partial(_add_to, place, 1)
            yield f"{place} is one less", partial(_add_to, place, -1)
    elif kind == AttributeProto.TENSOR:
        for what, edit in _tensor_edits(attribute.t):
            yield what, partial(_of_tensor, edit)


def _tensor_edits(tensor: TensorProto) -> Iterator[tuple[str, Callable[[TensorProto], None]]]:
    array = numpy_helper.to_array(tensor)
    if array.size and array.dtype.kind in "iufb":
        for place in sorted({0, array.size // 2, array.size - 1}):
            yield f"element {place} is another", partial(_another_element, place)
    if array.dtype.kind in "iub":
        yield "with an axis more", lambda held: held.CopyFrom(numpy_helper.from_array(array[None], held.name))
        yield (
            "of another type",
            lambda held: held.CopyFrom(numpy_helper.from_array(array.astype(np.float32), held.name)),
        )


def _another_element(place: int, tensor: TensorProto) -> None:
    array = numpy_helper.to_array(tensor).copy()
    flat = array.reshape(-1)
    flat[place] = not flat[place] if array.dtype == np.bool_ else flat[place] + array.dtype.type(1)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _shape_edits(value: ValueInfoProto) -> Iterator[tuple[str, Callable[[ValueInfoProto], None]]]:
    if not value.type.tensor_type.HasField("shape"):
        return
    yield "no shape", lambda held: held.type.tensor_type.ClearField("shape")
    for place, dim in enumerate(value.type.tensor_type.shape.dim):
        yield f"dim {place} has a name", partial(_name_dim, place)
        if dim.HasField("dim_value"):
            yield f"dim {place} is one more", partial(_grow_dim, place)


def _dim(value: ValueInfoProto, place: int) -> TensorShapeProto.Dimension:
    return value.type.tensor_type.shape.dim[place]


def _name_dim(place: int, value: ValueInfoProto) -> None:
    _dim(value, place).dim_param = "other"


def _grow_dim(place: int, value: ValueInfoProto) -> None:
    _dim(value, place).dim_value += 1


def _feed(number: int, place: int, kind: int, model: ModelProto) -> None:
    model.graph.node[number].input[place] = "fed"
    model.graph.input.append(helper.make_tensor_value_info("fed", kind, None))


def _empty_input(number: int, place: int, model: ModelProto) -> None:
    node = model.graph.node[number]
    if place == len(node.input) - 1:
        del node.input[place]
    else:
        node.input[place] = ""


def _side_output(name: str, kind: int, model: ModelProto) -> None:
    if all(output.name != name for output in model.graph.output):
        model.graph.output.append(helper.make_tensor_value_info(name, kind, None))


def _drop_output(number: int, model: ModelProto) -> None:
    del model.graph.output[number]


def _drop_attribute(number: int, place: int, model: ModelProto) -> None:
    del model.graph.node[number].attribute[place]


def _rename(number: int, model: ModelProto) -> None:
    node = model.graph.node[number]
    node.op_type = "Other"
    node.domain = "other"
    model.opset_import.append(helper.make_opsetid("other", 1))


def _of_attribute(number: int, place: int, edit: Callable[[AttributeProto], None], model: ModelProto) -> None:
    edit(model.graph.node[number].attribute[place])


def _of_tensor(edit: Callable[[TensorProto], None], attribute: AttributeProto) -> None:
    edit(attribute.t)


def _of_initializer(number: int, edit: Callable[[TensorProto], None], model: ModelProto) -> None:
    edit(model.graph.initializer[number])


def _of_value(field: str, number: int, edit: Callable[[ValueInfoProto], None], model: ModelProto) -> None:
    edit(getattr(model.graph, field)[number])


def _add_to(place: int, step: int, attribute: AttributeProto) -> None:
    attribute.ints[place] += step
