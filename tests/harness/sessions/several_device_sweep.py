# SPDX-License-Identifier: Apache-2.0

"""Makes every call of sessions on two devices fail once, and requires of each Run that it is right or raises.

Runs in a process of its own: `sweep` and `sweep_waits` are for `run_python`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnxruntime as ort

from poolgrad_lowering.runtime import create_session
from tests.harness.sessions.failure_sweep import FAULT, FEEDS, KINDS, expected, model, quiet_options
from tests.harness.sessions.host_control import HostLibrary
from tests.oracles import assert_same_bits
from tests.runtime.device_models import Array

DEVICES = (0, 1)
TURNS = 2
THREADS = 4
# A task fails on the device, a driver fails, a wait takes too long: the code must not matter.
CODES = (FAULT, 507015, 507046)
Run = Callable[[Any, int], list[Array]]


def run_fetched(session: Any, _device: int) -> list[Array]:
    """Inputs and results in host memory."""
    return list(session.run(None, FEEDS))


def run_bound(session: Any, device: int) -> list[Array]:
    """Inputs and results in device memory outside of the session."""
    binding = session.io_binding()
    inputs = {name: on_npu(array, device) for name, array in FEEDS.items()}
    outputs = {
        output.name: on_npu(np.zeros_like(array), device)
        for output, array in zip(session.get_outputs(), expected(), strict=True)
    }
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in outputs.items():
        binding.bind_ortvalue_output(name, value)
    session.run_with_iobinding(binding)
    return [fetched(value, array) for value, array in zip(outputs.values(), expected(), strict=True)]


def on_npu(array: Array, device: int) -> Any:
    """Return the array as a value in this device's memory."""
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), array.dtype.type, "npu", device, 0x19E5)
    ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(array)], [value])
    return value


def fetched(value: Any, like: Array) -> Array:
    """Return a value in device memory as an array of the type and shape of `like`."""
    target = ort.OrtValue.ortvalue_from_numpy(np.full_like(like, np.nan if like.dtype.kind == "f" else -1))
    ort.copy_tensors([value], [target])
    return np.array(target.numpy())


def open_ours(device: int) -> Any:
    """A session of our provider on this device."""
    return create_session(model(), backend="host", session_options=quiet_options(), device_id=str(device))


class Sessions:
    """A session on each device."""

    def __init__(self, run: Run, *, threads: int, open_session: Callable[[int], Any] = open_ours) -> None:
        self._run = run
        self._threads = threads
        self._sessions = [open_session(device) for device in DEVICES]

    def take_turns(self) -> list[str]:
        """Run each session TURNS times on each thread. Return the message of each Run's error, "" for right ones."""
        if self._threads == 1:
            return self._turns(0)
        with ThreadPoolExecutor(self._threads) as pool:
            return [message for messages in pool.map(self._turns, range(self._threads)) for message in messages]

    def _turns(self, thread: int) -> list[str]:
        return [self._attempt((thread + turn) % len(DEVICES)) for turn in range(TURNS * len(DEVICES))]

    def _attempt(self, device: int) -> str:
        try:
            results = self._run(self._sessions[device], device)
        except Exception as error:
            return str(error) or "an error"
        for found, wanted in zip(results, expected(), strict=True):
            assert_same_bits(found, wanted)
        return ""


def sweep(sessions: Sessions, *, thorough: bool = True, without: Collection[str] = ()) -> list[dict[str, Any]]:
    """What became of each call, made to fail once: see `_outcome`.

    Takes the fourth call of a function, the eighth and so on unless `thorough`, and no function of `without`.
    """
    library = HostLibrary()
    calls = _calls(library, sessions)
    step = 1 if thorough else 4
    sites = [
        (function, nth)
        for function, count in calls.items()
        if function not in without
        for nth in range(min(step, count), count + 1, step)
    ]
    faults = [[(function, nth, code)] for (function, nth), code in zip(sites, itertools.cycle(CODES))]
    return [_outcome(library, sessions, fault) for fault in faults]


def sweep_waits(sessions: Sessions, *, times: int, destroyed: bool) -> list[dict[str, Any]]:
    """As `sweep`, for each wait for a stream, which fails `times` times in succession; the stream is destroyed, or that
    fails too.
    """
    library = HostLibrary()
    wait = "aclrtSynchronizeStream"
    destroy = [] if destroyed else [("aclrtDestroyStream", 1, FAULT)]
    count = _calls(library, sessions)[wait]
    faults = [[(wait, nth + more, FAULT) for more in range(times)] + destroy for nth in range(1, count + 1)]
    return [_outcome(library, sessions, fault) for fault in faults]


def _calls(library: HostLibrary, sessions: Sessions) -> Counter[str]:
    """The calls that the sessions make when they take their turns, once they are warm."""
    assert not any(sessions.take_turns())
    return Counter(call["call"] for call in library.trace(sessions.take_turns) if "call" in call)


def _outcome(library: HostLibrary, sessions: Sessions, faults: list[tuple[str, int, int]]) -> dict[str, Any]:
    """What became of the sessions when these calls failed: the calls, each with its number and code, whether a result
    was wrong, the messages of the Runs that raised, the rules broken, whether later Runs were right, and by how much
    the numbers of live objects grew.
    """
    before = Counter(_live(library))
    for fault in faults:
        library.fail(*fault)
    outcome: dict[str, Any] = {"faults": faults, "wrong": "", "messages": []}
    try:
        outcome["messages"] = [message for message in sessions.take_turns() if message]
        pending = sessions.take_turns() if len(faults) > 1 else []  # what follows may meet the last of several
        outcome["messages"] += [message for message in pending if message]
    except AssertionError as error:
        outcome["wrong"] = str(error)[:200] or "a wrong result"
    outcome["violations"] = [found["violation"] for found in library.violations()]
    library.reset()
    outcome["recovered"] = not any(sessions.take_turns())
    outcome["violations"] += [found["violation"] for found in library.violations()]
    library.reset()
    grown = Counter(_live(library))
    grown.subtract(before)
    outcome["grown"] = {kind: count for kind, count in grown.items() if count}
    return outcome


def _live(library: HostLibrary) -> dict[str, int]:
    return {kind: library.live(kind) for kind in KINDS}
