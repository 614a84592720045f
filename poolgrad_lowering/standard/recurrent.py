# SPDX-License-Identifier: Apache-2.0

"""LSTM and GRU, forward with what their gradients read, and their gradients, written out step by step.

With ⊙ the product of elements, σ the sigmoid, one bias b for both products, and ONNX's order of gates, a step is

    LSTM:  i, o, f = σ(x·Wᵀ + h·Rᵀ + b)    g = tanh(x·Wᵀ + h·Rᵀ + b)    c' = f⊙c + i⊙g    h' = o⊙tanh(c')
    GRU:   z, r = σ(x·Wᵀ + h·Rᵀ + b)       h' = (1 − z)⊙n + z⊙h
           n = tanh(x·Wᵀ + (r⊙h)·Rᵀ + b), with linear_before_reset n = tanh(x·Wᵀ + b + r⊙(h·Rᵀ + b'))

A gradient walks back through the steps. What it multiplies a state's gradient with does not depend on that gradient,
so it is computed for all steps at once. Sequences have the axes (steps, batch, elements) here; states have one step.
As in onnxruntime-training's kernels, the activations are those above. A direction that is reversed reads its operands
from the last step to the first; each direction is written for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from poolgrad_lowering.model.ir.bodies import Tensor, joined
from poolgrad_lowering.standard.definition import Call, defines

MOST_STEPS = 4096
"""With more steps, the nodes of a sequence would be too many."""
_OF_STEPS = ("X", "HAll", "CAll", "gates", "dHAll", "dX")
"""Sequences; all others but X and dX have directions as second axis, and states, weights and biases as first one."""


@dataclass(frozen=True)
class _Direction:
    """A direction of a node: which one of how many it is, and whether it goes from the last step to the first."""

    number: int
    count: int
    is_reversed: bool

    def operand(self, call: Call, name: str) -> Tensor:
        """Return the part of an operand, in the order in which the direction reads it."""
        value = call.tensor(name)
        if self.count > 1 and name != "X":
            value = value.part(int(name in _OF_STEPS), self.number, self.number + 1)
        return self.ordered(value, name)

    def ordered(self, value: Tensor, name: str) -> Tensor:
        """Return a value with its steps in the order of the direction, or back in that of X."""
        is_turned = self.is_reversed and name in _OF_STEPS
        return value.op("Slice", [-1], [-MOST_STEPS - 1], [0], [-1]) if is_turned else value


_DIRECTIONS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


def _in_each_direction(
    write: Callable[[Call, _Direction], Mapping[str, Tensor]],
) -> Callable[[Call], dict[str, Tensor]]:
    """Return a definition that joins the results of all directions; the gradients of X are added."""

    def written(call: Call) -> dict[str, Tensor]:
        reversals = _DIRECTIONS.get(call.attribute("direction", "forward"))
        if reversals is None:
            raise call.refuse(f"direction {call.attribute('direction')}")
        directions = [_Direction(number, len(reversals), each) for number, each in enumerate(reversals)]
        parts = [
            {name: direction.ordered(value, name) for name, value in write(call, direction).items()}
            for direction in directions
        ]
        if len(parts) == 1:
            return parts[0]
        first, second = parts
        dx = {"dX": first.pop("dX") + second.pop("dX")} if "dX" in first else {}
        return dx | {name: joined([first[name], second[name]], int(name in _OF_STEPS)) for name in first}

    return written


class _Sequence:
    """A node, its number of steps and the size of its states, W and R as matrices, and the biases of both products."""

    def __init__(self, call: Call, direction: _Direction, activations: Sequence[str]) -> None:
        """Raise `Refuse` for what onnxruntime-training's kernels do not have either."""
        only = [*activations] * direction.count
        found = [str(name).lower() for name in call.attribute("activations") or only]
        if found != only or call.attribute("activation_alpha") or call.attribute("activation_beta"):
            raise call.refuse(f"activations {found}")
        for name in ("input_forget", "layout"):
            if value := call.attribute(name, 0):
                raise call.refuse(f"{name} {value}")
        if call.attribute("clip") is not None:
            raise call.refuse("clip")
        for name in ("sequence_lengths", "P"):
            if call.has(name):
                raise call.refuse(f"an input {name}")
        steps, (directions, width, hidden) = call.count("X", 0), call.sizes("R")
        if not 0 < steps <= MOST_STEPS or directions != direction.count or not hidden or width % hidden:
            what = f"{steps} steps, of which at most {MOST_STEPS} are written out, with R of {call.shape('R')}"
            raise call.refuse(what)
        self.call, self.steps, self.hidden, self.width = call, steps, hidden, width
        self._direction = direction
        self.x = self.operand("X")
        self.weight = self.operand("W").reshape([width, call.count("W", 2)])
        self.recurrence = self.operand("R").reshape([width, hidden])
        self.biases: Sequence[Tensor | None] = (None, None)
        if call.has("B"):
            biases = self.operand("B")
            self.biases = [biases.part(1, start, start + width) for start in (0, width)]

    def operand(self, name: str) -> Tensor:
        """Return an input, of this direction."""
        return self._direction.operand(self.call, name)

    def split(self, *sources: Tensor) -> list[tuple[Tensor, ...]]:
        """Return the parts of sequences for each step."""
        return list(zip(*(source.split(0, [1] * self.steps) for source in sources), strict=True))

    def state(self, name: str, like: Tensor) -> Tensor:
        """Return a state that is an operand, or zeros of the shape of `like`."""
        return self.operand(name) if self.call.has(name) else like.op("Shape").op("ConstantOfShape")

    def inputs(self, bias: Tensor | None) -> tuple[list[Tensor], Tensor]:
        """Return what the gates of each step get from X, and a value that has a state's shape."""
        product = _plus(self.x @ self.weight.transpose([1, 0]), bias)
        steps = [step for (step,) in self.split(product)]
        return steps, steps[0].part(2, 0, self.hidden)


