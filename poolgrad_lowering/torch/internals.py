# SPDX-License-Identifier: Apache-2.0

"""All of torch that is not public and that this package uses, without its ONNX exporter (`exporter_internals`).

A test says when torch moves it.
"""

from __future__ import annotations

import builtins
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from traceback import FrameSummary
from typing import Any, TypeAlias

import numpy as np
import torch
from sympy import Eq, Symbol
from sympy.logic.boolalg import Boolean
from torch import Tensor, fx
from torch._decomp import get_decompositions
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo import OptimizedModule
from torch._dynamo.source import ConstantSource
from torch._functorch._aot_autograd.logging_utils import setup_stacktrace_preservation_hooks
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.distributions import Distribution
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
    ShapeEnv,
    StatelessSymbolicContext,
    StrictMinMaxConstraint,
    free_unbacked_symbols,
    is_concrete_int,
    statically_known_true,
)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode, resolve_name
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
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from poolgrad_lowering.torch.dynamic_shapes import Symbol as SizeSymbol
from poolgrad_lowering.torch.dynamic_shapes import SymbolicSize, SymbolicSizes
from poolgrad_lowering.torch.errors import TorchExportError
from poolgrad_lowering.torch.explanations import function_of, is_of_a_model

aten = torch.ops.aten

_TRIED = 100
"""So many other sizes must fulfil a condition."""

Structure: TypeAlias = TreeSpec
"""How tuples, lists, dictionaries and torch's other trees hold their leaves."""


def trace(
    function: Callable[..., Sequence[Tensor]],
    inputs: Mapping[str, Tensor],
    sizes: SymbolicSizes,
    decompositions: Mapping[Any, Callable[..., Any]],
    differentiated: Mapping[Any, Callable[..., Any]],
) -> fx.GraphModule:
    """Return the graph of a function of tensors, with the gradients that the function computes by autograd.

    The inputs are contiguous. Operators of `differentiated` have the gradients of the functions that compute them.
    """
    mode = FakeTensorMode(shape_env=ShapeEnv(duck_shape=False), allow_non_fake_inputs=True)
    symbols = _Symbols(mode.shape_env)
    fakes = [_fake(mode, name, tensor, sizes.get(name, {}), symbols) for name, tensor in inputs.items()]
    # Symbolic sizes need the dispatcher in Python; tensors made from them need the mode. The gradient of a fused
    # attention has no translation to ONNX, that of its formula does; neither has oneDNN's operator of an LSTM.
    with (
        mode,
        without_one_dnn(),
        _masks_as_they_are(),
        _lengths_as_sizes(),
        _unchecked_distributions(),
        enable_python_dispatcher(),
        _decomposed(differentiated),
        sdpa_kernel(SDPBackend.MATH),
        traceback.preserve_node_meta(),
    ):
        graph: fx.GraphModule = make_fx(function, decomposition_table=decompositions, _allow_non_fake_inputs=True)(
            *fakes
        )
    symbols.check_conditions()
    return graph


NUMBERS_DECIDE = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
)
"""What torch raises if a trace depends on the numbers in a tensor."""


def unknown_sizes(result: Any) -> set[Any]:
    """Return the symbols in what a function of torch returns, and in its sizes, of what numbers in a tensor decide."""
    parts = result if isinstance(result, (list, tuple)) else [result]
    return {
        symbol
        for part in parts
        if isinstance(part, (Tensor, torch.SymInt, torch.SymFloat, torch.SymBool))
        for symbol in free_unbacked_symbols(part)
    }


def is_known(condition: bool | torch.SymBool) -> bool:
    """Whether a condition is true whatever symbolic sizes are, which is asked without a guard."""
    return bool(statically_known_true(condition))


def asked_of(error: Exception) -> set[Any]:
    """Return the symbols in the condition that a trace cannot answer."""
    return set(error.cond.free_symbols) if isinstance(error, GuardOnDataDependentSymNode) else set()


def name_of(function: Any) -> str:
    """Return the name that a function of torch has for its users."""
    return resolve_name(function) or str(getattr(function, "__name__", function))


@contextmanager
def _unchecked_distributions() -> Iterator[None]:
    """While it is active, torch.distributions does not ask whether its arguments are valid, which no graph can."""
    before = Distribution._validate_args  # noqa: SLF001
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


