# SPDX-License-Identifier: Apache-2.0

"""Recurrent layers, step by step, with gradients of their own: a third of the operators that autograd has for them.

What a gradient is multiplied with does not depend on other steps, so it is computed for all steps at once. The weights
and biases of all steps have one product and one sum. A second derivative is that of the layer as autograd has it.

Shapes: T steps, a batch of N, H hidden features. The formulas are those of torch.nn.LSTM, GRU and RNN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from poolgrad_lowering.torch.internals.tracing import is_number

Tensors = Sequence[Tensor]


class Weights(NamedTuple):
    """The weights that every step reads: [gates·H, H], [gates·H], and the projection of an LSTM [P, H]."""

    hidden: Tensor
    bias: Tensor | None
    projection: Tensor | None

    def of(self, h: Tensor) -> Tensor:
        """Return the part of the gates that depends on the step before."""
        return functional.linear(h, self.hidden, self.bias)


class Cell(NamedTuple):
    """One step and its gradient. A state is h [N, H], of an LSTM h and c.

    `run` takes the gates of the input [N, gates·H], the state and the weights; it returns the next state, and what it
    keeps for the gradient. `factors` takes states before and what was kept, of all steps; it returns what the gradient
    multiplies with. `back` takes the gradients of h and c, the factors of a step and the weights; it returns the
    gradients of the input's gates, of `Weights.of`, and of the state before.
    """

    run: Callable[[Tensor, Tensors, Weights], tuple[Tensors, Tensors]]
    factors: Callable[..., Tensors]
    back: Callable[[Tensor, Tensor | None, Tensors, Weights], tuple[Tensor, Tensor, Tensors]]


def _run_lstm(gates: Tensor, state: Tensors, weights: Weights) -> tuple[Tensors, Tensors]:
    """Return i, f, o = σ(…), g = tanh(…); c' = f·c + i·g; h' = o·tanh(c'), times the projection if there is one."""
    h, c = state
    i, f, g, o = (weights.of(h) + gates).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    c = f * c + i * g
    of_c = c.tanh()
    raw = o * of_c
    h = raw if weights.projection is None else functional.linear(raw, weights.projection)
    return (h, c), (i, f, g, o, of_c, raw)


def _lstm_factors(
    _h: Tensor, c: Tensor, i: Tensor, f: Tensor, g: Tensor, o: Tensor, of_c: Tensor, _raw: Tensor
) -> Tensors:
    of_gates = torch.cat([g * i * (1 - i), c * f * (1 - f), i * (1 - g * g), of_c * o * (1 - o)], 2)
    return of_gates, o * (1 - of_c * of_c), f


def _lstm_back(dh: Tensor, dc: Tensor | None, factors: Tensors, weights: Weights) -> tuple[Tensor, Tensor, Tensors]:
    of_gates, of_c, f = factors
    raw = dh if weights.projection is None else _product(dh, weights.projection)
    dc = raw * of_c if dc is None else dc + raw * of_c
    gates = (torch.cat([dc, dc, dc, raw], 1) * of_gates).to(weights.hidden.dtype)
    return gates, gates, (_product(gates, weights.hidden), dc * f)


def _run_gru(gates: Tensor, state: Tensors, weights: Weights) -> tuple[Tensors, Tensors]:
    """Return r, z = σ(…); n = tanh(x_n + r·h_n); h' = n + z·(h − n)."""
    (h,) = state
    sizes = [2 * h.shape[1], h.shape[1]]
    (x_rz, x_n), (h_rz, h_n) = gates.split(sizes, 1), weights.of(h).split(sizes, 1)
    r, z = (x_rz + h_rz).sigmoid().chunk(2, 1)
    n = (x_n + r * h_n).tanh()
    return ((h - n) * z + n,), (r, z, n, h_n)


def _gru_factors(h: Tensor, r: Tensor, z: Tensor, n: Tensor, h_n: Tensor) -> Tensors:
    of_n = (1 - z) * (1 - n * n)
    of_rz = [of_n * h_n * r * (1 - r), (h - n) * z * (1 - z)]
    return torch.cat([*of_rz, of_n], 2), torch.cat([*of_rz, of_n * r], 2), z


def _gru_back(dh: Tensor, _dc: Tensor | None, factors: Tensors, weights: Weights) -> tuple[Tensor, Tensor, Tensors]:
    of_input, of_hidden, z = factors
    each = torch.cat([dh, dh, dh], 1)
    hidden = (each * of_hidden).to(weights.hidden.dtype)
    return each * of_input, hidden, (dh * z + _product(hidden, weights.hidden),)


def _rnn(activation: Callable[[Tensor], Tensor], factors: Callable[..., Tensors]) -> Cell:
    """Return the cell h' = activation(…); its gradient is a product, or that of ReLU a choice of elements."""

    def run(gates: Tensor, state: Tensors, weights: Weights) -> tuple[Tensors, Tensors]:
        h = activation(weights.of(state[0]) + gates)
        return (h,), (h,)

    def back(dh: Tensor, _dc: Tensor | None, factors: Tensors, weights: Weights) -> tuple[Tensor, Tensor, Tensors]:
        (factor,) = factors
        gates = torch.where(factor, dh, 0) if factor.dtype == torch.bool else dh * factor
        gates = gates.to(weights.hidden.dtype)
        return gates, gates, (_product(gates, weights.hidden),)

    return Cell(run, factors, back)


def _product(x: Tensor, weight: Tensor) -> Tensor:
    return x.to(weight.dtype) @ weight


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


def _split(x: Tensor) -> list[Tensor]:
    """Return the steps of [T, N, features], each [N, features]."""
    return list(x.flatten(0, 1).split(x.shape[1]) if is_number(x.shape[1]) else x.unbind(0))


def _joined(steps: Iterable[Tensor]) -> Tensor:
    each = list(steps)
    return torch.cat(each).reshape(len(each), *each[0].shape)


class _Unrolled(NamedTuple):
    """What a direction of a layer computes: per step in the order of time, and its last state."""

    before: list[Tensors]
    after: list[Tensors]
    kept: list[Tensors]
    last: Tensors

    @classmethod
    def of(cls, cell: Cell, times: Sequence[int], gates: Tensor, state: Tensors, weights: Weights) -> _Unrolled:
        steps = _split(gates)
        before: list[Any] = [()] * len(times)
        after, kept = before.copy(), before.copy()
        for time in times:
            before[time] = state
            state, kept[time] = cell.run(steps[time], state, weights)
            after[time] = state
        return cls(before, after, kept, state)

    @property
    def results(self) -> tuple[Tensor, ...]:
        return _joined(state[0] for state in self.after), *self.last


class _Pass(Function):
    """One direction of a layer. Its arguments are the cell, the order of steps, gates, weights and the first state."""

    @staticmethod
    def forward(ctx: Any, cell: Cell, times: Sequence[int], gates: Tensor, *given: Any) -> tuple[Tensor, ...]:
        weights, state = Weights(*given[:3]), given[3:]
        run = _Unrolled.of(cell, times, gates, state, weights)
        ctx.cell, ctx.times, ctx.run = cell, times, run
        ctx.save_for_backward(gates, *given)
        ctx.set_materialize_grads(False)
        return run.results

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, *of_last: Tensor | None) -> tuple[Tensor | None, ...]:
        gates, *given = ctx.saved_tensors
        weights = Weights(*given[:3])
        if torch.is_grad_enabled():
            return None, None, *_differentiable(ctx.cell, ctx.times, (gates, *given), (dy, *of_last))
        run: _Unrolled = ctx.run
        before, kept = ([_joined(parts) for parts in zip(*each, strict=True)] for each in (run.before, run.kept))
        factors = [_split(factor) for factor in ctx.cell.factors(*before, *kept)]
        of_outputs = [None] * len(ctx.times) if dy is None else _split(dy)
        state = of_last
        found: list[Any] = [None] * len(ctx.times)
        for time in reversed(ctx.times):
            dh = _sum(of_outputs[time], state[0])
            dh = torch.zeros_like(run.after[time][0]) if dh is None else dh
            of_c = state[1] if len(state) > 1 else None
            of_input, of_hidden, state = ctx.cell.back(dh, of_c, [each[time] for each in factors], weights)
            found[time] = of_input, of_hidden, dh
        of_input, of_hidden, dh = (_joined(parts) for parts in zip(*found, strict=True))
        by_step = of_hidden.flatten(0, 1).t()
        return (
            None,
            None,
            of_input,
            _product(by_step, before[0].flatten(0, 1)),
            None if weights.bias is None else of_hidden.sum((0, 1)),
            None if weights.projection is None else _product(dh.flatten(0, 1).t(), kept[-1].flatten(0, 1)),
            *state,
        )


