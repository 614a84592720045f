# SPDX-License-Identifier: Apache-2.0

"""What the gradients of average pools of a site divide by, from the lowered nodes and the sizes of a run.

Sums of quotients depend on their order, unless the quotients are small integers. So each element of an incoming
gradient is drawn as a multiple of the divisor of its window. If the lowered node states another divisor than the
original has, only the results of the original are rounded, and the results differ.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import chain

import numpy as np
from onnx import ModelProto
from onnx.numpy_helper import to_array

from poolgrad_lowering.model.ir.tensors import constant_tensor
from poolgrad_lowering.verification.arrays import AnyArray, NamedArrays
from poolgrad_lowering.verification.graph import roles
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.protos import attribute_values
from poolgrad_lowering.verification.graph.windows import average_windows_of
from poolgrad_lowering.verification.operators.pool import AverageWindows, average_gradient
from poolgrad_lowering.verification.running.compare import EXACT
from poolgrad_lowering.verification.running.data import FORMATS, LARGEST_QUOTIENT, Divisors
from poolgrad_lowering.verification.running.evaluator import Runner, first_line, reference_runner, side_model
from poolgrad_lowering.verification.running.sizes import ConcreteShape
from poolgrad_lowering.verification.sites.cut import Cut, Role

logger = logging.getLogger(__name__)


def meant_by(node: FlatNode, operands: Sequence[AnyArray]) -> tuple[tuple[int, ...], AverageWindows]:
    """Return the shape of x and the windows that Ascend's attributes and the operands of a dialect node state.

    Raises `KeyError` or `ValueError` if they contradict each other.
    """
    values = attribute_values(node.proto)
    if "ksize" not in values:
        shape = tuple(values["orig_input_shape"]) if "orig_input_shape" in values else operands[1].shape
        return shape, AverageWindows.adaptive(shape[2:], operands[0].shape[2:])
    shape = tuple(operands[0].tolist())
    axes = average_windows_of(values)
    missing = len(axes) - len(shape[2:])
    if missing < 0 or any(window != (1, 1, 0, 0) for window in axes[:missing]):
        raise ValueError("they pool an axis that x does not have")
    kernel, strides, *pads = zip(*axes[missing:], strict=True)
    given, ceil = (shape[2:], kernel, strides, (pads[0], pads[1])), bool(values["ceil_mode"])
    padded = bool(values["count_include_pad"]) if "count_include_pad" in values else not values["exclusive"]
    divisor = values["divisor_override"]
    return shape, AverageWindows.fixed(*given, ceil=ceil, counts_padding=padded, divisor=divisor)


def divisors(cut: Cut, source: ModelProto, sizes: Mapping[str, ConcreteShape]) -> dict[str, Divisors]:
    """Return the divisors for each incoming gradient of the cut that only moves to an average pool's gradient.

    `source` is the lowered model; it is run on the positions of elements, to find where each one moves to.
    """
    found: dict[str, Divisors] = {}
    producers = {value: node for node in cut.lowered for value in node.outputs if value}
    for node in cut.region.added:
        if not roles.is_dialect_gradient(node) or not roles.is_average_gradient(node):
            continue
        value, before = _origin(cut, producers, roles.incoming_gradient(node) or "")
        if value is None:
            continue
        try:
            operands = _operands(cut, source, producers, node, (value, sizes))
            shape, windows = meant_by(node, operands)
            positions = operands[node.inputs.index(roles.incoming_gradient(node))]
            numbers = np.broadcast_to(windows.divisors * before, positions.shape)
            contained = average_gradient(shape[2:], numbers.astype(np.float64), windows)
        except Exception as error:  # the evaluator raises errors of many classes; that of the site finds them too
            logger.info("no divisors of '%s': %s", node.label, first_line(error))
            continue
        elements, planes = np.ones(sizes[value]), np.zeros(sizes[value], np.int64)
        leading = positions.shape[:2]
        of_planes = np.arange(np.prod(leading)).reshape(*leading, *[1] * (positions.ndim - 2))
        elements.reshape(-1)[positions[positions > 0] - 1] = numbers[positions > 0]
        planes.reshape(-1)[positions[positions > 0] - 1] = np.broadcast_to(of_planes, positions.shape)[positions > 0]
        own = Divisors(elements, planes, int(contained.max(initial=0)))
        found[value] = found[value].joined(own) if value in found else own
    return found


def _origin(cut: Cut, producers: Mapping[str, FlatNode], value: str) -> tuple[str | None, AnyArray]:
    """Return the incoming gradient of the cut whose elements the value has, or None, and what they are divided by."""
    before: AnyArray = np.ones(())
    while value not in cut.inputs:
        node = producers.get(value)
        by = None if node is None else _divided_by(node, producers)
        if node is None or node.op[0] or not node.inputs or (by is None and node.op[1] not in {"Cast", *roles.MOVING}):
            return None, before
        if by is not None:
            before = before * by.astype(np.float64)
        value = node.inputs[0]
    return (value if cut.inputs[value] is Role.GRADIENT else None), before


def _divided_by(node: FlatNode, producers: Mapping[str, FlatNode]) -> AnyArray | None:
    """Return the divisors of a node that divides by constants, None of any other."""
    made_by = producers.get(node.inputs[1]) if node.op == ("", "Div") else None
    tensor = None if made_by is None else constant_tensor(made_by.proto)
    return None if tensor is None else to_array(tensor)


def _operands(
    cut: Cut,
    source: ModelProto,
    producers: Mapping[str, FlatNode],
    node: FlatNode,
    given: tuple[str, Mapping[str, ConcreteShape]],
) -> list[AnyArray]:
    """Return the operands of a node; of the gradient `given`, with all sizes, the positions of its elements from 1."""
    value, sizes = given
    feeds = {name: np.zeros(shape, np.int64) for name, shape in sizes.items()}
    feeds[value] = np.arange(1, feeds[value].size + 1, dtype=np.int64).reshape(feeds[value].shape)
    needed, pending = set[bytes](), list(node.inputs)
    while pending:
        made_by = producers.get(pending.pop())
        if made_by is not None and made_by.key not in needed:
            needed.add(made_by.key)
            pending += [*made_by.inputs, *made_by.captured]
    nodes = [_exact(other) for other in cut.lowered if other.key in needed]
    made = [name for name in dict.fromkeys(node.inputs) if name in producers]
    known = dict(feeds)
    for name, tensor in cut.constants.items():
        if name in node.inputs:
            known[name] = to_array(tensor)
    if made:
        known.update(reference_runner(side_model(source, cut, nodes, {}, made))(feeds))
    return [known[name] for name in node.inputs]


def _exact(node: FlatNode) -> FlatNode:
    """Return the node, for a Cast or Div an Identity: it is run on positions, which must stay as they are."""
    if node.op not in (("", "Cast"), ("", "Div")):
        return node
    proto = deepcopy(node.proto)
    del proto.input[1:]
    proto.op_type = "Identity"
    proto.ClearField("attribute")
    return node._replace(proto=proto, inputs=node.inputs[:1])


def multiplies_by_fractions(cut: Cut) -> bool:
    """Whether the original has a constant that is no whole number: it may multiply by a reciprocal."""
    made = (constant_tensor(node.proto) for node in cut.original)
    stored = (cut.constants[value] for node in cut.original for value in node.inputs if value in cut.constants)
    arrays = (to_array(tensor) for tensor in chain(filter(None, made), stored))
    return any(bool((array != np.floor(array)).any()) for array in arrays if array.dtype.kind not in EXACT)


def are_exact(cut: Cut, divided: Mapping[str, Divisors], feeds: NamedArrays) -> bool:
    """Whether all products of divisors and quotients, and all sums of quotients, are numbers of the type."""
    for value, role in cut.inputs.items():
        if role is not Role.GRADIENT:
            continue
        found, dtype = divided.get(value), feeds[value].dtype
        if found is None or found.most * LARGEST_QUOTIENT > FORMATS[dtype.name].exact:
            return False
        if (found.of_elements.astype(dtype) != found.of_elements).any():
            return False
        if found.of_elements.max(initial=0) * LARGEST_QUOTIENT > FORMATS[dtype.name].largest:
            return False
    return True


def rounding_bounds(
    original: Runner, cut: Cut, divided: Mapping[str, Divisors], feeds: NamedArrays
) -> dict[str, AnyArray]:
    """Return how far each element of the results can be apart, by running the original on absolutes and divisors.

    The original is linear in its gradients. The divisors give the number n of terms of each element.

    A term is an element of the gradient over its divisor, or times the rounded reciprocal of the divisor: it has a
    relative error of at most 2u, where u is half the distance of 1 to the next number of the type. A sum of n such
    terms, in any order, has an error of at most (n + 1)·u·S, where S is the sum of their absolutes. Two of them are
    apart by at most twice as much, (n + 1)·ε·S. A product of several factors is rounded among the denormal numbers too:
    each term by at most the smallest of them, s, where no factor is above 2. That adds (n + 1)·s.
    """
    gradients = [value for value, role in cut.inputs.items() if role is Role.GRADIENT]
    if any(value not in divided for value in gradients):
        return {}
    absolutes = {value: np.abs(feeds[value]) for value in gradients}
    counting = {value: divided[value].of_elements.astype(feeds[value].dtype) for value in gradients}
    sums, numbers = original({**feeds, **absolutes}), original({**feeds, **counting})
    return {
        name: (np.ceil(numbers[name].astype(np.float64)) + 1)
        * (2 / limits.exact * array.astype(np.float64) + limits.smallest)
        for name, array in sums.items()
        if (limits := FORMATS.get(array.dtype.name))
    }
