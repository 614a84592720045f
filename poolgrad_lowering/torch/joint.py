# SPDX-License-Identifier: Apache-2.0

"""The joint graph of a model: loss, gradients and new buffers as a function of weights, buffers and example inputs.

The function has the tensors as arguments in a known order, so that every input and output has its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.adaptive import _ASMoutput
from torch.nn.modules.batchnorm import _BatchNorm

from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.torch import scopes
from poolgrad_lowering.torch.arguments import Arguments
from poolgrad_lowering.torch.dynamic_shapes import SymbolicSizes
from poolgrad_lowering.torch.errors import TorchExportError
from poolgrad_lowering.torch.explanations import explained
from poolgrad_lowering.torch.internals.graphs import (
    changed_inputs,
    changes_windows,
    complex_operator,
    held_constant,
    note_backward_of,
)
from poolgrad_lowering.torch.internals.modes import (
    DataIsCopied,
    RandomNumbersInBackwardError,
    WithoutRandomNumbers,
    uncompiled,
)
from poolgrad_lowering.torch.internals.tracing import trace
from poolgrad_lowering.torch.internals.trees import CompiledModule
from poolgrad_lowering.torch.model_state import replace, restored
from poolgrad_lowering.torch.operators.convolution import differentiable_convolution_backward
from poolgrad_lowering.torch.operators.decompositions import Decompositions
from poolgrad_lowering.torch.operators.functions import OneByCount, Rewritten
from poolgrad_lowering.torch.operators.interpolation import INTERPOLATIONS
from poolgrad_lowering.torch.operators.normalization import differentiable_batch_norm_backward
from poolgrad_lowering.torch.rectifiers import multiply_by_signs
from poolgrad_lowering.torch.second_pass import check_second_pass
from poolgrad_lowering.torch.symbolic.joined_axes import keep_axes_apart, leave_out_views
from poolgrad_lowering.torch.symbolic.sizes_of_tensors import expand_by_tensors
from poolgrad_lowering.torch.symbolic.symbolic_slices import select_by_positions

Loss = Callable[[Any, Any], Tensor]

_DIFFERENTIATED: dict[Any, Callable[..., Any]] = {
    **INTERPOLATIONS,
    torch.ops.aten.convolution_backward.default: differentiable_convolution_backward,
    torch.ops.aten.native_batch_norm_backward.default: differentiable_batch_norm_backward,
}
"""Operators as autograd sees them: the gradients of these functions are faster, or take symbolic sizes."""

_WRAPPERS = {CompiledModule: "_orig_mod", nn.DataParallel: "module", nn.parallel.DistributedDataParallel: "module"}
"""Modules that run another one, which they have as this attribute. The tensors of a model have its names."""


class WithLoss(nn.Module):
    """A model and its loss as one module of tensors, in the `torch.autocast` that is active now.

    The loss may have weights. Without one, the model's result is the loss, or has it as `loss`.
    """

    def __init__(self, model: nn.Module, loss: Loss | None, arguments: Arguments) -> None:
        super().__init__()
        if isinstance(loss, nn.Module) and hasattr(model, names.LOSS):
            raise ValueError(
                "the model has a module 'loss', whose names would be those of the loss: give it as a function"
            )
        self.model, self.loss, self.arguments = model, loss, arguments
        self.is_mixed = torch.is_autocast_enabled("cpu")
        self._short = torch.get_autocast_dtype("cpu")

    def forward(self, *tensors: Tensor) -> Tensor:
        """Return the loss of the model's output for the tensors of `arguments`."""
        positional, keywords, target = self.arguments.rebuild(tensors)
        with uncompiled(), torch.autocast("cpu", self._short, enabled=self.is_mixed):
            output = self.model(*positional, **keywords)
            return _own_loss(output) if self.loss is None else self.loss(output, target)

    def in_model(self) -> tuple[dict[str, nn.Parameter], dict[str, Tensor]]:
        """Return parameters and buffers by their names in the model; those of the loss begin with `loss.`."""
        parameters = {_in_model(name): parameter for name, parameter in self.named_parameters()}
        return parameters, {_in_model(name): buffer for name, buffer in self.real_buffers().items()}

    def real_buffers(self) -> dict[str, Tensor]:
        """Return the buffers that are inputs of a step, which complex numbers are not: those are constants of it."""
        return {name: buffer for name, buffer in self.named_buffers() if not buffer.is_complex()}


