# SPDX-License-Identifier: Apache-2.0

"""`dX[i] = (x[i] == maximum of its window) · dY`: all equal maxima get a gradient. Recognised and never lowered.

    mask = Equal(x, spread(maximum of x))                # ReduceMax, GlobalMaxPool or MaxPool

JAX, TensorFlow and torch's `amax` take the maximum over whole axes and divide the gradient by the number of equal
maxima. Hand-written modules spread a MaxPool's output back over its windows and give each of them the whole gradient.
A pool's gradient goes to the first maximum alone, and behind a ReLU equal maxima (zeros) are common.

Detectors keep the local maxima of a heat map, `Equal(x, MaxPool(x))` with one window around each element. That mask is
unrelated to a gradient: an element would get that of every window in which it is the maximum.

What must hold to be reported: Equal compares a tensor with its own maximum, through views, Transposes and operators
that repeat elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from poolgrad_lowering.compiler.families.gradient import form
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import VIEW_OPS, Facts
from poolgrad_lowering.model.ir.scopes import Node, Value

_CODES = {"ReduceMax": Code.SPLITS_TIES, "GlobalMaxPool": Code.SPLITS_TIES, "MaxPool": Code.GRADIENT_TO_ALL_TIES}
_LAYOUT = (*VIEW_OPS, "Transpose")
_SPREADS = (*_LAYOUT, "Expand", "Resize", "Tile")


@form(
    ("", "Equal"),
    summary="Equality with the own maximum (amax, jnp.max, tf.reduce_max, upsampled pools): recognised, never lowered",
    priority=10,
)
def match(facts: Facts, node: Node) -> None:
    """The reason why an Equal node is no pool's gradient; None if it does not compare a value with its maximum."""
    left, right = node.input(0), node.input(1)
    if left is None or right is None:
        return
    for compared, bound in ((left, right), (right, left)):
        spread = bound.behind(lambda node: node.is_a(*_SPREADS))
        maximum = spread.producer
        if maximum is None or not maximum.is_a(*_CODES) or spread != maximum.output(0):
            continue
        source = maximum.input(0)
        if source is not None and set(_upstream(source, _LAYOUT)) & set(_upstream(compared, _LAYOUT)):
            if _is_around_each_element(facts, maximum, (source, compared, bound)):
                what = "Equal '{}' marks the elements of '{}' that are maxima of the windows around them"
                raise Refuse(Code.UNRELATED_MASK, what, node.label, compared.name)
            what = "Equal '{}' marks all elements of '{}' that equal {} '{}', not the first"
            raise Refuse(_CODES[maximum.op[1]], what, node.label, compared.name, maximum.op[1], maximum.label)


def _is_around_each_element(facts: Facts, maximum: Node, values: Sequence[Value]) -> bool:
    """Whether it is a MaxPool with one window for each element of x, of more than one element, and nothing is moved.

    `values` are x, and both operands of the comparison.
    """
    pool, shape = facts.pool(maximum) if maximum.is_a("MaxPool") else None, facts.shape(maximum.output(0))
    if pool is None or shape is None or len(shape) != len(pool.kernel) + 2:
        return False
    overlaps = any(taps > 1 and extent.static != 1 for taps, extent in zip(pool.kernel, shape[2:], strict=True))
    source = values[2].behind(lambda node: node.is_a(*VIEW_OPS))
    same_place = source == maximum.output(0) and all(facts.shape(value) == shape for value in values)
    return overlaps and set(pool.strides) == {1} and same_place and values[0] in set(_upstream(values[1], VIEW_OPS))


def _upstream(value: Value, through: tuple[str, ...]) -> Iterator[Value]:
    """The value, and those that it comes from through the first inputs of some operators, nearest first."""
    return value.sources(lambda node: node.is_a(*through))
