# SPDX-License-Identifier: Apache-2.0

"""`dX[i] = (x[i] == maximum of its window) · dY`: all equal maxima get a gradient. Recognised and never lowered.

    mask = Equal(x, spread(maximum of x))                # ReduceMax, GlobalMaxPool or MaxPool

JAX, TensorFlow and torch's `amax` take the maximum over whole axes and divide the gradient by the number of equal
maxima. Hand-written modules spread a MaxPool's output back over its windows and give each of them the whole gradient.
A pool's gradient goes to the first maximum alone, and behind a ReLU equal maxima (zeros) are common. The masks with
which detectors keep the local maxima of a heat map look the same and are no gradients.

What must hold to be reported: Equal compares a tensor with its own maximum, through views, Transposes and operators
that repeat elements.
"""

from __future__ import annotations

from collections.abc import Iterator

from poolgrad_lowering.analysis.facts import VIEW_OPS, Facts
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.families.gradient import Pattern
from poolgrad_lowering.ir.scopes import Node, Value

_CODES = {"ReduceMax": Code.SPLITS_TIES, "GlobalMaxPool": Code.SPLITS_TIES, "MaxPool": Code.GRADIENT_TO_ALL_TIES}
_LAYOUT = (*VIEW_OPS, "Transpose")
_SPREADS = (*_LAYOUT, "Expand", "Resize", "Tile")


def match(_: Facts, node: Node) -> None:
    """The reason why an Equal node is no pool's gradient; None if it does not compare a value with its maximum."""
    left, right = node.input(0), node.input(1)
    if left is None or right is None:
        return
    for compared, bound in ((left, right), (right, left)):
        spread = list(_upstream(bound, _SPREADS))[-1]
        maximum = spread.producer
        if maximum is None or not maximum.is_a(*_CODES) or spread != maximum.output(0):
            continue
        source = maximum.input(0)
        if source is not None and set(_upstream(source, _LAYOUT)) & set(_upstream(compared, _LAYOUT)):
            what = "Equal '{}' marks all elements of '{}' that equal {} '{}', not the first"
            raise Refuse(_CODES[maximum.op[1]], what, node.label, compared.name, maximum.op[1], maximum.label)


def _upstream(value: Value, through: tuple[str, ...]) -> Iterator[Value]:
    """The value, and those that it comes from through the first inputs of some operators, nearest first."""
    return value.sources(lambda node: node.is_a(*through))


PATTERN = Pattern(
    name="tie_masks",
    anchors=(("", "Equal"),),
    summary="Equality with the own maximum (amax, jnp.max, tf.reduce_max, upsampled pools): recognised, never lowered",
    match=match,
    priority=10,
)
