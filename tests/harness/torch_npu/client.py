# SPDX-License-Identifier: Apache-2.0

"""The vendor's client of aclnn, torch_npu, in processes without an NPU. `make test-torch-npu` runs them.

Real parts: the packages torch and torch_npu of PyPI, unchanged, onnxruntime, and our package.

The stand-in for CANN is a folder that serves as ASCEND_HOME_PATH and is on LD_LIBRARY_PATH.

* Runtime, streams, events, memory, copies and the pools of aclnn are those of libaclnn_host.so (docs/host.md), for
  torch_npu and for our provider.
* The other functions that torch_npu calls are in the library of `tests/harness/cann/torch_npu/`, under the names
  libascendcl.so, libopapi.so and others. aclnnInplaceCopy and aclnnMaxPool2dWithMask do their work on the host
  library's streams, under its rules.

Each check runs in a process of its own (`run_client`), because the product and the mode are chosen once per process.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from tests.harness.sessions.ep_process import run_python

HOME = Path(__file__).parents[3] / "build" / "torch_npu"  # `make test-torch-npu` fills it

ASCEND_950, ATLAS_A2, ATLAS_A3 = SOCS = ("Ascend950PR_9599", "Ascend910B1", "Ascend910_9391")
QUEUES = ("0", "1", "2")
"""Values of TASK_QUEUE_ENABLE. 0: aclnn is called on the caller's thread; 1: phase 2 on another one; 2: both phases."""
STRICT = {"ACLNN_HOST_STRICT": "1"}

_ENVIRONMENT = {
    "ASCEND_HOME_PATH": str(HOME),
    "ASCEND_OPP_PATH": str(HOME / "opp"),
    "LD_LIBRARY_PATH": str(HOME / "lib64"),
    "OMP_NUM_THREADS": "1",  # several threads for tensors of this size would only wait for each other
}
# Each tensor is an allocation of its own, so that the host library sees accesses beyond its end. torch_npu frees what
# is left after it finalised acl, and fails: nothing may be left.
EXACT = {"PYTORCH_NO_NPU_MEMORY_CACHING": "1"}
# What torch_npu leaves behind when it finalises acl. No other rule may be broken then.
_ENDS = {"aclrtResetDevice", "aclFinalize"}


def is_installed() -> bool:
    """Whether there are torch_npu and its stand-in for CANN."""
    return importlib.util.find_spec("torch_npu") is not None and (HOME / ".made").is_file()


def run_client(check: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """As `run_to_the_end`, without the calls at the end."""
    result, _ = run_to_the_end(check, *arguments, **settings)
    return result


def run_to_the_end(
    check: Callable[..., Any],
    *arguments: Any,
    soc: str = ASCEND_950,
    queue: str = "1",
    prelude: str = "",
    tolerated: Collection[str] = (),
    **environment: str,
) -> tuple[Any, set[str] | None]:
    """Run the check, a function at the top of a test module, in a process with torch_npu. Return its result (JSON)
    and the functions that were called after aclFinalize; None if acl was not finalised.

    Fails if the check fails, or if a rule of the device is broken in it or until the process has ended. The prelude is
    code that runs before the test module is imported. Rules that are tolerated may be broken if the check clears them.
    """
    code = f"""
import gc
{prelude}
from {check.__module__} import {check.__name__} as check
result = check(*{arguments!r})
gc.collect()
if "torch_npu" in sys.modules:
    import torch
    torch.npu.synchronize()
from tests.harness.sessions.host_control import HostLibrary
answer([result, HostLibrary().violations()])
"""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "calls.jsonl"
        result, violations = run_python(
            code,
            **_ENVIRONMENT,
            ACLNN_HOST_SOC=soc,
            ACLNN_HOST_TRACE=str(trace),
            TASK_QUEUE_ENABLE=queue,
            **environment,
        )
        assert violations == [], violations
        return result, _called_at_the_end(trace, tolerated)


def _called_at_the_end(trace: Path, tolerated: Collection[str]) -> set[str] | None:
    """The functions that a process called after aclFinalize. Fails at a broken rule other than what torch_npu leaves
    behind at its end.
    """
    called: set[str] | None = None
    line = ""
    with trace.open() as lines:
        for line in lines:
            if line.startswith('{"violation"'):
                found = json.loads(line)
                left_behind = found["violation"] == "leak" and found["function"] in _ENDS
                assert left_behind or found["violation"] in tolerated, found
            elif line.startswith('{"call"') and called is not None:
                called.add(json.loads(line)["call"])
            elif line.startswith('{"call": "aclFinalize"'):
                called = set()
    assert line.startswith('{"exit"'), "the process did not end in order"
    return called


def start() -> Any:
    """Return torch with torch_npu initialised. It compiles no operators and keeps tensors in the formats of torch."""
    import torch
    import torch_npu  # noqa: F401 - registers itself

    torch.npu.set_compile_mode(jit_compile=False)
    torch.npu.config.allow_internal_format = False
    torch.npu.init()
    return torch
