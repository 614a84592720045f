# SPDX-License-Identifier: Apache-2.0

"""Keeps values together whose sizes the numbers in a tensor decide: one part of a step computes and reads them.

Beside the CANN provider, a value has to have a known shape where a step is cut in two, as it is at each pool.
onnxruntime runs a step from its last result, and what stands last in it first: what depends on inputs alone stands at
the begin, so that it runs where it is read. The loss is no result that waits for the end if its gradient depends on it.
"""

from __future__ import annotations

from torch import Tensor, fx

from poolgrad_lowering.torch.internals.graphs import is_written_in
from poolgrad_lowering.torch.internals.recorded import is_constant
from poolgrad_lowering.torch.internals.tracing import unknown_sizes


def seed_of(loss: Tensor) -> Tensor:
    """Return the gradient 1 of a loss, computed from the loss."""
    return (~loss.lt(loss)).to(loss.dtype)


def select_first(traced: fx.GraphModule, kept: int) -> None:
    """Move the selections of a traced graph from inputs to its begin, with what they are computed from.

    Those of the first `kept` inputs, parameters and buffers, stay where they are, as does what is written to.
    """
    inputs = traced.graph.find_nodes(op="placeholder")
    early, is_written = set(inputs[kept:]), is_written_in(traced)
    for node in traced.graph.nodes:
        is_value = "val" in node.meta and is_constant(node)
        if is_value and early.issuperset(node.all_input_nodes) and not is_written(node):
            early.add(node)
    needed = {node for node in early if unknown_sizes(node.meta["val"])}
    for node in reversed(list(traced.graph.nodes)):
        if node in needed:
            needed.update(early.intersection(node.all_input_nodes))
    last = inputs[-1]
    for node in [each for each in traced.graph.nodes if each in needed.difference(inputs)]:
        last.append(node)
        last = node
