# SPDX-License-Identifier: Apache-2.0

"""The comparison of CANN's C ABI with official headers, on synthetic headers that agree, and some that do not."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "runtime" / "src"
CHECK = SOURCES / "abi" / "acl_check.cpp"
COMPILER = shutil.which("g++") or shutil.which("c++")
CMAKE = shutil.which("cmake")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")


def compile_(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(COMPILER), "-std=c++17", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def declarations(tmp_path_factory: pytest.TempPathFactory) -> str:
    """This project's declarations after preprocessing, without its tables."""
    no_headers = tmp_path_factory.mktemp("no_headers")
    for name in ("cstddef", "cstdint"):
        (no_headers / name).touch()
    done = compile_("-E", "-P", "-nostdinc", "-nostdinc++", "-I", no_headers, "-I", SOURCES, SOURCES / "abi" / "acl.h")
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_headers(folder: Path, declarations: str) -> Path:
    """A set of CANN's headers with all declarations in one of them."""
    for line in CHECK.read_text(encoding="utf-8").splitlines():
        if line.startswith(("#include <acl/", "#include <aclnn")):
            header = folder / line.removeprefix("#include <").removesuffix(">")
            header.parent.mkdir(parents=True, exist_ok=True)
            header.touch()
    text = f"#pragma once\n#include <cstddef>\n#include <cstdint>\n{declarations}"
    (folder / "acl" / "acl_rt.h").write_text(text, encoding="utf-8")
    return folder


def check(headers: Path) -> subprocess.CompletedProcess[str]:
    return compile_("-fsyntax-only", "-I", SOURCES, "-isystem", headers, CHECK)


def test_headers_that_agree(declarations: str, tmp_path: Path) -> None:
    done = check(write_headers(tmp_path, declarations))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        ("ACL_FORMAT_NCDHW = 30,", "ACL_FORMAT_NCDHW = 31,", "ACL_FORMAT_NCDHW differs"),
        ("ACL_HBM_MEM = 1,", "", "ACL_HBM_MEM"),
        ("enum aclrtMemcpyKind : int", "enum aclrtMemcpyKind : char", "aclrtMemcpyKind is not an int"),
        ("ACLNN_ERR_PARAM_INVALID = 161002", "ACLNN_ERR_PARAM_INVALID = 161001", "ACLNN_ERR_PARAM_INVALID differs"),
        ("ACL_EVENT_SYNC = 1;", "ACL_EVENT_SYNC = 8;", "ACL_EVENT_SYNC differs"),
        ("(void** devPtr, size_t size, aclrt", "(void** devPtr, uint32_t size, aclrt", "aclrtMalloc has another"),
        ("aclError aclFinalize ();", "", "aclFinalize"),
        (
            "bool ceilMode, aclTensor* out,",
            "aclTensor* out, bool ceilMode,",
            "aclnnMaxPool2dWithIndicesGet.* has another",
        ),
    ],
)
def test_headers_that_differ(declarations: str, tmp_path: Path, ours: str, theirs: str, message: str) -> None:
    assert ours in declarations
    done = check(write_headers(tmp_path, declarations.replace(ours, theirs)))
    assert done.returncode != 0
    assert re.search(message, done.stderr), done.stderr


@pytest.mark.long
@pytest.mark.skipif(CMAKE is None, reason="there is no CMake")
@pytest.mark.parametrize(("ours", "theirs", "agree"), [("", "", True), ("ACL_BF16 = 27,", "ACL_BF16 = 28,", False)])
def test_build_that_is_given_headers(declarations: str, tmp_path: Path, ours: str, theirs: str, agree: bool) -> None:
    headers = write_headers(tmp_path / "cann", declarations.replace(ours, theirs))
    build = tmp_path / "build"
    subprocess.run([str(CMAKE), "-S", ROOT, "-B", build, f"-DCANN_INCLUDE_DIR={headers}"], check=True)
    done = subprocess.run([str(CMAKE), "--build", build, "--target", "poolgrad_acl_check"], check=False)
    assert (done.returncode == 0) == agree
