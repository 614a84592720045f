# SPDX-License-Identifier: Apache-2.0

"""Makes every aclnn call of sessions fail once, in each stage of a session, and records what follows.

Runs in a process of its own: `sweep` and `sweep_registration` are for `run_python`. What is right of it, the tests say.
"""

from __future__ import annotations

import functools
import gc
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from poolgrad_lowering.runtime import create_session, get_library_path, register
from tests.harness.sessions.host_control import HostLibrary
from tests.oracles import assert_same_bits
from tests.runtime.device_models import Array, image, model_of

FAULT = 507899  # ACL_ERROR_RT_DRV_INTERNAL_ERROR, which no function gives by itself
KINDS = ("tensor", "int_array", "executor", "stream", "event", "device_memory", "pinned_memory")
# The functions that end what was made, each with what is then left. Their failure ends no session: nobody is left to
# tell, and everything else is released all the same.
RELEASES = {
    "aclDestroyAclOpExecutor": "executor",
    "aclDestroyIntArray": "int_array",
    "aclDestroyTensor": "tensor",
    "aclrtDestroyEvent": "event",
    "aclrtDestroyStream": "stream",
    "aclrtFree": "device_memory",
    "aclrtFreeHost": "pinned_memory",
}

# Overlapping windows of halves: on Atlas A2 and A3 their gradient needs a workspace. One gradient has its argmax from a
# pool of the session, the other from outside, where it is checked.
_WINDOW = 'ksize=[1,3,3], strides=[1,2,2], pads=[0,0,0], dilation=[1,1,1], ceil_mode=0, data_format="NCDHW"'
_IN_ONNX = "onnx_kernel_shape=[3,3], onnx_strides=[2,2], onnx_pads=[0,0,0,0], onnx_dilations=[1,1], onnx_ceil_mode=0"
_GRADIENT = f"npu.MaxPool3DGradWithArgmax <{_WINDOW}>"
MODEL = f"""
swept (float16[1, 2, 7, 7] x, int32[1, 2, 3, 3] given) => (float16[1, 2, 7, 7] dx, float16[1, 2, 7, 7] other) {{
  y, argmax = npu.MaxPool3DWithArgmaxV2 <{_WINDOW}, dtype=3, {_IN_ONNX}> (x)
  grad = Neg (y)
  dx = {_GRADIENT} (x, grad, argmax)
  other = {_GRADIENT} (x, grad, given)
}}"""
# Small integers: their sums are exact in any order.
FEEDS = {
    "x": image(1, 2, 7, 7).astype(np.float16),
    "given": np.tile(2 * 7 * np.arange(3)[:, None] + 2 * np.arange(3), (1, 2, 1, 1)).astype(np.int32),
}

Open = Callable[[], Any]


@functools.cache
def model(*, with_bodies: bool = True) -> bytes:
    made = model_of(MODEL, onnx.TensorProto.FLOAT16)
    if not with_bodies:
        del made.functions[:]
    return made.SerializeToString()


@functools.cache
def expected() -> list[Array]:
    """The results of the function bodies on the CPU."""
    cpu = ort.InferenceSession(model(), providers=["CPUExecutionProvider"])
    return list(cpu.run(None, FEEDS))


def quiet_options() -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return options


def open_provider(**options: str) -> Open:
    """Creates sessions on the provider."""
    return lambda: create_session(model(), backend="host", session_options=quiet_options(), **options)


def open_custom_operators() -> Any:
    """A session without the provider, on the custom operators."""
    options = quiet_options()
    options.add_session_config_entry("ep.aclnnexecutionprovider.backend", "host")
    options.add_session_config_entry("ep.aclnnexecutionprovider.deterministic", "1")
    options.register_custom_ops_library(get_library_path())
    return ort.InferenceSession(model(with_bodies=False), options, providers=["CPUExecutionProvider"])


class Life:
    """The stages of a session, from its creation to its end."""

    STAGES = ("open", "first run", "next run", "close")

    def __init__(self, open_session: Open) -> None:
        self._open = open_session
        self._session: Any = None

    def go(self, stage: str) -> None:
        """Run this stage; results must have the exact bits."""
        if stage == "open":
            self._session = self._open()
        elif stage == "close":
            self._session = None
            gc.collect()  # what a traceback holds
        else:
            for found, wanted in zip(self._session.run(None, FEEDS), expected(), strict=True):
                assert_same_bits(found, wanted)

    def go_until(self, stage: str) -> None:
        """Run the stages before this one."""
        for earlier in self.STAGES[: self.STAGES.index(stage)]:
            self.go(earlier)

    def recover(self) -> None:
        """Run the session again, if there is one, and end it; then run all stages of a new one."""
        if self._session is not None:
            self.go("next run")
        self.go("close")
        for stage in self.STAGES:
            self.go(stage)


def sweep(open_session: Open, *, thorough: bool, without: Collection[str] = ()) -> list[dict[str, Any]]:
    """What became of each call, made to fail once: its stage, function and number there, the message of the error (""
    if there was none), the rules broken, and by how much the numbers of live objects grew.

    Takes only the first and the last call of a function in a stage unless `thorough`, and no function of `without`.
    Fails if the session or the next one does not recover, or breaks a rule in doing so.
    """
    library = HostLibrary()
    Life(open_session).recover()
    gc.freeze()  # collections have to see only what sessions leave
    sites = [site for site in _sites(library, Life(open_session)) if site[1] not in without]
    if not thorough:
        last = {(stage, function): nth for stage, function, nth in sites}
        sites = [(stage, function, nth) for stage, function, nth in sites if nth in (1, last[stage, function])]
    return [_outcome(library, Life(open_session), *site) for site in sites]


def sweep_registration(sites: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """As `sweep`, for the calls at registration, which is repeated after each failure."""
    library = HostLibrary()
    found = []
    for function, nth in sites:
        library.fail(function, nth, FAULT)
        found.append({"stage": "register", "function": function, "nth": nth, "message": _message_of(register)})
        library.heal()
    register()
    Life(open_provider()).recover()
    return found


def registration_sites() -> list[tuple[str, int]]:
    """The calls at registration, as function and number."""
    return list(_numbered(HostLibrary().trace(register)))


def _sites(library: HostLibrary, life: Life) -> list[tuple[str, str, int]]:
    found = []
    for stage in life.STAGES:
        calls = library.trace(lambda stage=stage: life.go(stage))
        found += [(stage, function, nth) for function, nth in _numbered(calls)]
    return found


def _numbered(calls: list[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for call in calls:
        if "call" in call:
            counts[call["call"]] += 1
            yield call["call"], counts[call["call"]]


def _outcome(library: HostLibrary, life: Life, stage: str, function: str, nth: int) -> dict[str, Any]:
    before = _live(library)
    life.go_until(stage)
    library.fail(function, nth, FAULT)
    messages = []
    calls = library.trace(lambda: messages.append(_message_of(lambda: life.go(stage))))
    assert any(call.get("call") == function and call.get("code") == FAULT for call in calls)
    violations = library.violations()
    library.reset()
    life.recover()
    assert library.violations() == []
    grown = Counter(_live(library))
    grown.subtract(before)
    return {
        "stage": stage,
        "function": function,
        "nth": nth,
        "message": messages[0],
        "violations": [found["violation"] for found in violations],
        "leaked": {kind: count for kind, count in grown.items() if count},
    }


def _live(library: HostLibrary) -> dict[str, int]:
    return {kind: library.live(kind) for kind in KINDS}


def _message_of(run: Callable[[], object]) -> str:
    try:
        run()
    except AssertionError:
        raise
    except Exception as error:
        return str(error)
    return ""
