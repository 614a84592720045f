# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c].flat[k[n, c]] += dY[n, c]`, k the position of the first maximum of plane (n, c): AdaptiveMaxPool(1).

torch decomposes a pool with one output per plane into `amax` and `argmax` over the flattened plane:

    k = ArgMax(Reshape(x, [N, C, plane]), axis=-1)
    dX = Reshape(ScatterElements(zeros as rows, k, dY))  # `index_put(accumulate=True)` becomes ScatterND

What must hold: ArgMax reads rows that are the planes of x and takes the first maximum; the scatter goes onto zeros, one
row a plane; the numbers of the rows in a ScatterND are a constant table. Each row gets one index, so a scatter that
overwrites is the same as one that adds, but for a gradient of −0.0, which the lowered node turns into +0.0.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.families.gradient import form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.axis_maximum import FirstMaximum, with_whole_reduction
from poolgrad_lowering.compiler.families.max_pool.matching.forward import Pooled
from poolgrad_lowering.compiler.families.max_pool.matching.scatter import Scatter, plane_gradient
from poolgrad_lowering.compiler.families.shared.checks import known_element_type
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import Dim
from poolgrad_lowering.model.ir.scopes import Node


@form(
    ("", "ScatterElements"),
    ("", "ScatterND"),
    summary="PyTorch AdaptiveMaxPool(1): ScatterElements or ScatterND onto zeros by the ArgMax of a flattened plane",
    priority=50,
)
def match(facts: Facts, node: Node) -> MaxPoolGradient | None:
    """The gradient that a scatter computes, None where no plane was flattened."""
    scatter = Scatter.read(node)
    reducer = facts.behind_views(scatter.recorded, "ArgMax")
    if reducer is None:
        return None
    planes = FirstMaximum.read(facts, reducer).flattened(facts)
    if planes is None:
        return None
    x, shape = planes
    one_window = shape[:2] + (Dim(1),) * len(shape[2:])
    pooled = Pooled(x, known_element_type(facts, x), shape, one_window)
    gradient = plane_gradient(facts, scatter, pooled, ("add", "none"))
    return with_whole_reduction(facts, gradient, reducer)
