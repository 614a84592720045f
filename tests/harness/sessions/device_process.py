# SPDX-License-Identifier: Apache-2.0

"""Runs a check in a process whose backend has device memory: the host library in its strict mode.

There, host code that touches device memory faults, work on streams runs as late as it may, and misuse is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.harness.sessions.ep_process import run_python

STRICT = {"ACLNN_HOST_STRICT": "1"}


def on_device(check: Callable[[], Any], **environment: str) -> Any:
    """Return what the check returns, a function at the top of a test module: JSON, from a process of its own.

    Fails if the check fails or misuses the library.
    """
    code = f"""
from tests.harness.sessions.host_control import HostLibrary
from {check.__module__} import {check.__name__} as check
answer([check(), HostLibrary().violations()])
"""
    result, violations = run_python(code, **STRICT, **environment)
    assert violations == []
    return result
