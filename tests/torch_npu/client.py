# SPDX-License-Identifier: Apache-2.0

"""The vendor's client of aclnn, torch_npu, in processes without an NPU. `make test-torch-npu` runs them.

Real parts: the packages torch and torch_npu of PyPI, unchanged, onnxruntime, and our package.

The stand-in for CANN is a folder that serves as ASCEND_HOME_PATH and is on LD_LIBRARY_PATH.

* Runtime, streams, events, memory, copies and the pools of aclnn are those of libaclnn_host.so (docs/host.md), for
  torch_npu and for our provider.
* The other functions that torch_npu calls are in the library of `cpp/`, under the names libascendcl.so, libopapi.so
  and others. aclnnInplaceCopy and aclnnMaxPool2dWithMask do their work on the host library's streams, under its rules.

Each check runs in a process of its own (`run_client`), because the product and the mode are chosen once per process.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.runtime.ep_process import run_python

HOME = Path(__file__).parents[2] / "build" / "torch_npu"  # `make test-torch-npu` fills it

ASCEND_950, ATLAS_A2, ATLAS_A3 = SOCS = ("Ascend950PR_9599", "Ascend910B1", "Ascend910_9391")
QUEUES = ("0", "1", "2")
"""Values of TASK_QUEUE_ENABLE: 0 calls aclnn on the caller's thread, 1 runs phase 2 and 2 both phases on another one."""
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


def run_client(
    check: Callable[..., Any], *arguments: Any, soc: str = ASCEND_950, queue: str = "1", **environment: str
) -> Any:
    """Run the check, a function at the top level of a test module, in a process with torch_npu. Return its result, which
    must be JSON.

    Fails if the check fails, or if a rule of the device is broken in it or until the process has ended.
    """
    code = f"""
import gc
from {check.__module__} import {check.__name__} as check
result = check(*{arguments!r})
gc.collect()
if "torch_npu" in sys.modules:
    import torch
    torch.npu.synchronize()
from tests.runtime.host_control import HostLibrary
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
        assert list(_broken_rules(trace)) == []
    return result


def _broken_rules(trace: Path) -> Iterator[dict[str, Any]]:
    """The broken rules of a process, without what torch_npu leaves behind at its end."""
    ended = False
    with trace.open() as lines:
        for line in lines:
            ended = ended or line.startswith('{"exit"')
            if not line.startswith('{"violation"'):
                continue
            found = json.loads(line)
            if found["violation"] != "leak" or found["function"] not in _ENDS:
                yield found
    assert ended, "the process did not end in order"


def start() -> Any:
    """Return torch with torch_npu, which compiles no operators and keeps tensors in the formats of torch."""
    import torch
    import torch_npu  # noqa: F401 - registers itself

    torch.npu.set_compile_mode(jit_compile=False)
    torch.npu.config.allow_internal_format = False
    return torch