def _fake(
    mode: FakeTensorMode, name: str, tensor: Tensor, sizes: Mapping[int, SymbolicSize], symbols: _Symbols
) -> Tensor:
    """Return a tensor without data that has the sizes of this one as integers, but for the symbolic ones."""
    if not sizes:
        context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.STATIC] * tensor.ndim)
        fake: Tensor = mode.from_tensor(tensor.detach(), source=ConstantSource(name), symbolic_context=context)
        return fake
    shape: list[int | torch.SymInt] = list(tensor.shape)
    for axis, (factor, symbol) in sizes.items():
        shape[axis] = factor * symbols.size(symbol, tensor.shape[axis] // factor)
    with mode:
        return torch.empty(shape, dtype=tensor.dtype)


class _Symbols:
    """The symbolic sizes of a trace."""

    def __init__(self, shapes: ShapeEnv) -> None:
        self._shapes = shapes
        self._sizes: dict[SizeSymbol, torch.SymInt] = {}
        self._symbols: dict[Symbol, SizeSymbol] = {}

    def size(self, symbol: SizeSymbol, value: int) -> torch.SymInt:
        """Return the size of a symbol, which is `value` in the example inputs."""
        if symbol not in self._sizes:
            source = ConstantSource(symbol.name)
            span = ValueRanges(symbol.least, int_oo if symbol.most is None else symbol.most)
            own = self._shapes.create_symbol(
                value, source, DimDynamic.DYNAMIC, StrictMinMaxConstraint(vr=span, warn_only=False)
            )
            self._symbols[own] = symbol
            self._sizes[symbol] = self._shapes.create_symintnode(own, hint=value, source=source)
        return self._sizes[symbol]

    def check_conditions(self) -> None:
        """Raise `TorchExportError` if what was traced is right for some of the sizes alone.

        torch notes what was asked of sizes, and holds for those of the example inputs. An inequality that torch asks
        chooses between ways to the same numbers; all others must hold for any sizes, which is tried with some.
        """
        tried = list(self._others())
        for guard in self._shapes.guards:
            place = guard.sloc.framework_loc
            is_of_the_model = isinstance(place, FrameSummary) and is_of_a_model(place)
            if not (is_of_the_model or isinstance(guard.expr, Eq)) or all(_holds(guard.expr, each) for each in tried):
                continue
            asked = guard.expr.xreplace({own: Symbol(symbol.name) for own, symbol in self._symbols.items()})
            condition = f"{asked.lhs} = {asked.rhs}" if isinstance(asked, Eq) else str(asked)
            where = f", by what {function_of(place)} does with a size" if is_of_the_model else ""
            raise TorchExportError(
                f"the graph would be right only for {condition}{where}. A size stays symbolic where nothing makes it a "
                "number, as `int()`, `float()` and `range()` do, or compares it; else give it as a multiple "
                "('2*height') or a torch.export.Dim with a range, or leave it out"
            )

    def _others(self) -> Iterator[dict[Symbol, int]]:
        """Yield values of all symbols: the least ones, and others up to a million more, with more small ones."""
        yield {own: symbol.least for own, symbol in self._symbols.items()}
        random = np.random.default_rng(0)
        for _ in range(_TRIED):
            drawn = {own: symbol.least + int(2 ** random.uniform(0, 20)) for own, symbol in self._symbols.items()}
            yield {own: min(value, self._symbols[own].most or value) for own, value in drawn.items()}


def _holds(condition: Boolean, sizes: Mapping[Symbol, int]) -> bool:
    """Whether a condition holds for sizes, or says nothing of them, since they leave a tensor without elements."""
    try:
        return bool(condition.xreplace(sizes))
    except ZeroDivisionError:
        return True


@contextmanager
def _masks_as_they_are() -> Iterator[None]:
    """While it is active, transformer layers take a mask as it is.

    torch compares its numbers with those of the causal mask, which has a faster kernel.
    """
    layers = torch.nn.modules.transformer
    kept = layers._detect_is_causal_mask  # noqa: SLF001 - there is no other way
    try:
        layers._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True  # noqa: SLF001, ARG005
        yield
    finally:
        layers._detect_is_causal_mask = kept  # noqa: SLF001


@contextmanager
def _lengths_as_sizes() -> Iterator[None]:
    """While it is active, `len` of a tensor is its first size, which may be symbolic: that of Python is a number."""
    own = builtins.len

    def length(of: Any, /) -> Any:
        return of.shape[0] if isinstance(of, Tensor) and of.ndim else own(of)

    try:
        builtins.len = length
        yield
    finally:
        builtins.len = own


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


is_number = is_concrete_int
"""Whether a size is a number, or a sum of symbolic sizes that is one for all of their values."""


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

    Views stay in the type of what they show, and what an operator writes to in its own. New tensors are in float64,
    so that a model may write to them what it computes.
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
        found = operator(*args, **kwargs)
        return found if any(result.alias_info for result in results) else tree_map(_widened, found)


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
    for position, argument in enumerate(node.target._schema.arguments):  # noqa: SLF001
        if argument.alias_info is not None and argument.alias_info.is_write:
            given: Any = node.args[position] if position < len(node.args) else node.kwargs[argument.name]
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
