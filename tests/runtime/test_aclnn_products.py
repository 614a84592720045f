# SPDX-License-Identifier: Apache-2.0

"""The product of a SoC name, and of a name that is not known."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from poolgrad_lowering.dialect.targets import TARGETS
from tests.harness.cann.installations import build_over_host, install
from tests.harness.sessions.ep_process import run_python
from tools.operator_tables.tables import ROOT, SOCS, tables

DESCRIBE = """
import json
from poolgrad_lowering.runtime import get_library_path, probing
described = json.loads(probing.describe(get_library_path(), "cann"))
answer([described["soc"], described["product"], described["problem"]])
"""


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


MAIN = """
#include <cstdio>
#include "aclnn/product.h"
#include "host/soc.h"
int main() {
  using namespace poolgrad;
  std::puts(NameOf(aclnn::ProductOf("AscendTest1", {})));
  std::puts(host::ProductName(FindSoc("AscendTest1")->product));
  std::puts(NameOf(aclnn::ProductOf("Ascend310P1", {})));
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_new_product_is_a_row_of_the_compilers_table(tmp_path: Path) -> None:
    """The generated header is all that C++ needs to know of it."""
    target = TARGETS["atlas-a2"]._replace(name="a-product-of-this-test", chip="AscendTest", socs=("AscendTest1",))
    sources = ROOT / "runtime" / "src"
    (tmp_path / "abi").mkdir()
    table = tables(targets=[*TARGETS.values(), target])[SOCS]
    (tmp_path / "abi" / SOCS.name).write_text(table, encoding="utf-8")
    shutil.copy(sources / "abi" / "soc_names.h", tmp_path / "abi")
    (tmp_path / "main.cpp").write_text(MAIN, encoding="utf-8")
    includes = [f"-I{tmp_path}", f"-I{sources}"]
    program = tmp_path / "main"
    files = [str(tmp_path / "main.cpp"), str(sources / "aclnn" / "product.cpp")]
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Werror", *includes, *files, "-o", str(program)], check=True)
    printed = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    assert printed.split("\n")[:3] == ["Atlas A2/A3", "AscendTest", "unsupported"]
