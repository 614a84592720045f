# SPDX-License-Identifier: Apache-2.0

"""Checks that the results of one operator on a backend are those of its definition."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from poolgrad_lowering.dialect import Op
from poolgrad_lowering.dialect.aclnn_functions import MAX_POOL_2D_FUNCTION
from poolgrad_lowering.runtime.self_test import data
from poolgrad_lowering.runtime.self_test.average_cases import average_gradient, is_exact
from poolgrad_lowering.runtime.self_test.cases import ElementType
from poolgrad_lowering.runtime.self_test.models import gradient_model, pool_model
from poolgrad_lowering.runtime.self_test.poolings import Pooling
from poolgrad_lowering.runtime.self_test.recorded import Recorded, recorded
from poolgrad_lowering.runtime.self_test.reference import Array, Gradient, gradient, pool
from poolgrad_lowering.runtime.self_test.sessions import (
    CloseError,
    DifferentError,
    check_close,
    check_same,
    open_session,
    run,
)


def check_pool(op: Op, pooling: Pooling, element: ElementType, backend: str) -> None:
    """Check maxima and positions bit for bit: for ties, and for NaN and −inf if CANN documents the behaviour.

    It does not for aclnnMaxPool2dWithIndices. Like all checks, raises `RefusedError`, `DifferentError` and the errors
    of onnxruntime.
    """
    session = open_session(pool_model(op, pooling, element), backend)
    orders_nan = all(MAX_POOL_2D_FUNCTION not in functions for functions in op.functions.values())
    for draw in (data.ties, data.special) if orders_nan else (data.ties,):
        x = draw(pooling.x_shape)
        y, argmax = run(session, {"x": x})
        expected_y, expected_argmax = pool(x, pooling.windows())
        check_same(f"argmax of {draw.__name__}", argmax, expected_argmax)
        check_same(f"y of {draw.__name__}", y, expected_y)


def check_gradient(op: Op, pooling: Pooling, element: ElementType, backend: str) -> None:
    """Check whole numbers bit for bit if their sums are exact, and rounded sums within the tolerance of the definition.

    Sums of a max pool's gradient are exact, and those of an average pool's if its divisors are powers of two.
    """
    session = open_session(gradient_model(op, pooling, element), backend)
    feeds = {"x": data.ties(pooling.x_shape)}
    if op.has_argmax:
        _, feeds["argmax"] = pool(feeds["x"], pooling.windows())

    if op.has_argmax or is_exact(pooling):
        feeds["grad"] = data.whole(pooling.pooled_shape)
        (dx,) = run(session, feeds)
        check_same("dx of whole numbers", dx, _definition(op, pooling, feeds, element).y.astype(np.float32))

    feeds["grad"] = data.spread(pooling.pooled_shape, element)
    (dx,) = run(session, feeds)
    check_close("dx of rounded sums", dx, *_definition(op, pooling, feeds, element))


def _definition(op: Op, pooling: Pooling, given: Mapping[str, Array], element: ElementType) -> Gradient:
    """The gradient of x by the definition, with the tolerance of sums that are rounded to the element type."""
    epsilon = 2.0**-element.fraction_bits
    if op.has_argmax:
        return gradient(pooling.x_shape, given["grad"], given["argmax"], epsilon)
    return average_gradient(pooling, given["grad"], epsilon)


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
            check_close("y", results["y"], *_definition(op, call.pooling, _given(call), element))
            others.append(str(error))
    if others:
        raise CloseError(f"{len(others)} of {len(calls)} calls: sums are rounded otherwise. {others[0]}")


def _given(call: Recorded) -> dict[str, Array]:
    """What the call reads, in float32 but for the indices."""
    floats = {name: call.floats(name) for name in ("x", "grad") if name in call.tensors}
    argmax = {"argmax": call.tensors["argmax"]} if call.op.is_gradient and call.op.has_argmax else {}
    return {"x": np.zeros(call.pooling.x_shape, np.float32), **floats, **argmax}


def _results(call: Recorded, backend: str) -> dict[str, Array]:
    """The results of the same call of the backend, with +0 in place of each maximum of 0."""
    model = (gradient_model if call.op.is_gradient else pool_model)(call.op, call.pooling, call.element)
    y, *indices = run(open_session(model, backend, deterministic="1"), _given(call))
    return {"y": y} if call.op.is_gradient else {"y": y + 0.0, "argmax": indices[0]}


def _expected(call: Recorded, name: str) -> Array:
    if name == "argmax":
        return call.tensors[name]
    return call.floats(name) if call.op.is_gradient else call.floats(name) + 0.0