def _own_loss(output: Any) -> Any:
    """Return the loss that a model computes itself: its result, or the `loss` of its result."""
    if isinstance(output, Mapping) and names.LOSS in output:
        return output[names.LOSS]
    return getattr(output, names.LOSS, output)


def module_of(model: object) -> nn.Module:
    """Return the module itself, without `torch.compile`, `DataParallel` and `DistributedDataParallel` around it.

    Raises `TypeError` unless this is a module of PyTorch in Python.
    """
    if isinstance(model, type):
        raise TypeError(f"model is the class {model.__name__}; it takes an object of it: {model.__name__}(…)")
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is a {type(model).__name__}; it takes a torch.nn.Module")
    for name, part in model.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            what = f"the model's part '{name}'" if name else "the model"
            raise TypeError(
                f"{what} is traced or scripted by TorchScript: give the torch.nn.Module that it was made of"
            )
    inner = getattr(model, _WRAPPERS[type(model)]) if type(model) in _WRAPPERS else None
    return model if inner is None else module_of(inner)


@dataclass(frozen=True)
class Joint:
    """A joint graph. `inputs` are its inputs by name, with their values: weights, buffers, example inputs.

    `trained` are the parameters that have a gradient. The graph returns one tensor for each of `outputs`. It writes to
    the inputs of `written`.
    """

    graph: fx.GraphModule
    inputs: dict[str, Tensor]
    examples: tuple[str, ...]
    trained: tuple[str, ...]
    outputs: tuple[str, ...]
    written: frozenset[str]


def trace_joint(module: WithLoss, decompositions: Decompositions, sizes: SymbolicSizes) -> Joint:
    """Return the joint graph of a module in train mode, whose example inputs may have symbolic sizes.

    Raises `TorchExportError` if torch cannot trace it, `ValueError` if two inputs have one name.
    """
    parameters, buffers = dict(module.named_parameters()), module.real_buffers()
    step = _Step(module, parameters, buffers)
    examples = module.arguments.tensors
    inputs = {name: value.detach().contiguous() for name, value in names.tensors(*module.in_model()).items()}
    if both := inputs.keys() & examples.keys():
        raise ValueError(f"two inputs of the step would be '{min(both)}': give the example inputs another name")
    inputs |= {name: value.detach().contiguous() for name, value in examples.items()}
    for name, value in inputs.items():
        if value.is_complex():
            raise TorchExportError(
                f"'{name}' has complex numbers, which no input of a step has: hold their parts in a real tensor, of "
                "which the model makes complex numbers by torch.view_as_complex"
            )
    with (
        explained("torch cannot trace the training step"),
        restored(module),
        torch.autocast("cpu", enabled=False),  # nobody runs a backward pass in it; the forward enters its own
        scopes.recorded(module.model),
    ):
        _prepare_layers(module.model)
        graph = trace(step, inputs, sizes, decompositions, _DIFFERENTIATED)
    if constant := held_constant(graph, {**parameters, **buffers}):
        raise TorchExportError(
            f"the step would use the value of '{_in_model(constant)}' as a constant: the model reads it past its module"
        )
    attributes = _attributes(module)
    exchanged = {name: attributes[name] for name in step.exchanged}
    if lost := held_constant(graph, exchanged) or held_constant(graph, attributes, is_written=True):
        raise TorchExportError(
            f"the model's forward changes '{_in_model(lost)}', a tensor that is neither parameter nor buffer, and each "
            "step would begin with its value of now: register it as a buffer"
        )
    if changes_windows(graph):
        raise TorchExportError(
            "the model changes what `unfold` returns, a view of a tensor, in place: write it with torch.where"
        )
    check_second_pass(module, examples)
    graph.graph.eliminate_dead_code()  # complex constants whose parts were computed
    if (operator := complex_operator(graph)) is not None:
        raise TorchExportError(
            f"the step computes complex numbers, which no operator of ONNX takes, by {operator}: make them of real "
            "tensors in the model's forward, by torch.complex, view_as_complex, polar, fft or stft"
        )
    scopes.complete(graph)
    select_by_positions(graph, _limits(graph, inputs, sizes))
    leave_out_views(graph.graph)
    keep_axes_apart(graph.graph)
    multiply_by_signs(graph.graph)
    expand_by_tensors(graph)
    trained = tuple(map(_in_model, step.trained))
    first = 1 + len(trained)
    own = [name for name in inputs if name not in examples]
    changed, written = changed_inputs(graph, range(first, first + len(own)))
    for position in changed:
        if position in step.asked:
            name, place = step.asked[position]
            raise TorchExportError(
                f"the numbers in '{name}' decide which way the computation takes, in {place}, and the step changes "
                "them: a graph is the same for all steps. If only the first pass changes them, run the model on the "
                "example inputs before the export; else write this part without `if`, e.g. with torch.where"
            )
    node = graph.graph.output_node()  # the code of the graph in Python, which nothing runs, stays
    node.args = (tuple(node.args[0][position] for position in [*range(first), *(first + at for at in changed)]),)
    graph.graph.eliminate_dead_code()  # a size that a number has replaced would be asked for once more
    new = (names.new(own[position]) for position in changed)
    outputs = (names.LOSS, *map(names.gradient, trained), *new)
    everything = list(inputs)
    return Joint(graph, inputs, tuple(examples), trained, outputs, frozenset(everything[number] for number in written))


