# SPDX-License-Identifier: Apache-2.0

"""The product of a SoC name, and of a name that is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolgrad_lowering.targets.table import TARGETS
from tests.harness.cann.installations import build_over_host, install
from tests.harness.sessions.ep_process import run_python
from tools.soc_table import HEADER, soc_table

DESCRIBE = """
import json
from poolgrad_lowering.runtime import get_library_path, probe
described = json.loads(probe.describe(get_library_path(), "cann"))
answer([described["soc"], described["product"], described["problem"]])
"""


def test_the_runtime_and_the_compiler_know_the_same_names() -> None:
    assert HEADER.read_text(encoding="utf-8") == soc_table()


def test_every_name_is_known_once() -> None:
    names = [soc for target in TARGETS.values() for soc in target.socs]
    assert len(names) == len(set(names))


def runtime(soc: str, architecture: str) -> str:
    """Source of an acl runtime of this chip; the code `architecture` is the body of aclrtGetDeviceInfo."""
    return f"""
#include <cstdint>
extern "C" const char* aclrtGetSocName() {{ return "{soc}"; }}
extern "C" int aclrtGetDeviceInfo(uint32_t device, int attribute, int64_t* value) {{
  if (device != 0 || attribute != 601) return 107000;
  {architecture}
}}
"""


@pytest.mark.parametrize(
    ("soc", "architecture", "product"),
    [
        ("Ascend950XX_1", "*value = 3510; return 0;", "Ascend 950"),
        ("Ascend910_9999", "*value = 2201; return 0;", "Atlas A2/A3"),
        ("Ascend310Z", "*value = 2002; return 0;", "unsupported"),
        ("Ascend350_355e", "*value = 3510; return 0;", "unsupported"),  # the architecture of Ascend 950 alone
        ("Ascend350_999x", "*value = 3510; return 0;", "unsupported"),
        ("Ascend500X", "*value = 2201; return 0;", "unsupported"),
        ("Ascend950PR_", "return 207000;", "unsupported"),
        ("Ascend910B1x", "return 207000;", "unsupported"),
        ("Ascend910B", "*value = 2201; return 0;", "unsupported"),  # a known name: an Atlas training chip
        ("Ascend910B4-1", "*value = 3510; return 0;", "Atlas A2/A3"),
    ],
)
def test_the_name_decides_and_the_architecture_where_it_is_unknown(
    tmp_path: Path, soc: str, architecture: str, product: str
) -> None:
    home = install(tmp_path / "cann")
    build_over_host(home / "lib64" / "libacl_rt.so", runtime(soc, architecture))
    problem = f"{soc} has no operators for gradients of pools" if product == "unsupported" else None
    assert run_python(DESCRIBE, ASCEND_HOME_PATH=str(home)) == [soc, product, problem]
