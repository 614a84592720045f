# SPDX-License-Identifier: Apache-2.0

"""The compiler as a pass of onnx_ir (extra `onnx-ir`)."""

from __future__ import annotations

import onnx_ir as ir

from poolgrad_lowering.dialect.targets import DEFAULT_TARGET, find_target
from poolgrad_lowering.entry.lower import lower
from poolgrad_lowering.report.report import Report


class PoolGradLoweringPass(ir.passes.InPlacePass):
    """Lowers every gradient of a pool in an `ir.Model` that the target can run, as `poolgrad_lowering.lower` does.

    The model is serialised and, if something was lowered, deserialised: its graph and functions are then new objects
    without the `meta` of the old ones, which is never serialised. Tensors in memory are copied; the serialised model
    must be smaller than protobuf's 2 GiB. External tensors stay in their files; proofs read them if all are in one
    folder. A model without gradients is not modified.

    The constructor raises `UnknownTargetError`, the pass `InvalidModelError`.
    """

    def __init__(self, target: str = DEFAULT_TARGET, *, forward: bool = True) -> None:
        super().__init__()
        self.target = find_target(target).name
        self.forward = forward
        self.report: Report | None = None
        """The report of the last call."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Lower the model in place."""
        folders = {tensor.base_dir for tensor in _external_tensors(model)}
        base_dir = (folders.pop() or ".") if len(folders) == 1 else None
        result = lower(ir.to_proto(model), target=self.target, forward=self.forward, base_dir=base_dir)
        self.report = result.report
        modified = any(anchor.status == "lowered" for anchor in result.report.anchors)
        if modified:
            _replace(model, ir.from_proto(result.model))
        return ir.passes.PassResult(model, modified)


def _replace(model: ir.Model, lowered: ir.Model) -> None:
    """Give the model the graph and the functions of the lowered one."""
    folders = {tensor.location: tensor.base_dir for tensor in _external_tensors(model)}
    for tensor in _external_tensors(lowered):
        tensor.base_dir = folders[tensor.location]
    model.ir_version = lowered.ir_version
    model.graph = lowered.graph
    model.functions.clear()
    model.functions.update(lowered.functions)


def _external_tensors(model: ir.Model) -> list[ir.ExternalTensor]:
    """Return the initializers in files, including those of subgraphs. Serialising a model loses their folders."""
    values = [value for graph in model.graphs() for value in graph.initializers.values()]
    return [value.const_value for value in values if isinstance(value.const_value, ir.ExternalTensor)]
