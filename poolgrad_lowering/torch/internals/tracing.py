# SPDX-License-Identifier: Apache-2.0

"""Traces functions of tensors, with the gradients that they compute, and what a trace asks of numbers and sizes."""

from __future__ import annotations

import builtins
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, fx
from torch._decomp import get_decompositions
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._library.utils import lookup_op
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
    StatelessSymbolicContext,
    free_unbacked_symbols,
    is_concrete_int,
    statically_known_true,
)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import resolve_name

from poolgrad_lowering.torch.dynamic_shapes import Symbol, SymbolicSize, SymbolicSizes
from poolgrad_lowering.torch.internals.modes import without_one_dnn
from poolgrad_lowering.torch.internals.sizes import read_sizes
from poolgrad_lowering.torch.internals.symbols import PlacedShapes, Symbols, powers_divided


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
    shapes = PlacedShapes(trace.__code__, duck_shape=False)
    mode = FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True)
    symbols = Symbols(shapes)
    fakes = [_fake(mode, name, tensor, sizes.get(name, {}), symbols) for name, tensor in inputs.items()]
    # Symbolic sizes need the dispatcher in Python; tensors made from them need the mode. The gradient of a fused
    # attention has no translation to ONNX, that of its formula does; neither has oneDNN's operator of an LSTM.
    with (
        mode,
        without_one_dnn(),
        powers_divided(),
        patch.object(builtins, "len", _first_size),
        patch.object(builtins, "max", partial(_of_symbols, max, torch.sym_max)),
        patch.object(builtins, "min", partial(_of_symbols, min, torch.sym_min)),
        patch.object(torch.nn.Module, "_apply", _applied),
        # No graph can ask whether the arguments of a distribution are valid, nor compare the numbers of a mask with
        # those of the causal mask, which has a faster kernel.
        patch.object(Distribution, "_validate_args", False),
        patch.object(
            torch.nn.modules.transformer,
            "_detect_is_causal_mask",
            lambda mask, is_causal=None, size=None: is_causal is True,  # noqa: ARG005
        ),
        enable_python_dispatcher(),
        torch.autograd.set_detect_anomaly(False),  # it asks for the numbers in gradients
        _decomposed(differentiated),
        sdpa_kernel(SDPBackend.MATH),
        traceback.preserve_node_meta(),
    ):
        graph: fx.GraphModule = make_fx(function, decomposition_table=decompositions, _allow_non_fake_inputs=True)(
            *fakes
        )
    symbols.check_conditions()
    for symbol, least in symbols.narrowed().items():
        if not _takes_least(graph, inputs, sizes, symbol):
            said = f"torch.export.Dim('{symbol.name}', min={least}) in dynamic_shapes says so"
            what = f"the step takes sizes '{symbol.name}' from {least} on: {said}"
            warnings.warn(what, UserWarning, stacklevel=4)
    read_sizes(graph.graph)
    return graph


def _takes_least(graph: fx.GraphModule, inputs: Mapping[str, Tensor], sizes: SymbolicSizes, symbol: Symbol) -> bool:
    """Whether the operators of a graph take the least value of a symbol, beside the sizes that the inputs have."""
    given = []
    logger = logging.getLogger(FakeTensorMode.__module__)  # an operator that refuses its operands is expected
    with FakeTensorMode(allow_non_fake_inputs=True), patch.object(logger, "disabled", True):
        for name, tensor in inputs.items():
            shape = list(tensor.shape)
            for axis, size in sizes.get(name, {}).items():
                shape[axis] = size.factor * symbol.least if size.symbol == symbol else shape[axis]
            given.append(torch.empty(shape, dtype=tensor.dtype))
        try:
            graph(*given)
        except Exception:  # torch raises errors of many classes
            return False
    return True


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


is_number = is_concrete_int
"""Whether a size is a number, or a sum of symbolic sizes that is one for all of their values."""


def asked_of(error: Exception) -> set[Any]:
    """Return the symbols in the condition that a trace cannot answer."""
    return set(error.cond.free_symbols) if isinstance(error, GuardOnDataDependentSymNode) else set()


def name_of(function: Any) -> str:
    """Return the name that a function of torch has for its users."""
    return resolve_name(function) or str(getattr(function, "__name__", function))


