# SPDX-License-Identifier: Apache-2.0

"""Checks that the results of one operator on a backend are those of its definition."""

from __future__ import annotations

import numpy as np

from poolgrad_lowering.dialect import Op
from poolgrad_lowering.runtime.self_test import data
from poolgrad_lowering.runtime.self_test.average_cases import AverageCase
from poolgrad_lowering.runtime.self_test.cases import Case, ElementType
from poolgrad_lowering.runtime.self_test.models import average_model, gradient_model, pool_model
from poolgrad_lowering.runtime.self_test.recorded import Recorded, recorded
from poolgrad_lowering.runtime.self_test.reference import Array, gradient, pool
from poolgrad_lowering.runtime.self_test.sessions import (
    CloseError,
    DifferentError,
    check_close,
    check_same,
    open_session,
    run,
)


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


def check_recorded(op: Op, element: ElementType, backend: str) -> None:
    """Check the bits of the recorded calls of an operator that a node can make, with `deterministic=1`.

    Raises `DifferentError` if a result is not that of the definition; else `CloseError` if its bits are others.
    """
    calls = [call for call in recorded() if (call.op, call.element) == (op, element) and call.pooling.divisor >= 0]
    others = list[str]()
    for call in calls:
        results = _results(call, backend)
        try:
            for name, found in results.items():
                check_same(f"{name} of x {call.pooling.x_shape}", found, _expected(call, name))
        except DifferentError as error:
            if not op.is_gradient:
                raise
            _check_definition(call, results["y"])
            others.append(str(error))
    if others:
        raise CloseError(f"{len(others)} of {len(calls)} calls: sums are rounded otherwise. {others[0]}")


def _results(call: Recorded, backend: str) -> dict[str, Array]:
    """The results of the same call of the backend, with +0 in place of each maximum of 0."""
    case, element = call.case, call.element
    if isinstance(case, AverageCase):
        model = average_model(case, element)
    else:
        model = (gradient_model if call.op.is_gradient else pool_model)(case, element)
    x = np.zeros(call.pooling.x_shape, np.float32)
    floats = {name: call.floats(name) for name in ("x", "grad") if name in call.tensors}
    argmax = {"argmax": call.tensors["argmax"]} if call.op.is_gradient and call.op.has_argmax else {}
    y, *indices = run(open_session(model, backend, deterministic="1"), {"x": x, **floats, **argmax})
    return {"y": y} if call.op.is_gradient else {"y": y + 0.0, "argmax": indices[0]}


def _expected(call: Recorded, name: str) -> Array:
    if name == "argmax":
        return call.tensors[name]
    return call.floats(name) if call.op.is_gradient else call.floats(name) + 0.0


def _check_definition(call: Recorded, y: Array) -> None:
    epsilon = 2.0**-call.element.fraction_bits
    if isinstance(call.case, AverageCase):
        check_close("y", y, *call.case.gradient(call.floats("grad"), epsilon))
    else:
        check_close("y", y, *gradient(call.pooling.x_shape, call.floats("grad"), call.tensors["argmax"], epsilon))