def _limits(graph: fx.GraphModule, inputs: Iterable[str], sizes: SymbolicSizes) -> list[tuple[Any, int]]:
    """Return the symbolic sizes of a graph's inputs that have a largest number, with it."""
    return [
        (node.meta["val"].shape[axis], size.factor * size.symbol.most)
        for node, name in zip(graph.graph.find_nodes(op="placeholder"), inputs, strict=True)
        for axis, size in sizes.get(name, {}).items()
        if size.symbol.most is not None
    ]


def _prepare_layers(model: nn.Module) -> None:
    """Let layers whose statistics are the averages of all batches take the weight of a batch from their buffer.

    An AdaptiveLogSoftmaxWithLoss computes all clusters for all rows, since no graph chooses rows by their targets: a
    cluster without a target has the gradient 0, where that of eager PyTorch is None.

    Raises `TorchExportError` for a layer that computes with the memory of its input.
    """
    for name, part in model.named_modules():
        if isinstance(part, _BatchNorm) and part.training and part.track_running_stats and part.momentum is None:
            part.momentum = OneByCount()
            part.momentum.layer = part
        if isinstance(part, nn.AdaptiveLogSoftmaxWithLoss):
            part.forward = partial(_adaptive_log_softmax, part)
        if isinstance(part, nn.CrossMapLRN2d):
            raise TorchExportError(
                f"the CrossMapLRN2d '{name}' computes in PyTorch's memory, which no graph can: use a LocalResponseNorm"
            )


def _adaptive_log_softmax(layer: nn.AdaptiveLogSoftmaxWithLoss, x: Tensor, target: Tensor) -> Any:
    """Return the logarithms of the probabilities of targets, and minus their mean."""
    logarithms = layer.log_prob(x if target.ndim else x.unsqueeze(0))
    found = logarithms.gather(-1, target.reshape(-1, 1)).reshape(target.shape)
    return _ASMoutput(found, -found.mean())


