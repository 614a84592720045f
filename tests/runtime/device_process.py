"""Running a check in a process whose backend has memory of its own: the host library in its strict mode.

There, host code that touches device memory faults, work on streams runs as late as it may, and misuse is recorded.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ep_process import run_python

from poolgrad_lowering.runtime import get_host_library_path

STRICT = {"ACLNN_HOST_STRICT": "1"}


def on_device(check: Callable[[], Any], **environment: str) -> Any:
    """Return what the check returns, a function at the top of a test module: JSON, from a process of its own.

    Fails if the check fails or misuses the library.
    """
    module = Path(check.__code__.co_filename).stem
    code = f"""
from device_process import HostLibrary
from {module} import {check.__name__} as check
answer([check(), HostLibrary().violations()])
"""
    result, violations = run_python(code, **STRICT, **environment)
    assert violations == []
    return result


class HostLibrary:
    """The host library that the provider of this process has opened: its record of calls, and how to make them fail."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(get_host_library_path())
        for name in ("aclnnHostViolations", "aclnnHostTraceRead"):
            getattr(self._library, name).restype = ctypes.c_char_p
        self._library.aclnnHostLiveObjects.restype = ctypes.c_int64
        self._library.aclnnHostFail.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int32]

    def violations(self) -> list[dict[str, Any]]:
        """What was misused so far."""
        return self._lines(self._library.aclnnHostViolations())

    def live(self, kind: str) -> int:
        """The number of objects of this kind that are not released."""
        return int(self._library.aclnnHostLiveObjects(kind.encode()))

    def fail(self, function: str, nth: int, code: int) -> None:
        """Have the nth call from now of this function fail; 0: every call."""
        assert self._library.aclnnHostFail(function.encode(), nth, code) == 0

    def heal(self, *, tolerated: str = "") -> None:
        """Let no further call fail; until now there must have been no misuse but of the tolerated kind."""
        assert [found for found in self.violations() if found["violation"] != tolerated] == []
        self._library.aclnnHostReset()

    def trace(self, run: Callable[[], object]) -> list[dict[str, Any]]:
        """Return the calls that `run` makes."""
        self._library.aclnnHostTraceStart()
        run()
        self._library.aclnnHostTraceStop()
        return self._lines(self._library.aclnnHostTraceRead())

    @staticmethod
    def _lines(text: bytes | None) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (text or b"").decode().splitlines()]