GROUPED_MM = torch._grouped_mm  # noqa: SLF001 - what torch.nn.functional.grouped_mm calls
"""The function that multiplies groups of rows by a matrix each."""

below_autograd = torch._C._AutoDispatchBelowAutograd  # noqa: SLF001 - there is no other way
"""While it is active, autograd sees no operator."""

decompositions_of = get_decompositions
"""torch's decompositions of operators, including those of operators that an export keeps."""

_OF_EACH = torch._C.DispatchKey.CompositeExplicitAutograd  # noqa: SLF001 - there is no other way
OF_LISTS: dict[Any, Callable[..., Any]] = {
    operator: partial(operator._op_dk, _OF_EACH)  # noqa: SLF001
    for name in torch._C._dispatch_get_registrations_for_dispatch_key(_OF_EACH.name)  # noqa: SLF001
    if name.startswith("aten::_foreach_")
    for operator in [lookup_op(name)]
}
"""torch's kernels of operators of lists of tensors that call the operator of each tensor."""


def _fake(
    mode: FakeTensorMode, name: str, tensor: Tensor, sizes: Mapping[int, SymbolicSize], symbols: Symbols
) -> Tensor:
    """Return a tensor without data that has the sizes of this one as integers, but for the symbolic ones."""
    if not sizes:
        context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.STATIC] * tensor.ndim)
        return mode.from_tensor(tensor.detach(), source=ConstantSource(name), symbolic_context=context)
    shape: list[int | torch.SymInt] = list(tensor.shape)
    for axis, (factor, symbol) in sizes.items():
        shape[axis] = factor * symbols.size(symbol, tensor.shape[axis] // factor)
    with mode:
        return torch.empty(shape, dtype=tensor.dtype)


_apply = torch.nn.Module._apply  # noqa: SLF001 - what `to`, `float` and `cpu` of a module call


def _applied(module: torch.nn.Module, function: Callable[[Tensor], Tensor], recurse: bool = True) -> torch.nn.Module:
    """Leave a module as it is that is on the device, and in the type, to which its forward moves it.

    Others are torch's, which cannot exchange the tensors of a trace.
    """
    tensors = (*module.parameters(recurse), *module.buffers(recurse))
    return module if all(function(each) is each for each in tensors) else _apply(module, function, recurse)


_length = len


def _first_size(of: Any, /) -> Any:
    """Return the first size of a tensor, which may be symbolic, in place of its length: that of Python is a number."""
    return of.shape[0] if isinstance(of, Tensor) and of.ndim else _length(of)


def _of_symbols(plain: Callable[..., Any], symbolic: Callable[..., Any], /, *values: Any, **named: Any) -> Any:
    """Return the larger or smaller of two numbers, of which one may be decided by the numbers in a tensor."""
    is_symbolic = len(values) == _PAIR and not named and any(isinstance(each, _SYMBOLS) for each in values)
    return symbolic(*values) if is_symbolic and unknown_sizes(values) else plain(*values, **named)


_PAIR = 2
_SYMBOLS = (torch.SymInt, torch.SymFloat)


@contextmanager
def _decomposed(functions: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """While it is active, autograd sees in place of operators what they are computed from, as of torch's own functions.

    A function that returns `NotImplemented` leaves the arguments to that of torch.
    """
    keys = torch._C.DispatchKey  # noqa: SLF001 - there is no other way
    composite, of_gradients = keys.CompositeImplicitAutograd, keys.AutogradCPU

    def run(written: Callable[..., Any], own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        found = written(*args, **kwargs)
        return own(*args, **kwargs) if found is NotImplemented else found

    with ExitStack() as stack:
        for operator, written in functions.items():
            key = composite if operator.has_kernel_for_dispatch_key(composite) else of_gradients
            kernels = {key: partial(operator._op_dk, key)}  # noqa: SLF001
            if composite in operator.py_kernels:
                kernels = operator.py_kernels
            replaced = {key: partial(run, written, own) for key, own in kernels.items()}
            stack.callback(operator._dispatch_cache.clear)  # noqa: SLF001 - there is no other way
            stack.enter_context(patch.dict(operator.py_kernels, replaced))
            operator._dispatch_cache.clear()  # noqa: SLF001
        yield
