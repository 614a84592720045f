# SPDX-License-Identifier: Apache-2.0

"""LSTM and GRU, forward with what their gradients read, and their gradients, written out step by step.

With ⊙ the product of elements, σ the sigmoid, one bias b for both products, and ONNX's order of gates, a step is

    LSTM:  i, o, f = σ(x·Wᵀ + h·Rᵀ + b)    g = tanh(x·Wᵀ + h·Rᵀ + b)    c' = f⊙c + i⊙g    h' = o⊙tanh(c')
    GRU:   z, r = σ(x·Wᵀ + h·Rᵀ + b)       h' = (1 − z)⊙n + z⊙h
           n = tanh(x·Wᵀ + (r⊙h)·Rᵀ + b), with linear_before_reset n = tanh(x·Wᵀ + b + r⊙(h·Rᵀ + b'))

A gradient walks back through the steps. What it multiplies a state's gradient with does not depend on that gradient,
so it is computed for all steps at once. Sequences have the axes (steps, batch, elements) here; states have one step.
As in onnxruntime-training's kernels, there is one direction, and the activations are those above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from poolgrad_lowering.standard.definition import Call, Definition
from poolgrad_lowering.standard.nodes import ints, reduce, reshape, scalar, transpose, unsqueeze

MOST_STEPS = 4096
"""With more steps, the nodes of a sequence would be too many."""


class _Sequence(NamedTuple):
    """The number of steps, the size of a state, and the number of gates."""

    steps: int
    hidden: int
    gates: int

    @property
    def width(self) -> int:
        """The number of elements of all gates."""
        return self.gates * self.hidden


def _sequence(call: Call, activations: Sequence[str]) -> _Sequence:
    """Return what a definition covers. Raises `Refuse` for what onnxruntime-training's kernels do not have either."""
    found = [str(name).lower() for name in call.attribute("activations") or activations]
    if found != list(activations) or call.attribute("activation_alpha") or call.attribute("activation_beta"):
        raise call.refuse(f"activations {found}")
    for name, only in (("direction", "forward"), ("input_forget", 0), ("layout", 0)):
        if (value := call.attribute(name, only)) != only:
            raise call.refuse(f"{name} {value}")
    if call.attribute("clip") is not None:
        raise call.refuse("clip")
    for name in ("sequence_lengths", "P"):
        if call.has(name):
            raise call.refuse(f"an input {name}")
    steps, (directions, width, hidden) = call.count("X", 0), call.sizes("R")
    if not 0 < steps <= MOST_STEPS or directions != 1 or not hidden or width % hidden:
        raise call.refuse(f"{steps} steps, of which at most {MOST_STEPS} are written out, with R of {call.shape('R')}")
    return _Sequence(steps, hidden, width // hidden)


def _weights(call: Call, shape: _Sequence) -> str:
    """`weight` and `recurrence`, and `wt` and `rt`, which are transposed."""
    text = reshape("weight", "W", [shape.width, call.count("W", 2)])
    text += reshape("recurrence", "R", [shape.width, shape.hidden])
    return text + transpose("wt", "weight", [1, 0]) + transpose("rt", "recurrence", [1, 0])


def _biases(shape: _Sequence) -> str:
    """`bw` and `br` from B, (1, elements)."""
    return _part("bw", "B", 1, 0, shape.width) + _part("br", "B", 1, shape.width, 2 * shape.width)


def _split(names: Sequence[str], source: str, axis: int, sizes: Sequence[int]) -> str:
    if len(names) == 1:
        return f"{names[0]} = Identity({source})\n"
    label = f"{names[0]}_sizes"
    return ints(label, sizes) + f"{', '.join(names)} = Split<axis = {axis}>({source}, {label})\n"


def _part(result: str, source: str, axis: int, start: int, end: int) -> str:
    text = ints(f"{result}_start", [start]) + ints(f"{result}_end", [end]) + ints(f"{result}_axis", [axis])
    return text + f"{result} = Slice({source}, {result}_start, {result}_end, {result}_axis)\n"


def _steps(name: str, source: str, steps: int) -> str:
    """`name` and the number of a step for each step of a sequence."""
    return _split(_numbered(name, steps), source, 0, [1] * steps)


def _numbered(name: str, steps: int) -> list[str]:
    return [f"{name}_{step}" for step in range(steps)]


def _joined(result: str, name: str, steps: int) -> str:
    return f"{result} = Concat<axis = 0>({', '.join(_numbered(name, steps))})\n"


def _state(call: Call, name: str, result: str) -> str:
    """A state that is an operand, or zeros of the shape of `like`."""
    if call.has(name):
        return f"{result} = Identity({name})\n"
    return f"{result}_shape = Shape(like)\n{result} = ConstantOfShape({result}_shape)\n"


def _results(shape: _Sequence) -> str:
    """The outputs that every forward pass has, from `h_0`, … and `gates_0`, …."""
    text = _joined("h_all", "h", shape.steps) + _joined("all_gates", "gates", shape.steps)
    text += unsqueeze("HAll", "h_all", [1]) + unsqueeze("gates", "all_gates", [1])
    return text + f"HFinal = Identity(h_{shape.steps - 1})\n"


def _inputs(call: Call, shape: _Sequence, bias: str) -> str:
    """`x_0`, …: what the gates of each step get from X, with a bias of `bw` and `br`; `like` has a state's shape."""
    text = "product = MatMul(X, wt)\n"
    text += _biases(shape) + f"bias = {bias}\n" if call.has("B") else ""
    text += f"x_gates = {'Add(product, bias)' if call.has('B') else 'Identity(product)'}\n"
    return text + _steps("x", "x_gates", shape.steps) + _part("like", "x_0", 2, 0, shape.hidden)


def _lstm(call: Call) -> str:
    shape = _sequence(call, ("sigmoid", "tanh", "tanh"))
    size = shape.hidden
    text = _weights(call, shape) + _inputs(call, shape, "Add(bw, br)")
    text += _state(call, "H0", "h") + _state(call, "C0", "c")
    h, c = "h", "c"
    for step in range(shape.steps):
        text += f"p_{step} = MatMul({h}, rt)\na_{step} = Add(x_{step}, p_{step})\n"
        text += _split((f"linear_{step}", f"cell_{step}"), f"a_{step}", 2, [3 * size, size])
        text += f"s_{step} = Sigmoid(linear_{step})\ng_{step} = Tanh(cell_{step})\n"
        text += _split((f"i_{step}", f"o_{step}", f"f_{step}"), f"s_{step}", 2, [size] * 3)
        text += f"new_{step} = Mul(i_{step}, g_{step})\nkept_{step} = Mul(f_{step}, {c})\n"
        text += f"c_{step} = Add(kept_{step}, new_{step})\nt_{step} = Tanh(c_{step})\n"
        text += f"h_{step} = Mul(o_{step}, t_{step})\ngates_{step} = Concat<axis = 2>(s_{step}, g_{step})\n"
        h, c = f"h_{step}", f"c_{step}"
    text += _joined("c_all", "c", shape.steps) + unsqueeze("CAll", "c_all", [1])
    return text + _results(shape) + f"CFinal = Identity({c})\n"


def _gru(call: Call) -> str:
    shape = _sequence(call, ("sigmoid", "tanh"))
    size, first = shape.hidden, call.attribute("linear_before_reset", 0)
    text = _weights(call, shape) + _part("rt_zr", "rt", 1, 0, 2 * size) + _part("rt_n", "rt", 1, 2 * size, 3 * size)
    text += _inputs(call, shape, "Identity(bw)" if first else "Add(bw, br)")
    text += _state(call, "H0", "h")
    h = "h"
    for step in range(shape.steps):
        text += _split((f"xzr_{step}", f"xn_{step}"), f"x_{step}", 2, [2 * size, size])
        if first:
            text += f"q_{step} = MatMul({h}, rt)\n"
            text += f"p_{step} = {f'Add(q_{step}, br)' if call.has('B') else f'Identity(q_{step})'}\n"
            text += _split((f"pzr_{step}", f"pn_{step}"), f"p_{step}", 2, [2 * size, size])
        else:
            text += f"pzr_{step} = MatMul({h}, rt_zr)\n"
        text += f"azr_{step} = Add(xzr_{step}, pzr_{step})\nzr_{step} = Sigmoid(azr_{step})\n"
        text += _split((f"z_{step}", f"r_{step}"), f"zr_{step}", 2, [size] * 2)
        if first:
            text += f"u_{step} = Mul(r_{step}, pn_{step})\n"
        else:
            text += f"rh_{step} = Mul(r_{step}, {h})\nu_{step} = MatMul(rh_{step}, rt_n)\n"
        text += f"an_{step} = Add(xn_{step}, u_{step})\nn_{step} = Tanh(an_{step})\n"
        text += f"d_{step} = Sub({h}, n_{step})\nzd_{step} = Mul(z_{step}, d_{step})\n"
        text += f"h_{step} = Add(n_{step}, zd_{step})\ngates_{step} = Concat<axis = 2>(zr_{step}, n_{step})\n"
        h = f"h_{step}"
    return text + _results(shape)


def _saved(call: Call, shape: _Sequence, states: Sequence[str]) -> str:
    """The operands of a gradient as sequences.

    For each of the states "h" and "c": `h_all`, the state `h_first` before the first step, and `h_before` each step.
    For the gates `all_gates`, for the gradients of all hidden states `dh_0`, …, if there are any.
    """
    text = ints("direction", [1]) + "all_gates = Squeeze(gates, direction)\n"
    text += scalar("one", 1, call.element_type("X"))
    for state in states:
        text += f"{state}_all = Squeeze({state.upper()}All, direction)\n"
    text += _part("like", "h_all", 0, 0, 1)
    for state in states:
        text += _state(call, f"{state.upper()}0", f"{state}_first")
        text += _state(call, f"d{state.upper()}Final", f"d{state}")
        text += _part(f"{state}_after", f"{state}_all", 0, 0, shape.steps - 1)
        text += f"{state}_before = Concat<axis = 0>({state}_first, {state}_after)\n"
    if call.has("dHAll"):
        text += "dh_all = Squeeze(dHAll, direction)\n" + _steps("dh", "dh_all", shape.steps)
    return text


def _arriving(call: Call, step: int, gradient: str) -> str:
    """`e` and the step's number: the gradient of the hidden state after a step."""
    return f"e_{step} = {f'Add({gradient}, dh_{step})' if call.has('dHAll') else f'Identity({gradient})'}\n"


def _slope(result: str, activation: str, *, of_sigmoid: bool) -> str:
    """The derivative of a sigmoid or of a tanh by its result."""
    if of_sigmoid:
        return f"{result}_rest = Sub(one, {activation})\n{result} = Mul({activation}, {result}_rest)\n"
    return f"{result}_square = Mul({activation}, {activation})\n{result} = Sub(one, {result}_square)\n"


def _product(result: str, gradients: str, factors: str, width: int, size: int) -> str:
    """Σ gradientsᵀ · factors over all steps and the batch, (1, width, size)."""
    text = reshape(f"{result}_rows", gradients, [-1, width]) + reshape(f"{result}_columns", factors, [-1, size])
    text += transpose(f"{result}_turned", f"{result}_rows", [1, 0])
    text += f"{result}_sum = MatMul({result}_turned, {result}_columns)\n"
    return text + unsqueeze(result, f"{result}_sum", [0])


def _of_weights(call: Call, shape: _Sequence, recurrent: str) -> str:
    """dX, dW and dB, from the gradients `da` of the gates; `recurrent` are those of the recurrent products."""
    text = "dX = MatMul(da, weight)\n" + _product("dW", "da", "X", shape.width, call.count("W", 2))
    for name, gradients in (("dbw", "da"), ("dbr", recurrent)):
        text += reduce("ReduceSum", f"{name}_sum", gradients, [0, 1]) + unsqueeze(name, f"{name}_sum", [0])
    return text + "dB = Concat<axis = 1>(dbw, dbr)\n"


def _lstm_grad(call: Call) -> str:
    """With e and s the gradients of h' and c': s += e⊙o⊙(1 − tanh²(c')), and each gate's is s or e by a factor."""
    shape = _sequence(call, ("sigmoid", "tanh", "tanh"))
    size = shape.hidden
    text = _weights(call, shape) + _saved(call, shape, ("h", "c"))
    text += _split(("i", "o", "f", "g"), "all_gates", 2, [size] * 4) + "t = Tanh(c_all)\n"
    text += "".join(_slope(f"{gate}_slope", gate, of_sigmoid=gate in "iof") for gate in "iofgt")
    text += "to_cell = Mul(o, t_slope)\ni_factor = Mul(g, i_slope)\no_factor = Mul(t, o_slope)\n"
    text += "f_factor = Mul(c_before, f_slope)\ng_factor = Mul(i, g_slope)\n"
    text += "factors = Concat<axis = 2>(i_factor, o_factor, f_factor, g_factor)\n"
    for name, source in (("factor", "factors"), ("to_cell", "to_cell"), ("f", "f")):
        text += _steps(name, source, shape.steps)
    h, c = "dh", "dc"
    for step in reversed(range(shape.steps)):
        text += _arriving(call, step, h)
        text += f"cell_{step} = Mul(e_{step}, to_cell_{step})\ns_{step} = Add({c}, cell_{step})\n"
        text += f"terms_{step} = Concat<axis = 2>(s_{step}, e_{step}, s_{step}, s_{step})\n"
        text += f"da_{step} = Mul(terms_{step}, factor_{step})\n"
        text += f"dc_{step} = Mul(s_{step}, f_{step})\nback_{step} = MatMul(da_{step}, recurrence)\n"
        h, c = f"back_{step}", f"dc_{step}"
    text += _joined("da", "da", shape.steps) + f"dH0 = Identity({h})\ndC0 = Identity({c})\n"
    return text + _product("dR", "da", "h_before", shape.width, size) + _of_weights(call, shape, "da")


def _gru_grad(call: Call) -> str:
    shape = _sequence(call, ("sigmoid", "tanh"))
    size = shape.hidden
    text = _weights(call, shape) + _saved(call, shape, ("h",)) + _split(("z", "r", "n"), "all_gates", 2, [size] * 3)
    text += "".join(_slope(f"{gate}_slope", gate, of_sigmoid=gate != "n") for gate in "zrn")
    text += "difference = Sub(h_before, n)\nz_factor = Mul(difference, z_slope)\n"
    text += "z_rest = Sub(one, z)\nn_factor = Mul(z_rest, n_slope)\n" + _steps("z", "z", shape.steps)
    walk = _reset_after if call.attribute("linear_before_reset", 0) else _reset_before
    return text + walk(call, shape)


def _reset_after(call: Call, shape: _Sequence) -> str:
    """The reset gate multiplies h·Rᵀ + b', so each gate's gradient is that of h' by a factor."""
    size = shape.hidden
    text = _part("rt_n", "rt", 1, 2 * size, 3 * size) + "linear = MatMul(h_before, rt_n)\n"
    if call.has("B"):
        text += _biases(shape) + _part("br_n", "br", 1, 2 * size, 3 * size) + "reset = Add(linear, br_n)\n"
    else:
        text += "reset = Identity(linear)\n"
    text += "reset_factor = Mul(n_factor, reset)\nr_factor = Mul(reset_factor, r_slope)\n"
    text += "nr_factor = Mul(n_factor, r)\nfactors = Concat<axis = 2>(z_factor, r_factor, nr_factor)\n"
    text += _steps("factor", "factors", shape.steps)
    h = "dh"
    for step in reversed(range(shape.steps)):
        text += _arriving(call, step, h) + f"terms_{step} = Concat<axis = 2>(e_{step}, e_{step}, e_{step})\n"
        text += f"dr_{step} = Mul(terms_{step}, factor_{step})\nlast_{step} = MatMul(dr_{step}, recurrence)\n"
        text += f"kept_{step} = Mul(e_{step}, z_{step})\nback_{step} = Add(kept_{step}, last_{step})\n"
        h = f"back_{step}"
    text += _joined("dr", "dr", shape.steps) + _joined("e", "e", shape.steps)
    text += "dn = Mul(e, n_factor)\n" + _part("dzr", "dr", 2, 0, 2 * size) + "da = Concat<axis = 2>(dzr, dn)\n"
    text += _product("dR", "dr", "h_before", shape.width, size) + f"dH0 = Identity({h})\n"
    return text + _of_weights(call, shape, "dr")


def _reset_before(call: Call, shape: _Sequence) -> str:
    """The reset gate multiplies h, so its gradient is that of the product r⊙h, by a factor."""
    size = shape.hidden
    text = _split(("recurrence_zr", "recurrence_n"), "recurrence", 0, [2 * size, size])
    text += "r_factor = Mul(h_before, r_slope)\nreset = Mul(r, h_before)\n"
    for name, source in (("z_factor", "z_factor"), ("r_factor", "r_factor"), ("n_factor", "n_factor"), ("r", "r")):
        text += _steps(name, source, shape.steps)
    h = "dh"
    for step in reversed(range(shape.steps)):
        text += _arriving(call, step, h) + f"dn_{step} = Mul(e_{step}, n_factor_{step})\n"
        text += f"v_{step} = MatMul(dn_{step}, recurrence_n)\ndr_{step} = Mul(v_{step}, r_factor_{step})\n"
        text += f"dz_{step} = Mul(e_{step}, z_factor_{step})\ndzr_{step} = Concat<axis = 2>(dz_{step}, dr_{step})\n"
        text += f"last_{step} = MatMul(dzr_{step}, recurrence_zr)\nreset_{step} = Mul(v_{step}, r_{step})\n"
        text += f"kept_{step} = Mul(e_{step}, z_{step})\nsum_{step} = Add(kept_{step}, last_{step})\n"
        text += f"back_{step} = Add(sum_{step}, reset_{step})\n"
        h = f"back_{step}"
    text += _joined("dzr", "dzr", shape.steps) + _joined("dn", "dn", shape.steps) + f"dH0 = Identity({h})\n"
    text += "da = Concat<axis = 2>(dzr, dn)\n" + _product("dR_zr", "dzr", "h_before", 2 * size, size)
    text += _product("dR_n", "dn", "reset", size, size) + "dR = Concat<axis = 1>(dR_zr, dR_n)\n"
    return text + _of_weights(call, shape, "da")


DEFINITIONS = (
    Definition("GRUGrad", _gru_grad, "the gradient of a GRU"),
    Definition("GRUTraining", _gru, "a GRU, and its gates"),
    Definition("LSTMGrad", _lstm_grad, "the gradient of an LSTM"),
    Definition("LSTMTraining", _lstm, "an LSTM, its cells and its gates"),
)
