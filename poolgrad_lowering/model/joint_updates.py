# SPDX-License-Identifier: Apache-2.0

"""Which weights of a training step an optimizer updates as one.

An update is a function of elements, so that short vectors, as biases and the factors of normalizations are, can be
updated side by side: a device takes longer to begin the nodes of each than to run them. The results have the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

LONGEST = 1 << 14
"""The elements of the longest vector that is updated beside others: joining longer ones costs more than it saves."""

FEWEST, MOST = 4, 32
"""How many vectors are updated as one: of fewer, an update may have more nodes, with a Concat and a Split, than alone;
GE cuts a Concat of many more into several."""


def side_by_side(shapes: Mapping[str, Sequence[int]]) -> list[list[str]]:
    """Return all weights by name, in lists of those that are updated as one; `shapes` are their shapes."""
    short = [name for name, shape in shapes.items() if len(shape) == 1 and shape[0] <= LONGEST]
    lists = [short[start : start + MOST] for start in range(0, len(short), MOST)]
    together = [names for names in lists if len(names) >= FEWEST]
    joined = {name for names in together for name in names}
    return [*([name] for name in shapes if name not in joined), *together]
