# SPDX-License-Identifier: Apache-2.0

"""The host library that the provider of this process has opened: its trace of calls, and failures by request."""

from __future__ import annotations

import ctypes
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
        """The violations so far."""
        return self._lines(self._library.aclnnHostViolations())

    def live(self, kind: str) -> int:
        """The number of objects of this kind that are not released."""
        return int(self._library.aclnnHostLiveObjects(kind.encode()))

    def live_objects(self) -> int:
        """The number of objects of all kinds that are not released."""
        return int(self._library.aclnnHostLiveObjects(None))

    def fail(self, function: str, nth: int, code: int) -> None:
        """Make the nth call of this function from now fail; 0: every call."""
        assert self._library.aclnnHostFail(function.encode(), nth, code) == 0

    def heal(self, *, tolerated: str = "") -> None:
        """Make no further call fail, and require that no violation but the tolerated one was recorded."""
        assert [found for found in self.violations() if found["violation"] != tolerated] == []
        self.reset()

    def reset(self) -> None:
        """Clear violations, calls and failures."""
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
