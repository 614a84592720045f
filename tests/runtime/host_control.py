"""The host library that the provider of this process has opened: its record of calls, and how to make them fail."""

from __future__ import annotations

import ctypes
import gc
import json
from collections.abc import Callable
from typing import Any

from poolgrad_lowering.runtime import get_host_library_path


class HostLibrary:
    """See runtime/src/host/control.h. One state per process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(get_host_library_path())
        for name in ("aclnnHostViolations", "aclnnHostTraceRead"):
            getattr(self._library, name).restype = ctypes.c_char_p
        self._library.aclnnHostLiveObjects.restype = ctypes.c_int64
        self._library.aclnnHostFail.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int32]

    def violations(self) -> list[dict[str, Any]]:
        """What was misused so far."""
        return self._lines(self._library.aclnnHostViolations())

    def live(self, *kinds: str) -> list[int]:
        """The numbers of objects of these kinds that are not released."""
        gc.collect()  # sessions that only a dead traceback holds
        return [int(self._library.aclnnHostLiveObjects(kind.encode())) for kind in kinds]

    def fail(self, function: str, nth: int, code: int) -> None:
        """Have the nth call from now of this function fail; 0: every call."""
        assert self._library.aclnnHostFail(function.encode(), nth, code) == 0

    def reset(self) -> None:
        """Forget violations, calls and failures."""
        self._library.aclnnHostReset()

    def trace(self, run: Callable[[], object]) -> list[dict[str, Any]]:
        """Return the calls that `run` makes."""
        self._library.aclnnHostTraceStart()
        try:
            run()
        finally:
            self._library.aclnnHostTraceStop()
        return self._lines(self._library.aclnnHostTraceRead())

    @staticmethod
    def _lines(text: bytes | None) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (text or b"").decode().splitlines()]