def _differentiable(
    cell: Cell, times: Sequence[int], inputs: Sequence[Any], of_results: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Return the gradients of the inputs by operators that have gradients themselves."""
    given = [None if value is None else value.view_as(value) for value in inputs]  # each depends on no other
    gates, *weights_and_state = given
    run = _Unrolled.of(cell, times, gates, weights_and_state[3:], Weights(*weights_and_state[:3]))
    pairs = [(result, grad) for result, grad in zip(run.results, of_results, strict=True) if grad is not None]
    wanted = [value for value in given if value is not None and value.requires_grad]
    results, grads = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(results, wanted, grads, create_graph=True, allow_unused=True))
    return [next(found) if value is not None and value.requires_grad else None for value in given]


def _direction(
    cell: Cell, x: Tensor, state: Tensors, own: Tensors, *, has_biases: bool, reverse: bool
) -> tuple[Tensor, ...]:
    """Return the outputs [T, N, H] and the last state of one direction of a layer."""
    of_input, hidden, *rest = own
    in_bias, bias, *projection = rest if has_biases else (None, None, *rest)
    gates = functional.linear(x, of_input, in_bias)
    weights = [hidden.to(gates.dtype), None if bias is None else bias.to(gates.dtype)]
    weights.append(projection[0].to(gates.dtype) if projection else None)
    times = range(x.shape[0])
    return _Pass.apply(cell, times[::-1] if reverse else times, gates, *weights, *state)


def _layers(cell: Cell, run: Callable[..., Any], *given: Any) -> Any:
    """Return what torch's function `run` does, which stays for packed sequences and a symbolic length.

    Between layers is the dropout, which torch's decomposition leaves out.
    """
    x, hidden, weights, has_biases, count, dropout, train, bidirectional, batch_first = given
    if isinstance(weights, Tensor) or not is_number(x.shape[1 if batch_first else 0]):
        return run(*given)
    begun = [hidden] if isinstance(hidden, Tensor) else list(hidden)
    directions = 2 if bidirectional else 1
    each = len(weights) // (count * directions)
    x = x.transpose(0, 1) if batch_first else x  # as torch draws the numbers of a dropout
    states = []
    for layer in range(count):
        x = functional.dropout(x, dropout) if layer and train and dropout else x
        outputs = []
        for number in range(layer * directions, (layer + 1) * directions):
            first, own = [state[number] for state in begun], weights[number * each : (number + 1) * each]
            reverse = number % directions == 1
            y, *last = _direction(cell, x, first, own, has_biases=has_biases, reverse=reverse)
            outputs.append(y)
            states.append(last)
        x = torch.cat(outputs, -1) if bidirectional else outputs[0]
    return x.transpose(0, 1) if batch_first else x, *(torch.stack(parts) for parts in zip(*states, strict=True))


RECURRENT = {
    torch.lstm: partial(_layers, Cell(_run_lstm, _lstm_factors, _lstm_back), torch.lstm),
    torch.gru: partial(_layers, Cell(_run_gru, _gru_factors, _gru_back), torch.gru),
    torch.rnn_tanh: partial(_layers, _rnn(torch.tanh, lambda _, h: (1 - h * h,)), torch.rnn_tanh),
    torch.rnn_relu: partial(_layers, _rnn(torch.relu, lambda _, h: (h > 0,)), torch.rnn_relu),
}
"""What runs torch's functions of recurrent layers."""
