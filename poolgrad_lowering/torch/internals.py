# SPDX-License-Identifier: Apache-2.0

"""All of torch that is not public and that this package uses, without its ONNX exporter (`exporter_internals`).

A test says when torch moves it.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx
from torch._decomp import get_decompositions
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo import OptimizedModule
from torch._dynamo.source import ConstantSource
from torch._functorch._aot_autograd.logging_utils import setup_stacktrace_preservation_hooks
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import (
    GetAttrKey,
    MappingKey,
    SequenceKey,
    TreeSpec,
    tree_flatten_with_path,
    tree_map,
    tree_unflatten,
)

aten = torch.ops.aten

Structure: TypeAlias = TreeSpec
"""How tuples, lists, dictionaries and torch's other trees hold their leaves."""


def trace(
    function: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Tensor],
    symbolic: Iterable[int],
    decompositions: Mapping[Any, Callable[..., Any]],
    differentiated: Mapping[Any, Callable[..., Any]],
) -> fx.GraphModule:
    """Return the graph of a function of tensors, with the gradients that the function computes by autograd.

    The inputs at the positions `symbolic` have a symbolic first size, one symbol for equal sizes. Operators of
    `differentiated` have the gradients of the functions that compute them.
    """
    first_is_symbolic = frozenset(symbolic)
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    fakes = [_fake(mode, tensor, position, position in first_is_symbolic) for position, tensor in enumerate(inputs)]
    # Symbolic sizes need the dispatcher in Python; tensors made from them need the mode. The gradient of a fused
    # attention has no translation to ONNX, that of its formula does.
    with (
        mode,
        enable_python_dispatcher(),
        _decomposed(differentiated),
        sdpa_kernel(SDPBackend.MATH),
        traceback.preserve_node_meta(),
    ):
        graph: fx.GraphModule = make_fx(function, decomposition_table=decompositions, _allow_non_fake_inputs=True)(
            *fakes
        )
    return graph


def _fake(mode: FakeTensorMode, tensor: Tensor, position: int, symbolic: bool) -> Tensor:
    """Return a tensor without data that has the sizes of this one as integers, or the first one as a symbol."""
    sizes = [DimDynamic.STATIC] * tensor.ndim
    if symbolic:
        sizes[0] = DimDynamic.DYNAMIC
    fake: Tensor = mode.from_tensor(
        tensor.detach(),
        source=ConstantSource(f"input_{position}"),
        symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes),
    )
    return fake