def _plus(value: Tensor, other: Tensor | None) -> Tensor:
    return value if other is None else value + other


def _results(hidden: Sequence[Tensor], gates: Sequence[Tensor]) -> dict[str, Tensor]:
    """The outputs that every forward pass has, from the hidden states and the gates of all steps."""
    return {"HAll": joined(hidden, 0).unsqueeze([1]), "gates": joined(gates, 0).unsqueeze([1]), "HFinal": hidden[-1]}


@defines("LSTMTraining", "an LSTM, its cells and its gates")
@_in_each_direction
def _lstm(call: Call, direction: _Direction) -> dict[str, Tensor]:
    sequence = _Sequence(call, direction, ("sigmoid", "tanh", "tanh"))
    size, rt, (bw, br) = sequence.hidden, sequence.recurrence.transpose([1, 0]), sequence.biases
    inputs, like = sequence.inputs(None if bw is None else _plus(bw, br))
    h, c = sequence.state("H0", like), sequence.state("C0", like)
    hidden, cells, gates = [], [], []
    for x in inputs:
        linear, cell = (x + h @ rt).split(2, [3 * size, size])
        s, g = linear.op("Sigmoid"), cell.op("Tanh")
        i, o, f = s.split(2, [size] * 3)
        c = f * c + i * g
        h = o * c.op("Tanh")
        hidden.append(h)
        cells.append(c)
        gates.append(joined([s, g], 2))
    return {**_results(hidden, gates), "CAll": joined(cells, 0).unsqueeze([1]), "CFinal": c}


