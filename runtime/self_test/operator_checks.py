"""One operator on one backend: its results are those of the definition."""

from __future__ import annotations

import numpy as np

from poolgrad_lowering.runtime.self_test import data
from poolgrad_lowering.runtime.self_test.cases import Case, ElementType
from poolgrad_lowering.runtime.self_test.models import gradient_model, pool_model
from poolgrad_lowering.runtime.self_test.reference import gradient, pool
from poolgrad_lowering.runtime.self_test.sessions import demand_close, demand_same, open_session, run


def check_pool(case: Case, element: ElementType, backend: str) -> None:
    """Maxima and positions bit for bit: equal maxima, and NaN and −inf where CANN says what becomes of them.

    Raises `RefusedError`, `DifferentError` and what onnxruntime raises; so do all checks.
    """
    session = open_session(pool_model(case, element), backend)
    for draw in (data.ties, data.special) if case.family.orders_nan else (data.ties,):
        x = draw(case.x_shape)
        y, argmax = run(session, {"x": x})
        expected_y, expected_argmax = pool(x, case.windows())
        demand_same(f"argmax of {draw.__name__}", argmax, expected_argmax)
        demand_same(f"y of {draw.__name__}", y, expected_y)


def check_gradient(case: Case, element: ElementType, backend: str) -> None:
    """Whole numbers, whose sums are exact, bit for bit; sums that are rounded within the tolerance of `gradient`."""
    session = open_session(gradient_model(case, element), backend)
    x = data.ties(case.x_shape)
    _, argmax = pool(x, case.windows())
    epsilon = 2.0**-element.fraction_bits

    grad = data.whole(argmax.shape)
    (dx,) = run(session, {"x": x, "grad": grad, "argmax": argmax})
    demand_same("dx of whole numbers", dx, gradient(x.shape, grad, argmax, epsilon).y.astype(np.float32))

    grad = data.spread(argmax.shape, element)
    (dx,) = run(session, {"x": x, "grad": grad, "argmax": argmax})
    demand_close("dx of rounded sums", dx, *gradient(x.shape, grad, argmax, epsilon))
