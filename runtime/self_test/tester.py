# SPDX-License-Identifier: Apache-2.0

"""Runs all checks of the self-test in a separate process, and continues in a new process if that one ends.

    python tester.py BACKEND FIRST DESCRIPTOR

This file is also the program of these processes, because a device's library may crash one. It performs the checks from
number FIRST on, and writes a line of JSON for each, with the fields of `Outcome`, to the file descriptor. It ends after
a check after which its process can no longer use the device.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from poolgrad_lowering.runtime.doctor import Diagnosis, diagnose, routes
from poolgrad_lowering.runtime.probing import ProbeError, exit_cause
from poolgrad_lowering.runtime.self_test.checks import Check, Outcome, all_checks, perform
from poolgrad_lowering.runtime.self_test.result import Row, SelfTest

Progress = Callable[[int, int, str], None]

_SECONDS = 300.0  # for one check, as the first call of a kernel on a device may compile it
_CRASHES = 5  # the number of crashed processes after which no other is started
# acl's error codes after a failure of a kernel or the driver (ACL_ERROR_RT_AICORE_EXCEPTION and others).
_DEVICE_FAILED = re.compile(r"failed with 507\d{3} ")
_END = Check("the process ends", run=lambda _: None)


def self_test(backend: str = "auto", progress: Progress | None = None) -> SelfTest:
    """Perform all checks on a backend: "cann", "host", or the one that "auto" selects.

    Takes seconds on the host, and minutes on a device that compiles kernels first. Raises no errors: if nothing can be
    tested, the result has the problem.
    """
    machine = diagnose()
    taken = machine.auto.backend if backend == "auto" else backend
    if (problem := _problem(machine, taken)) or taken is None:
        return SelfTest(taken, problem, [], machine)
    try:
        functions = _functions(taken)
    except ProbeError as error:
        return SelfTest(taken, str(error), [], machine)
    checks, rows = [*all_checks(), _END], list[Row]()

    def report(outcome: Outcome) -> None:
        check = checks[len(rows)]
        function = functions.get((check.operator, check.rank))
        rows.append(Row(check.title, check.operator, check.element_type, function, **outcome._asdict()))
        if progress is not None:
            progress(len(rows), len(checks), f"{check.operator or ''} {check.title}")

    _perform(len(checks) - 1, taken, report)
    return SelfTest(taken, None, rows, machine)


def _problem(machine: Diagnosis, backend: str | None) -> str | None:
    """Return the reason why nothing can be tested, or None."""
    if machine.onnxruntime.problem:
        return f"onnxruntime {machine.onnxruntime.problem}"
    if machine.provider.problem:
        return machine.provider.problem
    if backend is None:
        return machine.auto.reason
    [described] = [row for row in machine.backends if row.backend == backend]
    return described.problem


def _functions(backend: str) -> dict[tuple[str | None, int | None], str]:
    """Return the aclnn functions by operator and rank of x, for an int32 argmax, which the compiler always uses."""
    rows = [row for row in routes(backend) if row["argmax"] in ("int32", None)]
    return {(row["operator"], row["rank"]): row["function"] for row in rows}


def _perform(count: int, backend: str, report: Callable[[Outcome], None]) -> None:
    """Report the outcomes of `count` checks, and then the outcome of the end of their process."""
    done = crashes = 0
    while crashes < _CRASHES:
        before, cause = done, None
        for outcome in _work(backend, done):
            if isinstance(outcome, str):
                cause = outcome
            else:
                done += 1
                report(outcome)
        if done == count:
            report(Outcome("error", cause, 0.0) if cause else Outcome("ok", None, 0.0))
            return
        if cause is None and done > before:
            continue  # the process ended to be replaced by a new one
        done, crashes = done + 1, crashes + 1
        report(Outcome("error", cause or "its process ended before the check did", 0.0))
    for _ in range(count + 1 - done):
        report(Outcome("error", f"not run: {_CRASHES} processes have ended", 0.0))


def _work(backend: str, first: int) -> Iterator[Outcome | str]:
    """Yield the outcomes of a process that starts with check `first`; then, if it failed, the reason as text."""
    reader, writer = os.pipe()
    command = [sys.executable, __file__, backend, str(first), str(writer)]
    with tempfile.TemporaryFile() as said, os.fdopen(reader, "rb", buffering=0):
        # The libraries of a device may print to standard output; that text can explain why the process ended.
        with subprocess.Popen(command, stdout=said, stderr=said, pass_fds=[writer]) as process:
            os.close(writer)
            try:
                for line in _lines(reader):
                    yield Outcome(**json.loads(line))
                process.wait(_SECONDS)
            except (TimeoutError, subprocess.TimeoutExpired):
                yield f"not done within {_SECONDS:.0f} s"
                return
            finally:
                process.kill()  # has no effect if the process has ended
        if process.returncode != 0:
            yield exit_cause(process.returncode, _read(said))


def _lines(descriptor: int) -> Iterator[bytes]:
    """Yield the lines from a pipe. Raises `TimeoutError` if the next one takes longer than `_SECONDS`."""
    rest = b""
    while True:
        ready, _, _ = select.select([descriptor], [], [], _SECONDS)
        if not ready:
            raise TimeoutError
        if not (part := os.read(descriptor, 1 << 16)):
            return
        *lines, rest = (rest + part).split(b"\n")
        yield from lines


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def main(arguments: Sequence[str]) -> None:
    """Perform the checks that the command line asks for."""
    backend, first, descriptor = arguments
    with os.fdopen(int(descriptor), "w", encoding="utf-8") as answers:
        for check in all_checks()[int(first) :]:
            outcome = perform(check, backend)
            answers.write(json.dumps(outcome._asdict()) + "\n")
            answers.flush()
            if _DEVICE_FAILED.search(outcome.detail or ""):
                return


if __name__ == "__main__":
    main(sys.argv[1:])
