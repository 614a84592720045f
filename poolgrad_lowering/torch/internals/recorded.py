# SPDX-License-Identifier: Apache-2.0

"""What the graph that a trace has recorded so far tells of a tensor: its numbers, and another that has the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from operator import getitem
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, get_proxy_slot

from poolgrad_lowering.torch.internals.graphs import operands_in_memory


def _node(x: Tensor) -> fx.Node | None:
    """Return the node whose value a tensor is; None without a trace, or of a tensor that it does not know."""
    mode = get_proxy_mode()
    slot = None if mode is None else get_proxy_slot(x, mode.tracer, None)
    return None if slot is None else slot.proxy.node


def of_constants(
    function: Callable[..., Any],
    x: Tensor,
    known: Mapping[Tensor, Tensor] = MappingProxyType({}),
    use: Callable[[Tensor], object] = id,
) -> Any:
    """Return what a function gives of a tensor whose numbers only constants decide; of others `NotImplemented`.

    A trace knows no numbers. Those of constants are computed from the graph that it has so far, with what is written
    to them. Inputs of the trace that have a value in `known` are constants too; `use` is called with each that is read.
    """
    mode, result = get_proxy_mode(), _node(x)
    if mode is None or (result is None and type(x) is not Tensor):
        return NotImplemented
    inputs = {own: each for each in known if (own := _node(each)) is not None}
    needed: set[fx.Node] = set()
    left = [] if result is None else [result]  # a tensor that the trace has not met is a constant
    while left:
        node = left.pop()
        if node not in inputs and not _is_constant(node):
            return NotImplemented
        if node not in needed:
            needed.add(node)
            left += [*node.all_input_nodes, *(user for user in node.users if _has_its_memory(user, node))]
    values: dict[fx.Node, Any] = {}
    with disable_proxy_modes_tracing(), unset_fake_temporarily(), torch.no_grad():
        for node in filter(needed.__contains__, mode.tracer.graph.nodes):
            if node in inputs:
                values[node] = known[inputs[node]].clone()
                use(inputs[node])
            elif node.op == "get_attr":
                values[node] = getattr(mode.tracer.root, node.target).clone()  # which may be written to
            else:
                args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*args, **kwargs)
        return function(x if result is None else values[result])


def _is_constant(node: fx.Node) -> bool:
    """Whether a node gives the same for the same operands."""
    operator = node.target
    draws = isinstance(operator, OpOverload) and torch.Tag.nondeterministic_seeded in operator.tags
    return node.op in {"get_attr", "call_function"} and not draws


def _has_its_memory(user: fx.Node, node: fx.Node) -> bool:
    """Whether an operator writes to the value of a node, or returns a view of it."""
    return user.target is getitem or node in operands_in_memory(user, is_written=False)


_DEEPEST = 8
"""The operators behind each other that are compared."""


def computation(x: Tensor) -> object:
    """Return what computes a tensor by a few operators: two tensors of which it is equal have the same numbers."""
    node = _node(x)
    return object() if node is None else _computation(node, _DEEPEST)


def _computation(value: Any, depth: int) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_computation(each, depth) for each in value)
    if not isinstance(value, fx.Node):
        return type(value), value  # 1 is equal to 1.0, of which integers become other numbers
    if any(any(operands_in_memory(each, is_written=True)) for each in _with_its_memory(value)):
        return object()  # the same operators give other numbers before a write
    if not depth or value.op != "call_function" or not _is_constant(value):
        return value
    return (value.target, *(_computation(each, depth - 1) for each in (*value.args, *sorted(value.kwargs.items()))))


def _with_its_memory(node: fx.Node) -> Iterator[fx.Node]:
    """Yield the nodes whose values are views of a node's value, or of which that is a view."""
    found, left = {node}, [node]
    while left:
        own = left.pop()
        yield own
        views = {user for user in own.users if _has_its_memory(user, own)}
        bases = {base for base in own.all_input_nodes if _has_its_memory(own, base)}
        left += (views | bases) - found
        found |= views | bases


def largest_count(x: Tensor) -> int | None:
    """Return the largest number that a tensor may have that counts along axes where a mask is true; None of others."""
    node = _node(x)
    if node is None or node.target is not torch.ops.aten.sum.dim_IntList:
        return None
    mask, axes = node.args[0].meta["val"], node.args[1]
    return math.prod(mask.shape[axis] for axis in axes) if mask.dtype == torch.bool else None