@contextmanager
def _decomposed(functions: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """While it is active, autograd sees in place of operators what they are computed from, as of torch's own functions.

    A function that returns `NotImplemented` leaves the arguments to that of torch.
    """
    kept = {operator: dict(operator.py_kernels) for operator in functions}

    def run(written: Callable[..., Any], own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        found = written(*args, **kwargs)
        return own(*args, **kwargs) if found is NotImplemented else found

    try:
        for operator, written in functions.items():
            for key, own in kept[operator].items():
                operator.py_kernels[key] = partial(run, written, own)
            operator._dispatch_cache.clear()  # noqa: SLF001 - there is no other way
        yield
    finally:
        for operator, kernels in kept.items():
            operator.py_kernels.update(kernels)
            operator._dispatch_cache.clear()  # noqa: SLF001


def run_annotated(graph: fx.GraphModule, values: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Run a traced graph. If that is traced again, its nodes keep their annotations."""
    with traceback.preserve_node_meta():
        return tuple(fx.Interpreter(graph).run(*values))


CompiledModule = OptimizedModule
"""The class of a compiled module; the module itself is its attribute `_orig_mod`."""


decompositions_of = get_decompositions
"""torch's decompositions of operators, including those of operators that an export keeps."""


annotate = traceback.annotate
"""While it is active, a dictionary is noted with each operator that is traced."""


def annotation(node: fx.Node) -> dict[str, Any]:
    """Return what `annotate` noted with a node."""
    found: dict[str, Any] = node.meta.get("custom") or {}
    return found


def note_backward_of(result: Tensor) -> None:
    """During a trace, annotate each operator of the backward pass with the operator whose gradient it computes."""
    setup_stacktrace_preservation_hooks([result.grad_fn])


def backward_of(node: fx.Node) -> tuple[int, bool]:
    """Return the number that an operator and those of its gradient share, and whether the node is of the gradient."""
    return node.meta.get("seq_nr", -1), bool(node.meta.get("autograd_backward"))


@contextmanager
def expected_logs_are_left_out() -> Iterator[None]:
    """While it is active, the exporter does not log that torchvision, which no step needs, is not installed."""

    def is_unexpected(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("torchvision is not installed")

    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    logger.addFilter(is_unexpected)
    try:
        yield
    finally:
        logger.removeFilter(is_unexpected)


_DRAWING = (aten.rand, aten.rand_like, aten.randn, aten.randn_like)
"""The operators that are exported as random numbers. All other random operators are computed from these."""


class Draws(TorchDispatchMode):
    """While it is active, the uniform and normal random numbers that are drawn are kept in `values`, in their order.

    Operators with `decompositions`, which draw others, are computed from these. With `given`, these numbers take the
    place of those that would be drawn.
    """

    def __init__(self, decompositions: Mapping[Any, Callable[..., Any]], given: Sequence[Tensor] | None = None) -> None:
        super().__init__()
        self.values: list[Tensor] = []
        self._decompositions = decompositions
        self._given = None if given is None else iter(given)

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, or what takes its place."""
        if operator.overloadpacket in _DRAWING:
            drawn = operator(*args, **(kwargs or {})) if self._given is None else next(self._given).clone()
            self.values.append(drawn.clone())
            return drawn
        if operator in self._decompositions:
            with self:
                return self._decompositions[operator](*args, **(kwargs or {}))
        return operator(*args, **(kwargs or {}))


_SHORTER = (torch.float32, torch.float16, torch.bfloat16)


class InFloat64(TorchDispatchMode):
    """While it is active, operators compute in float64 in place of shorter floating-point types.

    Views stay in the type of what they show, and what an operator writes to in its own.
    """

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator on operands in float64, and with float64 as the type that it asks for."""
        arguments, results = operator._schema.arguments, operator._schema.returns  # noqa: SLF001 - there is no other way
        kwargs = dict(kwargs or {})
        if not any(result.alias_info and not result.alias_info.is_write for result in results):
            written = {argument.name for argument in arguments if argument.alias_info and argument.alias_info.is_write}
            named = zip((argument.name for argument in arguments), args, strict=False)
            args = tuple(value if name in written else tree_map(_widened, value) for name, value in named)
            kwargs = {name: value if name in written else tree_map(_widened, value) for name, value in kwargs.items()}
        return operator(*args, **kwargs)


def _widened(value: Any) -> Any:
    """Return a tensor in float64 if it is in a shorter type, float64 for a shorter type, and else the value."""
    if isinstance(value, Tensor):
        return value.double() if value.dtype in _SHORTER else value
    return torch.float64 if isinstance(value, torch.dtype) and value in _SHORTER else value


class RandomNumbersInBackwardError(RuntimeError):
    """Random numbers are drawn while gradients are computed."""


class OtherDataError(RuntimeError):
    """A tensor gets data of another shape or type."""


class WithoutRandomNumbers(TorchDispatchMode):
    """While it is active, raises `RandomNumbersInBackwardError` when an operator draws random numbers."""

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator unless it draws."""
        if torch.Tag.nondeterministic_seeded in operator.tags:
            raise RandomNumbersInBackwardError(str(operator))
        return operator(*args, **(kwargs or {}))


def held_constant(graph: fx.GraphModule, tensors: Mapping[str, Tensor], *, is_written: bool = False) -> str | None:
    """Return the name of a tensor that a traced graph holds as a constant; if `is_written`, it writes to it."""
    names = {tensor.data_ptr(): name for name, tensor in tensors.items() if tensor.numel()}
    writing = _written_memories(graph)
    for node in graph.graph.find_nodes(op="get_attr"):
        value: Any = getattr(graph, node.target, None)
        is_held = isinstance(value, Tensor) and value.numel() and value.data_ptr() in names
        if is_held and (not is_written or _memory(node) in writing):
            return names[value.data_ptr()]
    return None


def changed_inputs(graph: fx.GraphModule, results: range) -> tuple[list[int], list[int]]:
    """Return which of the first inputs of a traced graph changed, and which of all inputs it writes to, by position.

    The outputs at the positions `results` are these first inputs as they are after the graph, in their order. One has
    changed if the graph writes to it, or returns another tensor.
    """
    inputs = [_memory(node) for node in graph.graph.find_nodes(op="placeholder")]
    writing = _written_memories(graph)
    outputs: Any = graph.graph.output_node().args[0]
    after = [_memory(outputs[position]) for position in results]
    written = [position for position, memory in enumerate(inputs) if memory in writing]
    other = {position for position, memory in enumerate(after) if memory != inputs[position]}
    return sorted(other.union(written).intersection(range(len(after)))), written


def _written_memories(graph: fx.GraphModule) -> set[int]:
    """Return the memory of all tensors that a traced graph writes to."""
    return {_memory(operand) for node in graph.graph.nodes for operand in _written_operands(node)}


def _memory(node: fx.Node) -> int:
    """Return a number that tensors which share memory have in common."""
    found: int = node.meta["val"].untyped_storage()._cdata  # noqa: SLF001 - there is no other way
    return found


def _written_operands(node: fx.Node) -> Iterator[fx.Node]:
    """Yield the operands whose memory an operator writes to."""
    if not isinstance(node.target, torch._ops.OpOverload):  # noqa: SLF001
        return
    for argument, value in zip(node.target._schema.arguments, node.args, strict=False):  # noqa: SLF001
        given = node.kwargs.get(argument.name, value)
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from given if isinstance(given, (list, tuple)) else [given]


def return_only(graph: fx.GraphModule, positions: Iterable[int]) -> None:
    """Let a traced graph return only the outputs at these positions."""
    node = graph.graph.output_node()
    outputs: Any = node.args[0]
    node.args = (tuple(outputs[position] for position in positions),)
    graph.recompile()


class DataIsCopied(TorchFunctionMode):
    """While it is active, `tensor.data = value` copies the value: a trace records the copy, but not an assignment.

    Raises `OtherDataError` if the value has another shape or type.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the function, or the copy in its place."""
        if function != Tensor.data.__set__:
            return function(*args, **(kwargs or {}))
        tensor, value = args
        if (tensor.shape, tensor.dtype) != (value.shape, value.dtype):
            raise OtherDataError("the model gives `data` of a tensor another shape or type")
        with torch.no_grad():
            return tensor.data.copy_(value)


def has_gradient_hooks(parameter: Tensor) -> bool:
    """Whether functions are registered that change a parameter's gradient or read it."""
    registered = (getattr(parameter, name, None) for name in ("_backward_hooks", "_post_accumulate_grad_hooks"))
    return any(registered)


def complex_operator(graph: fx.GraphModule) -> str | None:
    """Return the first operator of a traced graph that has a complex result, or None."""
    for node in graph.graph.nodes:
        results = node.meta.get("val")
        for value in results if isinstance(results, (list, tuple)) else [results]:
            if isinstance(value, Tensor) and value.is_complex():
                return str(node.target)
    return None


def flatten(tree: Any) -> tuple[list[tuple[tuple[str, ...], Any]], Structure]:
    """Return the leaves of a tree, each with its path of positions, keys and attributes, and the tree's structure."""
    leaves, structure = tree_flatten_with_path(tree)
    return [(tuple(map(_step, path)), leaf) for path, leaf in leaves], structure


unflatten = tree_unflatten
"""Returns the tree with these leaves and this structure."""


def _step(key: Any) -> str:
    """Return a position, key or attribute of a path as text."""
    if isinstance(key, SequenceKey):
        return str(key.idx)
    if isinstance(key, MappingKey):
        return str(key.key)
    return str(key.name) if isinstance(key, GetAttrKey) else str(key)


@contextmanager
def uncompiled() -> Iterator[None]:
    """While it is active, compiled modules and functions run uncompiled, also in a trace."""
    with (
        warnings.catch_warnings(),
        torch._dynamo.config.patch(error_on_nested_fx_trace=False),  # noqa: SLF001
        torch.compiler.set_stance("force_eager"),
    ):
        warnings.filterwarnings("ignore", message="Using `torch.compile")  # of the hooks that note modules
        yield


@contextmanager
def without_one_dnn() -> Iterator[None]:
    """Switch oneDNN off.

    Its gradients of 16-bit 3-D convolutions are not initialised in torch 2.13, and its operator of an LSTM has no
    translation to ONNX.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TF32 acceleration")  # of a setting that stays as it is
        with torch.backends.mkldnn.flags(enabled=False):
            yield
