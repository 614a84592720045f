# SPDX-License-Identifier: Apache-2.0

"""The modules of a model that each node of a step belongs to, as torch's exporter writes them.

torch.onnx.export records the modules of a forward pass in the metadata of nodes. A step is traced twice, first by
autograd and then by the exporter, and its backward pass is called by no module. So the first trace notes the modules
with each operator, a backward operator gets those of the operator whose gradient it computes, and the second trace
passes them on. The place in the model's code, which a refusal names, is noted in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import onnx_ir as ir
import torch
from torch import fx, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from poolgrad_lowering.model.ir.metadata import NAME_SCOPES
from poolgrad_lowering.torch.explanations import PLACE, running_place
from poolgrad_lowering.torch.internals.graphs import annotate, annotation, backward_of
from poolgrad_lowering.torch.internals.tracing import trace

CLASSES = "pkg.torch.onnx.class_hierarchy"
"""The classes of the modules that `NAME_SCOPES` names, and the operator."""

_KEY = "poolgrad_modules"

Scopes = tuple[tuple[str, str], ...]
"""Path and class of each module, from the model to the innermost."""


@contextmanager
def recorded(model: nn.Module) -> Iterator[None]:
    """While it is active, note the modules of the model with each operator that is traced."""
    modules = {
        module: (path, f"{type(module).__module__}.{type(module).__qualname__}")
        for path, module in model.named_modules()
    }
    entered: list[tuple[Scopes, AbstractContextManager[None]]] = []

    def enter(module: nn.Module, _inputs: Any) -> None:
        if module in modules:
            scopes = (*(entered[-1][0] if entered else ()), modules[module])
            noted = annotate({_KEY: scopes})
            noted.__enter__()
            entered.append((scopes, noted))

    def leave(module: nn.Module, _inputs: Any, _output: Any) -> None:
        if module in modules:
            entered.pop()[1].__exit__(None, None, None)

    def place() -> str | None:
        return running_place(trace.__code__) or (f"the layer '{entered[-1][0][-1][0]}'" if entered else None)

    before, after = register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)
    with before, after, _WithPlaces(place):
        yield


class _WithPlaces(TorchFunctionMode):
    """While it is active, note the place in the model with each operator that is traced."""

    def __init__(self, place: Callable[[], str | None]) -> None:
        super().__init__()
        self._place = place

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        place = self._place()
        with nullcontext() if place is None else annotate({PLACE: place}):  # the backward pass has none
            return function(*args, **(kwargs or {}))


def complete(graph: fx.GraphModule) -> None:
    """Give every backward operator of a traced graph the modules and the place of its forward operator."""
    forward: dict[int, dict[str, Any]] = {}
    for node in graph.graph.nodes:
        number, is_backward = backward_of(node)
        if not is_backward and annotation(node).get(_KEY):
            forward.setdefault(number, annotation(node))
    for node in graph.graph.nodes:
        number, is_backward = backward_of(node)
        if is_backward and number in forward:
            node.meta["custom"] = {**forward[number], **annotation(node)}


def write(model: ir.Model, program: torch.export.ExportedProgram) -> None:
    """Write the modules of each node into its metadata, and remove all other metadata of the exporter.

    The exporter's own is about the code that was traced, with paths of this machine.
    """
    found = {node.name: annotation(node).get(_KEY) for node in program.graph.nodes}
    for node in model.graph:
        name = _last(node.metadata_props.get(NAME_SCOPES))
        operator = _last(node.metadata_props.get(CLASSES))
        node.metadata_props.clear()
        if scopes := found.get(name):
            node.metadata_props[NAME_SCOPES] = repr([*(path for path, _ in scopes), name])
            node.metadata_props[CLASSES] = repr([*(kind for _, kind in scopes), operator])


def _last(entries: str | None) -> str:
    """Return the last entry. Where the exporter wrote a function of Python with its address, it is the name alone."""
    last = entries.rpartition(", ")[2].strip("[]'\"<>") if entries else ""
    return last.removeprefix("function ").partition(" at ")[0]
