# SPDX-License-Identifier: Apache-2.0

"""What a traced graph notes of its nodes, holds as constants, writes to and returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._functorch._aot_autograd.logging_utils import setup_stacktrace_preservation_hooks
from torch._prims_common import is_contiguous_or_false
from torch.fx import traceback


def is_elementwise(node: fx.Node) -> bool:
    """Whether a node computes each element of its result by itself, and writes to none of its operands."""
    operator: Any = node.target
    is_one = isinstance(operator, torch._ops.OpOverload) and torch.Tag.pointwise in operator.tags  # noqa: SLF001
    return is_one and not operator._schema.is_mutable  # noqa: SLF001


def run_annotated(graph: fx.GraphModule, values: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Run a traced graph. If that is traced again, its nodes keep their annotations."""
    with traceback.preserve_node_meta():
        return tuple(_OfAnyStrides(graph).run(*values))


class _OfAnyStrides(fx.Interpreter):
    """Runs a graph whose results may have other strides than in its trace, with a copy where these allow no view."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is torch.ops.aten.view.default and not is_contiguous_or_false(args[0]):
            target = torch.ops.aten.reshape.default
        return super().call_function(target, args, kwargs)


annotate = traceback.annotate
"""While it is active, a dictionary is noted with each operator that is traced."""


def annotation(node: fx.Node) -> dict[str, Any]:
    """Return what `annotate` noted with a node."""
    return node.meta.get("custom") or {}


def added(node: fx.Node, operator: Any, *args: Any, **named: Any) -> fx.Node:
    """Return a new node in the graph of another one, with that node's annotation."""
    made = node.graph.call_function(operator, args, named)
    made.meta["custom"] = annotation(node)
    return made


def put_in_place(made: fx.Node, node: fx.Node) -> None:
    """Let a new node, which gives the same, be read in place of a node, which goes."""
    made.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(made)
    node.graph.erase_node(node)


def note_backward_of(result: Tensor) -> None:
    """During a trace, annotate each operator of the backward pass with the operator whose gradient it computes."""
    setup_stacktrace_preservation_hooks([result.grad_fn])


def backward_of(node: fx.Node) -> tuple[int, bool]:
    """Return the number that an operator and those of its gradient share, and whether the node is of the gradient."""
    return node.meta.get("seq_nr", -1), bool(node.meta.get("autograd_backward"))


def held_constant(graph: fx.GraphModule, tensors: Mapping[str, Tensor], *, is_written: bool = False) -> str | None:
    """Return the name of a tensor that a traced graph holds as a constant; if `is_written`, it writes to it."""
    names = {tensor.data_ptr(): name for name, tensor in tensors.items() if tensor.numel()}
    writing = _written_memories(graph)
    for node in graph.graph.find_nodes(op="get_attr"):
        value: Any = getattr(graph, node.target, None)
        is_held = isinstance(value, Tensor) and value.numel() and value.data_ptr() in names
        if is_held and (not is_written or _memories(node) & writing):
            return names[value.data_ptr()]
    return None


def changed_inputs(graph: fx.GraphModule, results: range) -> tuple[list[int], list[int]]:
    """Return which of the first inputs of a traced graph changed, and which of all inputs it writes to, by position.

    The outputs at the positions `results` are these first inputs as they are after the graph, in their order. One has
    changed if the graph writes to it, or returns another tensor.
    """
    inputs = [_memories(node) for node in graph.graph.find_nodes(op="placeholder")]
    writing = _written_memories(graph)
    outputs: Any = graph.graph.output_node().args[0]
    after = [_memories(outputs[position]) for position in results]
    written = [position for position, memory in enumerate(inputs) if memory & writing]
    other = {position for position, memory in enumerate(after) if memory != inputs[position]}
    return sorted(other.union(written).intersection(range(len(after)))), written


def is_written_in(graph: fx.GraphModule) -> Callable[[fx.Node], bool]:
    """Return a function that tells whether a traced graph writes to the memory of the tensor that a node makes."""
    writing = _written_memories(graph)
    return lambda node: not _memories(node).isdisjoint(writing)


def _written_memories(graph: fx.GraphModule) -> set[int]:
    operands = (operand for node in graph.graph.nodes for operand in operands_in_memory(node, is_written=True))
    return set[int]().union(*map(_memories, operands))


def _memories(node: fx.Node) -> set[int]:
    """Return numbers that nodes whose tensors share memory have in common; a split makes several tensors."""
    results = node.meta["val"]
    tensors = results if isinstance(results, (list, tuple)) else [results]
    return {each.untyped_storage()._cdata for each in tensors if isinstance(each, Tensor)}  # noqa: SLF001 - there is no other way


def operands_in_memory(node: fx.Node, *, is_written: bool) -> Iterator[fx.Node]:
    """Yield the operands whose memory an operator writes to, and those that it returns views of unless `is_written`."""
    if not isinstance(node.target, torch._ops.OpOverload):  # noqa: SLF001
        return
    for position, argument in enumerate(node.target._schema.arguments):  # noqa: SLF001
        if argument.alias_info is not None and (argument.alias_info.is_write or not is_written):
            given: Any = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
            yield from given if isinstance(given, (list, tuple)) else [given]


def changes_windows(graph: fx.GraphModule) -> bool:
    """Whether a traced graph writes to windows that `unfold` made of a tensor."""
    views = [operand for node in graph.graph.nodes for operand in operands_in_memory(node, is_written=True)]
    for view in views:
        if view.target is torch.ops.aten.unfold.default:
            return True
        shared = _memories(view)
        views += [source for source in view.all_input_nodes[:1] if not shared.isdisjoint(_memories(source))]
    return False


def complex_operator(graph: fx.GraphModule) -> str | None:
    """Return the first operator of a traced graph that has a complex result, or None."""
    for node in graph.graph.nodes:
        results = node.meta.get("val") if node.op == "call_function" else None  # inputs have no names of the model
        for value in results if isinstance(results, (list, tuple)) else [results]:
            if isinstance(value, Tensor) and value.is_complex():
                return str(node.target)
    return None
