# SPDX-License-Identifier: Apache-2.0

"""Moves the nodes with subgraphs of a model into functions, so that ONNX's inference takes linear time.

For every subgraph, inference copies its table of all values that the subgraph can see. In a function these are only the
function's inputs: what the node and its subgraphs use. The types that inference finds stay the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import onnx

from poolgrad_lowering.ir.index import subgraphs


class Outliner:
    """Moves nodes of one model, which is changed in place, into functions until it has `most` of them.

    A node beyond that becomes a call of a function that the model does not have, so that inference skips it.
    """

    def __init__(self, model: onnx.ModelProto, *, most: int) -> None:
        holders: list[onnx.ModelProto | onnx.FunctionProto] = [model, *model.functions]
        opsets = [entry for holder in holders for entry in holder.opset_import]
        domains = {entry.domain for entry in opsets} | {function.domain for function in model.functions}
        self._domain = next(name for name in map(str, count()) if name not in domains)
        self._model = model
        self._most = most
        for holder in holders:
            holder.opset_import.add(domain=self._domain, version=1)

    def outline(self, node: onnx.NodeProto, opsets: Sequence[onnx.OperatorSetIdProto]) -> bool:
        """Replace a node that has subgraphs by a call of a new function; returns whether no subgraph is left.

        `opsets` are those of the node's graph or function. The nodes in its subgraphs are replaced first. A node stays
        if a node in it does, if an attribute comes from the caller, and if it defines a name that it also uses: onnx
        1.19 crashes if an input of a function has no type and is defined again.
        """
        graphs = [graph for attribute in node.attribute for _, graph in subgraphs(attribute)]
        whole = [self.outline(inner, opsets) for graph in graphs for inner in graph.node]
        if not all(whole) or any(attribute.ref_attr_name for attribute in node.attribute):
            return False
        if not graphs:
            return True
        defined = {*node.output, *(name for graph in graphs for name in _defined(graph))}
        used = [*node.input, *(name for graph in graphs for name in _captured(graph))]
        operands = [name for name in dict.fromkeys(used) if name]
        if not defined.isdisjoint(operands):
            return False
        outputs = [name for name in node.output if name]
        domain, name = self._domain, str(len(self._model.functions))
        if len(self._model.functions) < self._most:
            self._model.functions.append(onnx.helper.make_function(domain, name, operands, outputs, [node], opsets))
        node.CopyFrom(onnx.helper.make_node(name, operands, outputs, domain=domain))
        return True


def _captured(graph: onnx.GraphProto) -> list[str]:
    """The names that a graph without subgraphs uses and does not define."""
    defined = _defined(graph)
    used = [*(name for node in graph.node for name in node.input), *(value.name for value in graph.output)]
    return [name for name in used if name not in defined]


def _defined(graph: onnx.GraphProto) -> set[str]:
    return {
        *(name for node in graph.node for name in node.output),
        *(value.name for value in graph.input),
        *(tensor.name for tensor in graph.initializer),
        *(sparse.values.name for sparse in graph.sparse_initializer),
    }
