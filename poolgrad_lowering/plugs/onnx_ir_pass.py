"""The compiler as a pass of onnx_ir (extra `onnx-ir`). Knows nothing of how models are lowered."""

from __future__ import annotations

import onnx_ir as ir

from poolgrad_lowering.legality.targets import DEFAULT_TARGET, find_target
from poolgrad_lowering.lowering import lower
from poolgrad_lowering.report import Report


class PoolGradLoweringPass(ir.passes.InPlacePass):
    """Lowers every max-pool gradient of an `ir.Model` that the target can run, as `poolgrad_lowering.lower` does.

    The model is serialised and, where something was lowered, read again: its graph and functions are then new objects,
    without the `meta` of the old ones, which are never serialised. Tensors in memory are copied, and together with the
    rest must stay below protobuf's 2 GiB; external ones stay where they are, and are read for proofs if all are in one
    folder. A model without sites is left as it is.

    Raises `UnknownTargetError` when made; the pass raises `InvalidModelError`.
    """

    def __init__(self, target: str = DEFAULT_TARGET, *, forward: bool = True) -> None:
        super().__init__()
        self.target = find_target(target).name
        self.forward = forward
        self.report: Report | None = None
        """What the last call did with each anchor."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Lower the model, which is the result's model too."""
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
    """The initializers in files, those of subgraphs included. A serialised model does not say in which folder."""
    values = [value for graph in model.graphs() for value in graph.initializers.values()]
    return [value.const_value for value in values if isinstance(value.const_value, ir.ExternalTensor)]
