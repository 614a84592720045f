# SPDX-License-Identifier: Apache-2.0

"""Checks that the results of one operator on a backend are those of its definition."""

from __future__ import annotations

import numpy as np

from poolgrad_lowering.runtime.self_test import data
from poolgrad_lowering.runtime.self_test.average_cases import AverageCase
from poolgrad_lowering.runtime.self_test.cases import Case, ElementType
from poolgrad_lowering.runtime.self_test.models import average_model, gradient_model, pool_model
from poolgrad_lowering.runtime.self_test.reference import gradient, pool
from poolgrad_lowering.runtime.self_test.sessions import check_close, check_same, open_session, run


def check_pool(case: Case, element: ElementType, backend: str) -> None:
    """Check maxima and positions bit for bit: for ties, and for NaN and −inf if CANN documents the behaviour.

    Like all checks, raises `RefusedError`, `DifferentError` and the errors of onnxruntime.
    """
    session = open_session(pool_model(case, element), backend)
    for draw in (data.ties, data.special) if case.family.orders_nan else (data.ties,):
        x = draw(case.pooling.x_shape)
        y, argmax = run(session, {"x": x})
        expected_y, expected_argmax = pool(x, case.pooling.windows())
        check_same(f"argmax of {draw.__name__}", argmax, expected_argmax)
        check_same(f"y of {draw.__name__}", y, expected_y)


def check_gradient(case: Case, element: ElementType, backend: str) -> None:
    """Check sums of integers, which are exact, bit for bit, and rounded sums within the tolerance of `gradient`."""
    session = open_session(gradient_model(case, element), backend)
    x = data.ties(case.pooling.x_shape)
    _, argmax = pool(x, case.pooling.windows())
    epsilon = 2.0**-element.fraction_bits

    grad = data.whole(argmax.shape)
    (dx,) = run(session, {"x": x, "grad": grad, "argmax": argmax})
    check_same("dx of whole numbers", dx, gradient(x.shape, grad, argmax, epsilon).y.astype(np.float32))

    grad = data.spread(argmax.shape, element)
    (dx,) = run(session, {"x": x, "grad": grad, "argmax": argmax})
    check_close("dx of rounded sums", dx, *gradient(x.shape, grad, argmax, epsilon))


def check_average(case: AverageCase, element: ElementType, backend: str) -> None:
    """Check whole numbers bit for bit if their sums are exact, and rounded sums within the tolerance of the case."""
    session = open_session(average_model(case, element), backend)
    x = data.ties(case.pooling.x_shape)
    epsilon = 2.0**-element.fraction_bits

    if case.is_exact:
        grad = data.whole(case.grad_shape)
        (dx,) = run(session, {"x": x, "grad": grad})
        check_same("dx of whole numbers", dx, case.gradient(grad, epsilon).y.astype(np.float32))

    grad = data.spread(case.grad_shape, element)
    (dx,) = run(session, {"x": x, "grad": grad})
    check_close("dx of rounded sums", dx, *case.gradient(grad, epsilon))
