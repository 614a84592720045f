# SPDX-License-Identifier: Apache-2.0

"""Takes back the axis that an export for graph mode gives to values of rank 0.

The nodes are read in order. `with_axis` holds values with one axis whose element is that of a value of rank 0 of the
original, and `unreduced` values with the same element and any number of axes of size 1, or none. A node of the lowered
graph whose operands are such values is the original's node with the values of rank 0 as operands, if its operator
computes the same for them; then its result is known too. All other nodes stay as they are, first of all those that
both graphs have.

Several nodes of the original may compute the same. Those that the lowered graph has too stand for no other node, and
those that it needs come before those that only a gradient needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy

from onnx import GraphProto, NodeProto, TensorProto, numpy_helper

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.dialect.scalars import UNSQUEEZE_SCALARS
from poolgrad_lowering.model.ir.graphs import with_inner
from poolgrad_lowering.model.ir.tensors import constant_tensor
from poolgrad_lowering.verification.graph.protos import integers, node_bytes
from poolgrad_lowering.verification.graph.types import TensorTypes, rank_of

_BROADCASTING = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Max", "Min", "Mean", "Sum"),
        *("And", "Or", "Not", "Xor", "BitShift", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Where"),
        *("Abs", "Neg", "Sign", "Sqrt", "Reciprocal", "Exp", "Log", "Erf", "Ceil", "Floor", "Round", "IsInf", "IsNaN"),
        *("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Acosh", "Asinh", "Atanh"),
        *("Celu", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign"),
        *("ThresholdedRelu", "Cast", "Expand", "Identity", "RandomNormalLike", "RandomUniformLike"),
    )
)
"""Elementwise operators with ONNX's broadcasting: an operand's axis of size 1 changes the shape of a result of rank 0
only."""
_RESHAPING = frozenset(("Reshape", "Squeeze", "Unsqueeze"))
_VIEW = "a view"
_WITH_KEEPDIMS = ("Reduce", "Arg")


class AxisRemoval:
    """The state while the lowered nodes are read. They are in topological order; `types` has those of the original.

    `_with_axis` has the name of a value of rank 0, or the element of a constant, by the value with one axis.
    Values `between` nodes of the original, of any rank, may have other names in the lowered graph.
    """

    def __init__(
        self,
        original: GraphProto,
        lowered: GraphProto,
        nodes: Sequence[NodeProto],
        types: TensorTypes,
        between: Collection[str],
    ) -> None:
        self._nodes, self._types, self._between = nodes, types, between
        self._made: dict[str, int] = {}  # the ranks of other values, which have axes
        before = {tensor.name: tensor for tensor in original.initializer}
        made = {node.output[0]: tensor for node in original.node if (tensor := constant_tensor(node)) is not None}
        self._stored = {tensor.name: tensor for tensor in lowered.initializer}
        new = {name: tensor for name, tensor in self._stored.items() if name not in before}
        self._constants = _elements(before | made, [])
        self._with_axis: dict[str, object] = _elements(new, [1])
        self._unreduced: dict[str, str] = {}
        self._scalars: dict[str, object] = {}  # values of rank 0, and those between nodes, under other names
        self._candidates: dict[tuple[object, ...], list[NodeProto]] = defaultdict(list)
        self._views: dict[str, list[NodeProto]] = defaultdict(list)
        theirs = {node_bytes(node) for node in nodes}
        self._kept = {held for node in original.node if (held := node_bytes(node)) in theirs}
        needed = self._needed(original, {name for node in nodes for name in node.output})
        self._present: dict[tuple[object, ...], NodeProto] = {}  # kept ones of rank 0, which others may compute again
        for node in sorted(original.node, key=lambda node: needed.isdisjoint(node.output)):
            if node_bytes(node) in self._kept:
                if all(self._rank(name) == 0 for name in node.output):
                    key = (_VIEW, node.input[0]) if _is_view(node) else self._signature(node)
                    self._present.setdefault(key, node)
                continue
            self._candidates[self._signature(node)].append(node)
            if _is_view(node):
                self._views[node.input[0]].append(node)

    def _needed(self, original: GraphProto, made: Collection[str]) -> set[str]:
        """Return the values of rank 0 that are results, or read for one of the values that the lowered graph has."""
        needed = {value.name for value in original.output}
        for node in reversed(original.node):
            if any(name in made or (name in needed and self._rank(name) == 0) for name in node.output):
                needed.update(name for each in with_inner([node]) for name in each.input)
        return needed

    def restored(self) -> list[NodeProto]:
        """Return the nodes, with the original's in place of those that compute with one axis more."""
        found: list[NodeProto] = []
        for node in self._nodes:
            self._learn_rank(node)
            found += self._restored(node)
        return found

    def _learn_rank(self, node: NodeProto) -> None:
        """Keep the rank of what a node of an export computes, where it follows from a stored shape."""
        is_reshape = node.op_type == "Reshape" and not node.domain and len(node.input) > 1
        shape = integers(self._stored.get(node.input[1])) if is_reshape else None
        operands = node.input[:1] if node.op_type == "Expand" else node.input
        ranks = [self._rank(name) or 0 for name in operands] if _broadcasts(node) else [len(shape or ())]
        if max(ranks, default=0) and node.output:
            self._made.setdefault(node.output[0], max(ranks))

    def _restored(self, node: NodeProto) -> list[NodeProto]:
        """Return what stands in the original for a node of the lowered graph, or the node itself."""
        if node_bytes(node) in self._kept:
            return [node]
        if (node.domain, node.op_type) == (DOMAIN, UNSQUEEZE_SCALARS):
            return self._unsqueezed(node)
        if node.op_type == "Reshape" and not node.domain and (found := self._reshaped(node)) is not None:
            return found
        has_axis = any(value in self._with_axis for value in node.input)
        wanted = self._taken(node, has_axis=has_axis)
        if wanted is None and has_axis and _broadcasts(node) and (same := self._present.get(self._signature(node))):
            self._with_axis.update(zip(node.output, same.output, strict=True))
            return []
        if wanted is None:
            return [self._with_scalars(node)]
        for name, own in zip(node.output, wanted.output, strict=True):
            if own in self._between and self._rank(own) != 0:
                self._scalars[name] = own
            elif name and name != own:
                (self._with_axis if has_axis and _broadcasts(node) else self._unreduced)[name] = own
        return [wanted]

    def _with_scalars(self, node: NodeProto) -> NodeProto:
        """Return the node with the original's names of values of rank 0 as operands.

        A value with one axis is replaced too if the node is elementwise and its result has axes anyway.
        """
        known = {**self._scalars, **(self._with_axis if _broadcasts(node) and self._has_axes(node) else {})}
        changed = deepcopy(node)
        changed.input[:] = [scalar if isinstance(scalar := known.get(name), str) else name for name in node.input]
        return changed

    def _unsqueezed(self, node: NodeProto) -> list[NodeProto]:
        if len(node.input) != len(node.output) or not all(self._rank(name) == 0 for name in node.input):
            return [node]
        self._with_axis.update(zip(node.output, node.input, strict=True))
        return []

    def _reshaped(self, node: NodeProto) -> list[NodeProto] | None:
        """Return what stands for a Reshape to numbers; None if it is a node like any other."""
        if len(node.input) != 2:  # of a damaged model, which no runtime loads
            return None
        value, result, shape = node.input[0], node.output[0], integers(self._stored.get(node.input[1]))
        if shape is None or any(size != 1 for size in shape) or node.attribute:
            return None
        if not shape:
            return self._without_axis(value, result)
        scalar = self._with_axis.get(value)
        if scalar is not None:
            found = self._view(str(scalar), result, len(shape))
            if found is None and len(shape) == 1 and (found := self._view(str(scalar), None, 0)) is not None:
                self._with_axis[result] = found[0].output[0]  # a view of one value of rank 0 as another
            return found
        if len(shape) == 1 and value in self._unreduced:
            self._with_axis[result] = self._unreduced[value]
            return []
        found = self._view(value, None, 0) if len(shape) == 1 else None
        if found is not None:
            self._with_axis[result] = found[0].output[0]
        elif len(shape) == 1 and (same := self._present.get((_VIEW, value))) is not None:
            self._with_axis[result], found = same.output[0], []
        return found

    def _without_axis(self, value: str, result: str) -> list[NodeProto] | None:
        """Return what stands for a Reshape to rank 0; None if it is a node like any other."""
        scalar = self._with_axis.get(value, self._unreduced.get(value))
        if scalar is None:
            return self._view(value, result, 0)
        if result != scalar:
            self._scalars[result] = scalar
        return []

    def _view(self, value: str, result: str | None, rank: int) -> list[NodeProto] | None:
        """Return the node of the original that only changes the shape of a value, to this rank; None without one."""
        views = self._views.get(value, [])
        for number, node in enumerate(views):
            if result in (None, node.output[0]) and self._rank(node.output[0]) == rank:
                return [views.pop(number)]
        return None

    def _taken(self, node: NodeProto, *, has_axis: bool) -> NodeProto | None:
        """Return the node of the original whose results a node computes, and use it up; None if there is none."""
        found = self._candidates.get(self._signature(node), [])
        for number, one in enumerate(found):
            if self._computes(one, node, has_axis=has_axis):
                return found.pop(number)
        return None

    def _computes(self, one: NodeProto, node: NodeProto, *, has_axis: bool) -> bool:
        """Whether a node with the same signature computes the results of `one`, but for axes of values of rank 0."""
        alike = _keeps_axes(one) == _keeps_axes(node) and (not has_axis or _broadcasts(node))
        if list(one.output) == list(node.output):
            return alike and (not has_axis or self._has_axes(one))
        names = zip(one.output, node.output, strict=True)
        return (alike or _keeps_axes(node)) and all(
            own == name or own in self._between or self._rank(own) == 0 for own, name in names
        )

    def _has_axes(self, node: NodeProto) -> bool:
        """Whether the results are known to have axes, so that an operand's axis of size 1 changes no shape."""
        return all((self._rank(name) or 0) > 0 for name in node.output if name)

    def _signature(self, node: NodeProto) -> tuple[object, ...]:
        """Return what has to be equal: operator, attributes but keepdims, and operands as values of the original."""
        attributes = sorted(
            attribute.SerializeToString(deterministic=True)
            for attribute in node.attribute
            if not (_reduces(node) and attribute.name == "keepdims")
        )
        operands = tuple(map(self._operand, node.input))
        return (node.domain, node.op_type, node.overload, tuple(attributes), operands, len(node.output))

    def _operand(self, name: str) -> object:
        value = self._with_axis.get(name, self._scalars.get(name, name))
        return self._constants.get(value, value) if isinstance(value, str) else value

    def _rank(self, name: str) -> int | None:
        return rank_of(name, self._types) if name in self._types else self._made.get(name)


def _is_view(node: NodeProto) -> bool:
    return not node.domain and node.op_type in _RESHAPING


def _broadcasts(node: NodeProto) -> bool:
    return not node.domain and node.op_type in _BROADCASTING


def _reduces(node: NodeProto) -> bool:
    return not node.domain and node.op_type.startswith(_WITH_KEEPDIMS)


def _keeps_axes(node: NodeProto) -> bool:
    """Whether a reduction keeps the axes, by default it does."""
    return _reduces(node) and [a.i for a in node.attribute if a.name == "keepdims"] in ([], [1])


def _elements(tensors: Mapping[str, TensorProto], shape: Sequence[int]) -> dict[str, object]:
    """Return the element types and bytes of the tensors of one shape that are in the model, by name."""
    return {
        name: (tensor.data_type, numpy_helper.to_array(tensor).tobytes())
        for name, tensor in tensors.items()
        if list(tensor.dims) == shape and tensor.data_location != TensorProto.EXTERNAL
    }
