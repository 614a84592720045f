# SPDX-License-Identifier: Apache-2.0

"""Writes the update of an optimizer into a model that computes gradients.

An update is a function of elements. So it is exported once for each kind of optimizer and element type, for a weight of
two elements, and written for each weight with its names and its shape, or for several (`model.joint_updates`). What
depends on no weight is written once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import onnx
import torch
from onnx import GraphProto, NodeProto, helper, numpy_helper
from onnx_ir.tensor_adapters import from_torch_dtype
from torch import Tensor

from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.model.ir.graphs import fresh, names_of, opset_of, rename
from poolgrad_lowering.model.joint_updates import side_by_side
from poolgrad_lowering.torch.exporter import translated
from poolgrad_lowering.torch.groups import Group, update, update_names

_ONE = "one"
"""The parameter of a template."""
_SIZE = 2
"""The elements of its weight."""


class _Template:
    """The update of one weight, with what all weights of a group share, of which `written` is in the target already."""

    def __init__(self, graph: GraphProto, scalars: Sequence[str]) -> None:
        self._graph = graph
        self._shared = {*(constant.name for constant in graph.initializer), *scalars}
        for node in graph.node:
            if self._shared.issuperset(node.input):
                self._shared.update(node.output)
        declared = (*graph.input, *graph.value_info, *graph.output)
        self._types = {value.name: value.type.tensor_type for value in declared}
        self._results = {value.name for value in graph.output}
        self._written: dict[str, str] = {}

    def write_joined(
        self, target: GraphProto, each: Sequence[Mapping[str, str]], sizes: Sequence[int], taken: set[str]
    ) -> None:
        """Write the nodes for several vectors of these sizes, of which `each` has the names as in `write`."""
        own = [theirs for theirs in each[0] if len({bound[theirs] for bound in each}) > 1]
        joined = {theirs: f"{names.UPDATE}.{theirs}.joined" for theirs in own}
        for theirs in own:
            if theirs not in self._results:
                joined[theirs] = fresh(joined[theirs], taken)
                operands = [bound[theirs] for bound in each]
                target.node.append(helper.make_node("Concat", operands, [joined[theirs]], joined[theirs], axis=0))
                target.value_info.append(self._declared(theirs, joined[theirs], [sum(sizes)]))
        written = self.write(target, {**each[0], **joined}, [sum(sizes)], taken)
        lengths = fresh(f"{names.UPDATE}.lengths", taken)
        target.initializer.append(numpy_helper.from_array(np.array(sizes, np.int64), lengths))
        for theirs in (name for name in own if name in self._results):
            parts, whole = [bound[theirs] for bound in each], written[theirs]
            target.node.append(helper.make_node("Split", [whole, lengths], parts, f"{whole}.split", axis=0))
            target.value_info.extend(map(partial(self._declared, theirs), parts, ([size] for size in sizes)))

    def write(
        self, target: GraphProto, bound: Mapping[str, str], shape: Sequence[int], taken: set[str]
    ) -> dict[str, str]:
        """Write the nodes for a weight. `bound` has the names of inputs and outputs in the target.

        Returns the names of all values.
        """
        for constant in self._graph.initializer:
            if constant.name not in self._written:
                self._written[constant.name] = fresh(f"{names.UPDATE}.{constant.name}", taken)
                target.initializer.add().CopyFrom(constant)
                target.initializer[-1].name = self._written[constant.name]
        found = {**bound, **self._written}
        for node in self._graph.node:
            if self._written.keys() >= set(node.output):
                continue
            written = NodeProto()
            written.CopyFrom(node)
            written.name = fresh(f"{names.UPDATE}.{node.name}", taken)
            written.input[:] = [found.get(name, name) for name in node.input]
            for position, name in enumerate(node.output):
                # A result that all weights have, the number of steps, is named by the first group.
                found[name] = written.output[position] = fresh(bound.get(name, f"{names.UPDATE}.{name}"), taken)
                dims = shape if self._types[name].shape.dim and name not in self._shared else ()
                target.value_info.append(self._declared(name, found[name], dims))
                if name in self._shared:
                    self._written[name] = found[name]
            target.node.append(written)
        return found

    def _declared(self, theirs: str, name: str, dims: Sequence[int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, self._types[theirs].elem_type, dims)


@dataclass
class _Updates:
    """The updates by one template, by parameter: the shape of its weight, and its names as in `_Template.write`."""

    template: _Template
    may_join: bool
    shapes: dict[str, Sequence[int]] = field(default_factory=dict)
    bound: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def write(self, target: GraphProto, taken: set[str]) -> None:
        """Write the nodes for all parameters."""
        for together in side_by_side(self.shapes) if self.may_join else ([name] for name in self.shapes):
            bound = [self.bound[name] for name in together]
            if len(together) == 1:
                self.template.write(target, bound[0], self.shapes[together[0]], taken)
            else:
                self.template.write_joined(target, bound, [self.shapes[name][0] for name in together], taken)


def write_updates(
    model: onnx.ModelProto, groups: Sequence[Group], inputs: Mapping[str, Tensor], outputs: Sequence[str]
) -> None:
    """Write the updates of groups into a model that computes gradients or takes them.

    `inputs` and `outputs` are those that the model then has. A weight that the model changes itself is updated after
    that.
    """
    graph = model.graph
    changed = _renamed(graph, {names.new(names.weight(name)) for group in groups for name in group.parameters})
    taken = names_of(graph) | inputs.keys()
    updates: dict[object, _Updates] = {}
    for group in groups:
        for parameter in group.parameters:
            weight = names.weight(parameter)
            kept = {names.state(slot, _ONE): names.state(slot, parameter) for slot in group.optimizer.slots}
            own = {names.weight(_ONE): weight, **kept}
            shape = inputs[weight].shape
            sizes = {theirs: _SIZE if inputs[name].shape == shape else () for theirs, name in own.items()}
            examples = {theirs: inputs[name].new_zeros(sizes[theirs]) for theirs, name in own.items()}
            examples[names.gradient(_ONE)] = inputs[weight].new_zeros(_SIZE)
            key = group.optimizer, group.rate, tuple((example.dtype, example.shape) for example in examples.values())
            if key not in updates:
                updates[key] = _Updates(_template(group, examples, opset_of(model)), may_join=all(sizes.values()))
            bound = {names.new(theirs): names.new(name) for theirs, name in own.items()}
            bound[names.new(names.STEPS)] = names.new(names.STEPS)
            bound |= {**own, names.gradient(_ONE): names.gradient(parameter)}
            bound[names.weight(_ONE)] = changed.get(names.new(weight), weight)
            updates[key].shapes[parameter], updates[key].bound[parameter] = shape, bound
    for each in updates.values():
        each.write(graph, taken)
    _declare_ends(graph, inputs, outputs)


def _renamed(graph: GraphProto, wanted: Collection[str]) -> dict[str, str]:
    """Rename outputs that an update is to be, and return their new names."""
    found = {value.name: f"forward.{value.name}" for value in graph.output if value.name in wanted}
    rename(graph, found)
    return found


def _template(group: Group, examples: Mapping[str, Tensor], opset: int) -> _Template:
    """Return the update of one weight of a group. The examples are weight, gradient and state."""
    scalars = {group.rate: torch.zeros(())}
    if group.optimizer.counts_steps:
        scalars[names.STEPS] = torch.zeros(())
    inputs = {**examples, **scalars}
    one = [replace(group, parameters=(_ONE,))]
    outputs = update_names(one)

    def run(*values: Tensor) -> list[Tensor]:
        given = dict(zip(inputs, values, strict=True))
        found = update(one, given, {_ONE: given[names.gradient(_ONE)]})
        return [found[name] for name in outputs]

    return _Template(translated(run, inputs, list(map(names.new, outputs)), opset=opset).graph, list(scalars))


def _declare_ends(graph: GraphProto, inputs: Mapping[str, Tensor], outputs: Sequence[str]) -> None:
    """Let a graph have these inputs and outputs, in their order. Outputs that it had and has no more are values."""
    given = {value.name: value for value in graph.input}
    ends = [
        given.get(name) or helper.make_tensor_value_info(name, from_torch_dtype(value.dtype), value.shape)
        for name, value in inputs.items()
    ]
    declared = {value.name: value for value in (*graph.value_info, *graph.output)}
    results = [declared.pop(name) for name in outputs]
    for listed, values in ((graph.input, ends), (graph.output, results), (graph.value_info, declared.values())):
        copies = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in values]
        del listed[:]
        listed.extend(copies)
