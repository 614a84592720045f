# SPDX-License-Identifier: Apache-2.0

"""Element types and shapes of a unit's values, as the model declares and onnx infers them.

A dimension is a number, a symbol's name, or None if it is not known.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import onnx
from google.protobuf.message import EncodeError
from onnx import AttributeProto, ModelProto, TensorProto, ValueInfoProto
from onnx.defs import OpSchema

from poolgrad_lowering.model.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.verification.graph import protos, roles
from poolgrad_lowering.verification.graph.flat import MAIN, FlatNode, Unit, main_unit

logger = logging.getLogger(__name__)

AxisSize = int | str | None
HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_MOST_FUNCTIONS = 1 << 11
"""Inference takes time in proportion to the functions for each call of one. Nothing is inferred of calls of others."""


class TensorType(NamedTuple):
    """The type of a tensor: `element` is a `TensorProto.DataType`; `dims` is None if the rank is not known.

    `claimed`: the element type follows from declarations alone that no runtime checks.
    """

    element: int
    dims: tuple[AxisSize, ...] | None
    claimed: bool = False


TensorTypes = Mapping[str, TensorType]
"""The types of values by name."""


def known_sizes(dims: Sequence[AxisSize]) -> list[int] | None:
    """Return the sizes if all are known numbers."""
    sizes = [size for size in dims if isinstance(size, int)]
    return sizes if len(sizes) == len(dims) else None


def is_open(size: AxisSize) -> bool:
    """Whether a size is not known, or has only a name that inference made for it."""
    return size is None or (isinstance(size, str) and size.startswith(_OPEN))


def factors_of(size: AxisSize) -> list[AxisSize]:
    """Return the number and the names that a size such as 4*N is the product of; a size that is no product alone."""
    parts = str(size).split("*")
    if not isinstance(size, str) or not all(part.strip().isidentifier() or part.strip().isdigit() for part in parts):
        return [size]
    number = math.prod(int(part) for part in parts if part.strip().isdigit())
    names: list[AxisSize] = [*sorted(part.strip() for part in parts if not part.strip().isdigit())]
    return [number, *names] if number != 1 else names


def multiple_of(size: AxisSize, part: AxisSize) -> int | None:
    """Return how many times another size a symbolic size is; None if it is no such multiple, or not known."""
    (number, names), (least, others) = (
        (math.prod(of for of in factors if isinstance(of, int)), [of for of in factors if isinstance(of, str)])
        for factors in map(factors_of, (size, part))
    )
    return number // least if names and names == others and least and number % least == 0 else None


def rank_of(value: str, types: TensorTypes) -> int | None:
    """Return the rank of a value, None if it is not known."""
    known = types.get(value)
    return None if known is None or known.dims is None else len(known.dims)


_OPEN = "unk__"
"""What the names begin with that inference gives to sizes of which it does not know one."""


def tensor_types(model: ModelProto, unit: Unit | None = None) -> dict[str, TensorType]:
    """Return the types of the values of the main graph and its subgraphs, by their names in `main_unit`.

    `unit`: the main graph as a unit, if there is one already.

    What ONNX's operators compute takes precedence over what the model declares of it, which may be false; declared
    sizes, and those that follow from them, stand for what inference does not know. Behind an operator that ONNX does
    not have, element types follow from the operators around a value.
    """
    known: dict[str, TensorType] = {}
    unit = unit or main_unit(model)
    named: dict[AxisSize, AxisSize] = {}
    for number, source in enumerate(_sources(_without_weights(model))):
        graphs = [source.graph, *protos.graphs_below(source.graph.node)]
        for path, graph in zip(unit.scopes, graphs, strict=True):
            prefix = "" if path == MAIN else f"{path}: "
            for value in (*graph.input, *graph.output, *graph.value_info):
                _learn(known, named, prefix + value.name, value, number)
        for name, tensor in unit.constants.items():
            known.setdefault(name, TensorType(tensor.data_type, tuple(tensor.dims)))
    for name, found in known.items():
        if found.dims is not None and not named.keys().isdisjoint(found.dims):
            known[name] = found._replace(dims=tuple(named.get(size, size) for size in found.dims))
    elements = {name: found.element for name, found in known.items()}
    anew = {function.name for function in model.functions if function.domain in _ONNX_DOMAINS}
    nodes = [node for node in unit.nodes if node.op[0] or node.op[1] not in anew]
    around = elements_around(nodes, elements, protos.default_opset(model))
    return known | {name: TensorType(element, None) for name, element in around.items()}


def function_types(model: ModelProto, unit: Unit) -> dict[str, TensorType]:
    """Return the types of a function that is a main graph, whose `value_info` no runtime checks; `unit` is that graph.

    The results of pools and gradients that onnx does not know have the element types of these.
    """
    bare = deepcopy(model)
    bare.graph.ClearField("value_info")
    computed = tensor_types(bare, unit)
    return {
        name: found._replace(element=computed[name].element) if name in computed else found._replace(claimed=True)
        for name, found in tensor_types(model, unit).items()
    }


def _without_weights(model: ModelProto) -> ModelProto:
    """Return a copy without what makes inference slow: weights, and functions beyond a number."""
    made = protos.without_weights(model)
    functions = sorted(model.functions, key=lambda function: not is_of_onnx(function.domain, function.name))
    made.functions.extend(functions[:_MOST_FUNCTIONS])
    return made


def _sources(model: ModelProto) -> tuple[ModelProto, ...]:
    """Return the model, what onnx infers with its claims, and what it infers without them.

    Where two have different numbers for a size, the later one counts.

    Where the model defines an operator of ONNX anew, the last is left out: onnx takes its own.
    """
    anew = any(is_of_onnx(function.domain, function.name) for function in model.functions)
    if not anew:
        _flatten_columns(model)
    declared = (model, _inferred(model), *map(_inferred, _without_open_sizes(model)))
    if anew:
        return declared
    return *declared, _inferred(_with_counted_windows(without_claims(model)))


def _without_open_sizes(model: ModelProto) -> list[ModelProto]:
    """Return a copy without the names that an inference before made for sizes; none if there are no such names."""
    copied = deepcopy(model)
    dims = [
        dim
        for value in (*copied.graph.value_info, *copied.graph.output)
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param.startswith(_OPEN)
    ]
    for dim in dims:
        dim.Clear()
    return [copied] if dims else []


def _flatten_columns(model: ModelProto) -> None:
    """Replace Reshapes that flatten vectors side by side by Gathers, in place.

    onnx does not follow sizes through matrices. onnxruntime's gradient of Tile has repeats and sizes in one.
    """
    made = {name: node for node in model.graph.node for name in node.output if is_of_onnx(node.domain, node.op_type)}
    given = {value.name for value in model.graph.input}
    whole = {t.name for t in model.graph.initializer if t.name not in given and protos.integers(t) == [-1]}
    matrices: dict[str, list[str]] = {}
    for node in made.values():
        matrix = made.get(node.input[0]) if node.op_type == "Reshape" and whole.intersection(node.input[1:]) else None
        if matrix is not None and matrix.op_type == "Concat" and protos.attribute_values(matrix).get("axis") in (1, -1):
            columns = [made.get(name) for name in matrix.input]
            unsqueezed = [column for column in columns if column is not None and column.op_type == "Unsqueeze"]
            vectors = [name for column in unsqueezed for name in column.input[:1]]
            if len(vectors) == len(columns):
                matrices[node.output[0]] = vectors
    if not matrices:
        return
    inferred = _inferred(without_claims(model)).graph.value_info
    shapes = {value.name: [_dim(dim) for dim in value.type.tensor_type.shape.dim] for value in inferred}
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        vectors = matrices.get(next(iter(node.output), ""), [])
        sizes = known_sizes(shapes.get(node.input[0], [])) if vectors else None
        if sizes is None or sizes[1:] != [len(vectors)]:
            nodes.append(node)
            continue
        flat, order = (f"{node.output[0]} ({part})" for part in ("columns", "order"))
        places = np.arange(math.prod(sizes)).reshape(sizes[::-1]).T.reshape(-1)
        model.graph.initializer.append(onnx.numpy_helper.from_array(places, order))
        nodes.append(onnx.helper.make_node("Concat", vectors, [flat], axis=0))
        nodes.append(onnx.helper.make_node("Gather", [flat, order], node.output))
    protos.replace_entries(model.graph, "node", nodes)


def value_info(name: str, found: TensorType | None) -> ValueInfoProto:
    """Return the declaration of a value for a model, without a type if none is known."""
    if found is None:
        return ValueInfoProto(name=name)
    return onnx.helper.make_tensor_value_info(name, found.element, found.dims)


def _learn(
    known: dict[str, TensorType], named: dict[AxisSize, AxisSize], name: str, value: ValueInfoProto, source: int
) -> None:
    """Add what a source has of a value. `named` gets a name in the model for each that an inference has made."""
    tensor = value.type.tensor_type
    if not tensor.elem_type:
        return
    dims = tuple(_dim(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    if dims is not None and source > 1:  # they stand for other sizes than those of the first two
        dims = tuple(f"{size}_{source}" if size is not None and is_open(size) else size for size in dims)
    before = known.get(name)
    if before is not None and before.dims is not None:
        if dims is None or dims == before.dims:
            return
        if len(dims) == len(before.dims):
            pairs = list(zip(before.dims, dims, strict=True))
            both = [(one, truer) for one, truer in pairs if isinstance(one, str) and isinstance(truer, str)]
            named.update((one, truer) for one, truer in both if is_open(one) and not is_open(truer))
            dims = tuple(truer if known is None or isinstance(truer, int) else known for known, truer in pairs)
    known[name] = TensorType(before.element if before else tensor.elem_type, dims)


def _dim(dim: onnx.TensorShapeProto.Dimension) -> AxisSize:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param if dim.dim_param and isinstance(dim.dim_param, str) else None


def _inferred(model: ModelProto) -> ModelProto:
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (*ONNX_ERRORS, EncodeError) as error:
        logger.info("onnx cannot infer shapes: %s", error)
        return model


_ONNX_DOMAINS = (onnx.defs.ONNX_DOMAIN, "ai.onnx", onnx.defs.ONNX_ML_DOMAIN)


_COUNTED = """
<domain: "poolgrad_lowering.inference", opset_import: ["": 22]>
MaxPool <kernel_shape, strides, pads, dilations> (x) => (y, indices) {
    y, indices = MaxPool <ceil_mode = 1, kernel_shape: ints = @kernel_shape, strides: ints = @strides,
        pads: ints = @pads, dilations: ints = @dilations> (x)
}
"""
"""A MaxPool that rounds up, of the version from which on inference leaves out the windows that runtimes drop."""


def _with_counted_windows(model: ModelProto) -> ModelProto:
    """Replace the MaxPools of a model with `ceil_mode` and explicit pads by calls of `_COUNTED`; return the model."""
    function = onnx.parser.parse_function(_COUNTED)
    model.functions.append(function)
    model.opset_import.add(domain=function.domain, version=1)
    for node in model.graph.node:
        values = protos.attribute_values(node) if node.op_type == "MaxPool" and node.domain in ("", "ai.onnx") else {}
        if values.get("ceil_mode") and values.get("auto_pad", b"NOTSET") == b"NOTSET":
            node.domain, node.output[:] = function.domain, [*node.output, ""][:2]
    return model


def is_of_onnx(domain: str, op_type: str) -> bool:
    """Whether ONNX itself has the operator; the process may have registered others."""
    domain = "" if domain == "ai.onnx" else domain
    return domain in _ONNX_DOMAINS and onnx.defs.has(op_type, domain)


def without_claims(model: ModelProto) -> ModelProto:
    """Return a copy without the shapes declared of what ONNX's operators compute: they may be false.

    Nor has it declarations of names that no node of the main graph makes: onnx infers nothing of these in branches. Nor
    has it the bounds of Slices: inference ends the process where one is of a negative size, which a window larger than
    its input makes, and which a claim may have hidden; nor pads that runtimes ignore beside `auto_pad`. Subgraphs stay,
    also those of operators of other domains with these names.
    """
    copied = deepcopy(model)
    computed = {name for node in model.graph.node if is_of_onnx(node.domain, node.op_type) for name in node.output}
    left = {name for node in model.graph.node for name in node.output} - computed
    protos.replace_entries(copied.graph, "value_info", [v for v in model.graph.value_info if v.name in left])
    for node in copied.graph.node:
        graphs = [one for one in node.attribute if one.type == AttributeProto.GRAPH or one.graphs]
        if node.op_type == "Slice":
            node.input[1:] = [""] * (len(node.input) - 1)
            protos.replace_entries(node, "attribute", graphs)
        elif protos.attribute_values(node).get("auto_pad", b"NOTSET") not in (b"", b"NOTSET"):
            kept = [one for one in node.attribute if one.name != "pads" or one in graphs]
            protos.replace_entries(node, "attribute", kept)
    for value in copied.graph.output:
        if value.name in computed and value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return copied


def elements_around(nodes: Iterable[FlatNode], known: Mapping[str, int], opset: int) -> dict[str, int]:
    """Return the element types of values that are not `known`, as far as they follow from the operators around.

    onnx's inference goes forwards, and ends at an operator that ONNX does not have. But an Add has operands and a
    result of one type, whichever of them is known; so have a pool's gradient, x, and what it computes.
    """
    found: dict[str, int] = {}
    own = list(nodes)
    recorded = {value: x for node in own if (x := roles.pooled(node)) for value in node.outputs[1:] if value}
    settled = {value for value in known if recorded.get(value, value) in known} | {""}
    open_ones = [node for node in own if not settled.issuperset((*node.inputs, *node.outputs))]
    waiting = [group for node in open_ones for group in _alike(node, recorded, opset) if not group <= known.keys()]
    while waiting:
        for group in [*waiting, *waiting[::-1]]:
            element = next((e for name in group if (e := known.get(name, found.get(name))) is not None), None)
            if element is not None:
                found.update((name, element) for name in group if name not in known)
        left = [group for group in waiting if not group <= found.keys() | known.keys()]
        if len(left) == len(waiting):
            break
        waiting = left
    return found


def _alike(node: FlatNode, recorded: Mapping[str, str], opset: int) -> Iterator[set[str]]:
    """Yield sets of values with the same element type around a node; `recorded` has x by the indices of its pool."""
    if not node.op[0] and onnx.defs.has(node.op[1], max_inclusive_version=opset):
        schema = onnx.defs.get_schema(node.op[1], max_inclusive_version=opset)
        by_type: dict[str, set[str]] = {}
        for values, formal in ((node.inputs, schema.inputs), (node.outputs, schema.outputs)):
            for value, parameter in zip(values, _repeated(formal, len(values)), strict=False):
                if value and parameter.is_homogeneous:
                    by_type.setdefault(parameter.type_str, set()).add(value)
        variables = {constraint.type_param_str for constraint in schema.type_constraints}
        yield from (group for name, group in by_type.items() if name in variables and len(group) > 1)
    else:
        x = roles.pooled(node) or recorded.get(roles.same_shape(node) or "")
        of_pool = set(filter(None, (x, roles.incoming_gradient(node))))
        if of_pool and any(node.outputs[:1]):
            yield {*of_pool, node.outputs[0]}


def _repeated(formal: Iterable[OpSchema.FormalParameter], count: int) -> list[OpSchema.FormalParameter]:
    """Return the parameters for a number of operands: the last one is repeated if it stands for several."""
    given = list(formal)
    if given and given[-1].option == OpSchema.FormalParameterOption.Variadic:
        given += given[-1:] * (count - len(given))
    return given