@defines("GRUTraining", "a GRU, and its gates")
@_in_each_direction
def _gru(call: Call, direction: _Direction) -> dict[str, Tensor]:
    sequence = _Sequence(call, direction, ("sigmoid", "tanh"))
    size, rt, (bw, br) = sequence.hidden, sequence.recurrence.transpose([1, 0]), sequence.biases
    rt_zr, rt_n = rt.part(1, 0, 2 * size), rt.part(1, 2 * size, 3 * size)
    first = call.attribute("linear_before_reset", 0)
    inputs, like = sequence.inputs(bw if first or bw is None else _plus(bw, br))
    h = sequence.state("H0", like)
    hidden, gates = [], []
    for x in inputs:
        x_zr, x_n = x.split(2, [2 * size, size])
        if first:
            p_zr, p_n = _plus(h @ rt, br).split(2, [2 * size, size])
        else:
            p_zr = h @ rt_zr
        zr = (x_zr + p_zr).op("Sigmoid")
        z, r = zr.split(2, [size] * 2)
        n = (x_n + (r * p_n if first else (r * h) @ rt_n)).op("Tanh")
        h = n + z * (h - n)
        hidden.append(h)
        gates.append(joined([zr, n], 2))
    return _results(hidden, gates)


class _Saved(_Sequence):
    """The operands of a gradient as sequences.

    `gates` has those of all steps, `after` the states behind each step by "H" and "C", and `before` those before it;
    `gradients` are those of the last states.
    """

    def __init__(self, call: Call, direction: _Direction, activations: Sequence[str], states: str) -> None:
        super().__init__(call, direction, activations)
        self.gates = self._squeezed("gates")
        self.after = {state: self._squeezed(f"{state}All") for state in states}
        like = self.after["H"].part(0, 0, 1)
        self.gradients = {state: self.state(f"d{state}Final", like) for state in states}
        self.before = {
            state: joined([self.state(f"{state}0", like), after.part(0, 0, self.steps - 1)], 0)
            for state, after in self.after.items()
        }
        self._arriving = self.split(self._squeezed("dHAll")) if call.has("dHAll") else [(None,)] * self.steps

    def _squeezed(self, name: str) -> Tensor:
        self.call.element_type(name)
        return self.operand(name).op("Squeeze", [1])

    def backwards(self, *sources: Tensor) -> Iterator[tuple[Tensor | None, tuple[Tensor, ...]]]:
        """Yield for each step, from the last one on, the gradient that its hidden state has as an output, and parts."""
        for (arriving,), parts in zip(self._arriving[::-1], self.split(*sources)[::-1], strict=True):
            yield arriving, parts

    def of_weights(self, da: Tensor, recurrent: Tensor) -> dict[str, Tensor]:
        """Return dX, dW and dB, from the gradients of the gates, and of the recurrent products."""
        biases = [each.reduced("ReduceSum", [0, 1]).unsqueeze([0]) for each in (da, recurrent)]
        d_w = _product(da, self.width, self.x, self.call.count("W", 2))
        return {"dX": da @ self.weight, "dW": d_w, "dB": joined(biases, 1)}


def _of_sigmoid(result: Tensor) -> Tensor:
    return result * (1 - result)


def _of_tanh(result: Tensor) -> Tensor:
    return 1 - result * result


def _product(gradients: Tensor, width: int, factors: Tensor, size: int) -> Tensor:
    """Σ gradientsᵀ · factors over all steps and the batch, (1, width, size)."""
    rows, columns = gradients.reshape([-1, width]), factors.reshape([-1, size])
    return (rows.transpose([1, 0]) @ columns).unsqueeze([0])


