# SPDX-License-Identifier: Apache-2.0

"""Creates build/cann_ep, an ASCEND_HOME_PATH with links to the host library and to a stand-in for CANN's libraries.

Runs in the environment `cann`; the libraries are linked with its onnxruntime and its package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from environments import PROJECT, ROOT, WHEEL, fingerprint

HOME = ROOT / "build" / "cann_ep"
STAND_IN = ROOT / "tests" / "cann_ep" / "cpp"
OF_THE_HOST_LIBRARY = ("libaclnn_host.so", "libacl_rt.so", "libnnopbase.so", "libopapi_nn.so")
OF_THE_STAND_IN = ("libacl_op_compiler.so", "libfmk_onnx_parser.so")
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
FLAGS = ["-std=c++17", "-O2", *WARNINGS, "-fPIC", "-shared", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]


def make() -> None:
    """Create the folder unless it is up to date."""
    state = fingerprint((*PROJECT, WHEEL, "tests/cann_ep/cpp/*", "tools/cann_home.py"))
    libraries, stamp = HOME / "lib64", HOME / ".made"
    if stamp.is_file() and stamp.read_text() == state:
        return
    shutil.rmtree(HOME, ignore_errors=True)
    libraries.mkdir(parents=True)
    for name in OF_THE_HOST_LIBRARY:
        (libraries / name).symlink_to(package("poolgrad_lowering") / "runtime" / "libaclnn_host.so")
    [onnxruntime] = (package("onnxruntime") / "capi").glob("libonnxruntime.so.1.*")
    (libraries / "libonnxruntime.so.1").symlink_to(onnxruntime)
    compile_stand_in(libraries)
    for name in OF_THE_STAND_IN:
        (libraries / name).symlink_to("libascendcl.so")
    stamp.write_text(state)


def compile_stand_in(libraries: Path) -> None:
    """Compile the library that the CANN provider loads as libascendcl.so."""
    links = ["-Wl,--no-undefined", f"-L{libraries}", "-laclnn_host", "-l:libonnxruntime.so.1"]
    sources = sorted(STAND_IN.glob("*.cpp"))
    compiler = os.environ.get("CXX", "g++")
    output = ["-o", libraries / "libascendcl.so"]
    subprocess.run([compiler, *FLAGS, f"-I{ROOT / 'runtime' / 'src'}", *sources, *links, *output], check=True)


def package(name: str) -> Path:
    """Return the folder of an installed package."""
    return Path(sysconfig.get_path("platlib")) / name


if __name__ == "__main__":
    make()