class _Step:
    """The function that is traced, within `restored`.

    Its results are the loss, the gradients of `trained`, and parameters and buffers as they are afterwards.
    `exchanged` are the other tensors of the module in whose place it put other values. `asked` has, by position,
    the inputs whose numbers decide which way the computation takes: their names, and the function that asks.
    """

    def __init__(self, module: WithLoss, parameters: dict[str, nn.Parameter], buffers: dict[str, Tensor]) -> None:
        self._module = module
        self._parameters, self._buffers = parameters, buffers
        self.trained: list[str] = []
        self.exchanged: list[str] = []
        self.asked: dict[int, tuple[str, str]] = {}

    def __call__(self, *values: Tensor) -> tuple[Tensor, ...]:
        own = {**self._parameters, **self._buffers}
        given = {
            tensor: value.detach().requires_grad_(tensor.requires_grad)
            for tensor, value in zip(own.values(), values, strict=False)
        }
        replace(self._module, given)
        before = _attributes(self._module)
        pairs = zip(values, own.values(), strict=False)
        rewritten = Rewritten({value: tensor for value, tensor in pairs if not tensor.requires_grad})
        with torch.enable_grad(), rewritten, DataIsCopied():
            loss = self._module(*values[len(own) :])
            # The backward pass may compute parts of the forward pass again, and change buffers again.
            gradients = self._gradients(_scalar(loss), _seed_of(loss) if rewritten.selects else None)
        self.asked = {
            position: (_in_model(name), rewritten.asked[value])
            for position, (name, value) in enumerate(zip(own, values, strict=False))
            if value in rewritten.asked
        }
        self.trained = list(gradients)
        now = _attributes(self._module)
        self.exchanged = [name for name, tensor in before.items() if now.get(name) is not tensor]
        after = dict(self._module.named_parameters()) | dict(self._module.named_buffers())
        for name, value in zip(own, values, strict=False):
            _check_same_form(_in_model(name), value, after[name])
        return loss.detach(), *gradients.values(), *(after[name].detach() for name in own)

    def _gradients(self, loss: Tensor, seed: Tensor | None) -> dict[str, Tensor]:
        """Return the gradient of every weight that needs one and that the loss depends on, of which that is `seed`."""
        wanted = {name: weight for name, weight in self._module.named_parameters() if weight.requires_grad}
        if not wanted:
            raise TorchExportError("no parameter of the model has requires_grad, so there is nothing to train")
        if not loss.requires_grad:
            raise TorchExportError("the loss does not depend on a parameter that has requires_grad")
        note_backward_of(loss)
        try:
            with WithoutRandomNumbers():
                found = torch.autograd.grad(loss, list(wanted.values()), seed, allow_unused=True)
        except RandomNumbersInBackwardError as error:
            raise TorchExportError(
                f"the backward pass draws random numbers again, by {error}: a dropout layer in a part with activation "
                "checkpointing would have another mask. Export the model without checkpointing, and let the forward of "
                "a torch.autograd.Function draw the numbers of its backward"
            ) from error
        return {name: value for name, value in zip(wanted, found, strict=True) if value is not None}


def _seed_of(loss: Tensor) -> Tensor:
    """Return the gradient 1 of a loss, computed from the loss: it runs before the backward pass, in one part with it.

    Beside the CANN provider, no value may go into another part whose size the numbers in a tensor decide.
    """
    return (~loss.lt(loss)).to(loss.dtype)


def _check_same_form(name: str, before: Tensor, after: Tensor) -> None:
    """Raise `TorchExportError` if a tensor has another shape or type after the step, whose input it is."""
    was, found = (f"{tuple(value.shape)} of {value.dtype}" for value in (before, after))  # symbolic sizes by name
    if found != was:
        raise TorchExportError(
            f"the model's forward gives the buffer '{name}' another shape or type, {found} in place of {was}, and all "
            "steps are one graph: run the model on the example inputs before the export, or register the buffer so"
        )


def _attributes(module: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of a module that are neither parameters nor buffers, by name."""
    return {
        f"{path}.{name}": value
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if isinstance(value, Tensor)
    }


def _scalar(loss: Any) -> Tensor:
    """Return the loss. Raises `TorchExportError` unless it is a tensor with one number."""
    if not isinstance(loss, Tensor):
        raise TorchExportError(f"the loss is a {type(loss).__name__}; a step needs a tensor with one number")
    if loss.numel() != 1:
        raise TorchExportError(
            f"the loss has the shape {tuple(loss.shape)}; a step needs a scalar, e.g. the mean: reduction='mean'. "
            "Without a loss of its own (loss=None), the model has to return it"
        )
    return loss


def _in_model(name: str) -> str:
    """Return the name that the model has for a tensor of `WithLoss`; a tensor of the loss keeps the prefix `loss.`."""
    return name.removeprefix("model.")
