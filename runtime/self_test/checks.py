# SPDX-License-Identifier: Apache-2.0

"""All checks of the self-test in order, and a function that performs one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from poolgrad_lowering.dialect import Op
from poolgrad_lowering.model.io.onnxruntime import quoted
from poolgrad_lowering.runtime.self_test.average_cases import AVERAGE_CASES
from poolgrad_lowering.runtime.self_test.cases import CASES, ELEMENT_TYPES
from poolgrad_lowering.runtime.self_test.operator_checks import check_gradient, check_pool, check_recorded
from poolgrad_lowering.runtime.self_test.poolings import Pooling
from poolgrad_lowering.runtime.self_test.recorded import recorded
from poolgrad_lowering.runtime.self_test.session_checks import SESSION_CHECKS
from poolgrad_lowering.runtime.self_test.sessions import CloseError, DifferentError, RefusedError

_LONGEST_DETAIL = 2000
_BEFORE_THE_MESSAGE = "Status Message: "  # in onnxruntime's errors of a node that failed in a Run


@dataclass(frozen=True)
class Check:
    """A check: its description, and the function that runs it on a backend."""

    title: str
    run: Callable[[str], None]
    operator: str | None = None
    rank: int | None = None  # of the operator's x
    element_type: str | None = None


class Outcome(NamedTuple):
    """The outcome of a check; see `Row`."""

    status: str
    detail: str | None
    seconds: float


def all_checks() -> list[Check]:
    """Return all checks: gradients of max pools, of average pools, pools, recorded calls, sessions."""
    gradients = [_of_operator(case.gradient, case.pooling, check_gradient) for case in CASES]
    pools = [_of_operator(case.pool, case.pooling, check_pool) for case in CASES]
    averages = [_of_operator(*case, check_gradient) for case in AVERAGE_CASES]
    operators = [check for checks in gradients + averages + pools for check in checks]
    for op in {call.op.name: call.op for call in recorded()}.values():
        operators += _of_types("as recorded", op, max(op.ranks), partial(check_recorded, op))
    return operators + [Check(title, run) for title, run in SESSION_CHECKS.items()]


def perform(check: Check, backend: str) -> Outcome:
    """Run a check and return its outcome, which includes any error."""
    start = time.perf_counter()
    status, detail = _run_check(check, backend)
    return Outcome(status, detail and detail[:_LONGEST_DETAIL], time.perf_counter() - start)


def _run_check(check: Check, backend: str) -> tuple[str, str | None]:
    try:
        check.run(backend)
    except CloseError as error:
        return "close", str(error)
    except DifferentError as error:
        return "different", str(error)
    except RefusedError as error:
        return "refused", str(error)
    except Exception as error:  # every check is run and reported
        return "error", f"{type(error).__name__}: {quoted(error).rpartition(_BEFORE_THE_MESSAGE)[2]}"
    return "ok", None


def _of_operator(op: Op, pooling: Pooling, check: Callable[..., None]) -> list[Check]:
    return _of_types(pooling.title, op, len(pooling.x_shape), partial(check, op, pooling))


def _of_types(title: str, op: Op, rank: int, check: Callable[..., None]) -> list[Check]:
    return [Check(title, partial(check, element), op.name, rank, element.name) for element in ELEMENT_TYPES]