@defines("LSTMGrad", "the gradient of an LSTM")
@_in_each_direction
def _lstm_grad(call: Call, direction: _Direction) -> dict[str, Tensor]:
    """With e and s the gradients of h' and c': s += e⊙o⊙(1 − tanh²(c')), and each gate's is s or e by a factor."""
    saved = _Saved(call, direction, ("sigmoid", "tanh", "tanh"), "HC")
    i, o, f, g = saved.gates.split(2, [saved.hidden] * 4)
    t = saved.after["C"].op("Tanh")
    factors = joined([g * _of_sigmoid(i), t * _of_sigmoid(o), saved.before["C"] * _of_sigmoid(f), i * _of_tanh(g)], 2)
    dh, dc = saved.gradients["H"], saved.gradients["C"]
    gradients = []
    for arriving, (factor, to_cell, forget) in saved.backwards(factors, o * _of_tanh(t), f):
        e = _plus(dh, arriving)
        s = dc + e * to_cell
        gradients.append(joined([s, e, s, s], 2) * factor)
        dc, dh = s * forget, gradients[-1] @ saved.recurrence
    da = joined(gradients[::-1], 0)
    d_r = _product(da, saved.width, saved.before["H"], saved.hidden)
    return {"dH0": dh, "dC0": dc, "dR": d_r, **saved.of_weights(da, da)}


@defines("GRUGrad", "the gradient of a GRU")
@_in_each_direction
def _gru_grad(call: Call, direction: _Direction) -> dict[str, Tensor]:
    saved = _Saved(call, direction, ("sigmoid", "tanh"), "H")
    z, r, n = saved.gates.split(2, [saved.hidden] * 3)
    z_factor = (saved.before["H"] - n) * _of_sigmoid(z)
    n_factor = (1 - z) * _of_tanh(n)
    walk = _reset_after if call.attribute("linear_before_reset", 0) else _reset_before
    return walk(saved, (z, r), (z_factor, _of_sigmoid(r), n_factor))


def _reset_after(saved: _Saved, gates: Sequence[Tensor], factors: Sequence[Tensor]) -> dict[str, Tensor]:
    """The reset gate multiplies h·Rᵀ + b', so each gate's gradient is that of h' by a factor."""
    size, (z, r), (z_factor, r_slope, n_factor) = saved.hidden, gates, factors
    bias = saved.biases[1]
    reset = saved.before["H"] @ saved.recurrence.transpose([1, 0]).part(1, 2 * size, 3 * size)
    reset = _plus(reset, None if bias is None else bias.part(1, 2 * size, 3 * size))
    dh = saved.gradients["H"]
    gradients, of_hidden = [], []
    of_gates = joined([z_factor, n_factor * reset * r_slope, n_factor * r], 2)
    for arriving, (kept, factor) in saved.backwards(z, of_gates):
        e = _plus(dh, arriving)
        of_hidden.append(e)
        gradients.append(joined([e, e, e], 2) * factor)
        dh = e * kept + gradients[-1] @ saved.recurrence
    dr = joined(gradients[::-1], 0)
    da = joined([dr.part(2, 0, 2 * size), joined(of_hidden[::-1], 0) * n_factor], 2)
    return {"dH0": dh, "dR": _product(dr, saved.width, saved.before["H"], size), **saved.of_weights(da, dr)}


def _reset_before(saved: _Saved, gates: Sequence[Tensor], factors: Sequence[Tensor]) -> dict[str, Tensor]:
    """The reset gate multiplies h, so its gradient is that of the product r⊙h, by a factor."""
    size, before, (z, r), (z_factor, r_slope, n_factor) = saved.hidden, saved.before["H"], gates, factors
    recurrence_zr, recurrence_n = saved.recurrence.split(0, [2 * size, size])
    dh = saved.gradients["H"]
    of_zr, of_n = [], []
    for arriving, (kept, of_z, of_r, of_new, reset) in saved.backwards(z, z_factor, before * r_slope, n_factor, r):
        e = _plus(dh, arriving)
        of_n.append(e * of_new)
        v = of_n[-1] @ recurrence_n
        of_zr.append(joined([e * of_z, v * of_r], 2))
        dh = e * kept + of_zr[-1] @ recurrence_zr + v * reset
    dzr, dn = joined(of_zr[::-1], 0), joined(of_n[::-1], 0)
    da = joined([dzr, dn], 2)
    d_r = joined([_product(dzr, 2 * size, before, size), _product(dn, size, r * before, size)], 1)
    return {"dH0": dh, "dR": d_r, **saved.of_weights(da, da)}
