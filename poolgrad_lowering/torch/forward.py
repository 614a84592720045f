# SPDX-License-Identifier: Apache-2.0

"""Exports a model for evaluation, with the input names of its training step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.torch import scopes
from poolgrad_lowering.torch.arguments import Examples, find_arguments
from poolgrad_lowering.torch.arrays import to_array
from poolgrad_lowering.torch.dynamic_shapes import DynamicShapes
from poolgrad_lowering.torch.explanations import explained
from poolgrad_lowering.torch.exporter import finish, translated
from poolgrad_lowering.torch.internals.graphs import run_annotated
from poolgrad_lowering.torch.internals.modes import DataIsCopied
from poolgrad_lowering.torch.internals.tracing import trace
from poolgrad_lowering.torch.internals.trees import flatten
from poolgrad_lowering.torch.joint import WithLoss, module_of
from poolgrad_lowering.torch.model_state import replace, restored
from poolgrad_lowering.torch.operators.decompositions import decompositions
from poolgrad_lowering.torch.operators.functions import Rewritten
from poolgrad_lowering.torch.operators.interpolation import INTERPOLATIONS


@dataclass(frozen=True)
class Forward:
    """A model in eval mode as an ONNX model.

    Inputs of `model`: `weight.<parameter>`, `buffer.<name>`, and the parameters of the PyTorch model's forward. The
    output is `output`; of a model that returns tuples, lists or dictionaries `output.<position or key>`. `values` are
    the weights and buffers when it was exported, `examples` the other inputs.
    """

    model: onnx.ModelProto = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, np.ndarray] = field(repr=False)
    examples: Mapping[str, np.ndarray] = field(repr=False)


def export_forward(
    model: nn.Module,
    example_inputs: Examples,
    *,
    dynamic_batch: bool = False,
    dynamic_shapes: DynamicShapes | None = None,
    opset: int = 18,
) -> Forward:
    """Return a model in eval mode as an ONNX model that runs with the weights of its training step.

    Dropout does nothing, BatchNorm uses its running statistics. The mode of the model itself does not change. Mixed
    precision is that of an active `torch.autocast`.

    Args:
        model: the model, in either mode.
        example_inputs: the arguments of the model's forward as a tuple, or by name as a mapping. See
            `export_training_step`.
        dynamic_batch: the first size of every example input is symbolic. It must be 2 or more in the examples.
        dynamic_shapes: further symbolic sizes. See `export_training_step`.
        opset: version of the default domain, 18 or newer.

    Raises:
        TorchExportError: torch cannot trace the model, or not translate an operator, which the message names.
        ValueError: an argument is not one of its values, or the model returns no tensor.
        TypeError: an argument is something else than its type.
    """
    model = module_of(model)
    arguments = find_arguments(model, example_inputs, has_target=False)
    sizes = arguments.symbolic_sizes(dynamic_shapes, dynamic_batch=dynamic_batch)
    module = WithLoss(model, lambda output, _: output, arguments)
    values = {name: tensor.detach().contiguous() for name, tensor in names.tensors(*module.in_model()).items()}
    inputs = {**values, **{name: tensor.contiguous() for name, tensor in arguments.tensors.items()}}
    forward = _Forward(module)
    # A model may compute gradients in its forward pass. Its weights need none, so they cost nothing else.
    with explained("torch cannot trace the model"), restored(model), torch.enable_grad(), scopes.recorded(model):
        model.eval()
        graph = trace(forward, inputs, sizes, decompositions("by_shape"), INTERPOLATIONS)
    if not forward.outputs:
        raise ValueError("the model returns no tensor")
    exported = translated(
        lambda *tensors: run_annotated(graph, tensors), inputs, forward.outputs, opset=opset, sizes=sizes
    )
    finish(exported)
    return Forward(
        exported,
        tuple(value.name for value in exported.graph.input),
        tuple(value.name for value in exported.graph.output),
        {name: to_array(value) for name, value in values.items()},
        {name: to_array(value) for name, value in arguments.tensors.items()},
    )


class _Forward:
    """The function that is traced, within `restored`.

    Its results are the tensors of what the model returns, named by `outputs`.
    """

    def __init__(self, module: WithLoss) -> None:
        self._module = module
        self.outputs: list[str] = []

    def __call__(self, *values: Tensor) -> tuple[Tensor, ...]:
        own = names.tensors(*self._module.in_model()).values()
        replace(self._module, dict(zip(own, values, strict=False)))
        known = {value: tensor for value, tensor in zip(values, own, strict=False) if not tensor.requires_grad}
        with Rewritten(known), DataIsCopied():
            result = self._module(*values[len(own) :])
        leaves, _ = flatten(_as_tree(result))
        found = {".".join(("output", *path)): leaf for path, leaf in leaves if isinstance(leaf, Tensor)}
        self.outputs = list(found)
        return tuple(value.detach() for value in found.values())


def _as_tree(result: Any) -> Any:
    """Return mappings, dataclasses and named tuples as dictionaries, and sequences as lists, at any depth.

    torch's trees know a class that is derived from one of these only if it is registered.
    """
    if isinstance(result, Mapping):
        named = dict(result)
    elif is_dataclass(result):
        named = {each.name: getattr(result, each.name) for each in fields(result)}
    elif hasattr(result, "_asdict"):
        named = result._asdict()
    else:
        return list(map(_as_tree, result)) if isinstance(result, (list, tuple)) else result
    return {name: _as_tree(value) for name, value in named.items()}
