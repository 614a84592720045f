# SPDX-License-Identifier: Apache-2.0

"""Creates build/NAME, an ASCEND_HOME_PATH with links to the host library and to a stand-in for CANN's libraries.

    python tools/cann_home.py NAME

Runs in the environment whose clients of CANN it is for; the libraries are linked with its packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from fingerprint import NATIVE, PROJECT, ROOT, WHEEL, fingerprint


@dataclass(frozen=True)
class Home:
    """What serves as CANN for one of its clients. The stand-in is libascendcl.so, compiled from its folder."""

    host: tuple[str, ...]
    """The names of CANN's libraries that are the host library."""
    stand_in: tuple[str, ...]
    """The further names of the stand-in."""
    inputs: tuple[str, ...]
    """What the host library depends on."""
    links_onnxruntime: bool = False
    folders: tuple[str, ...] = ()
    """Further folders of the installation."""


HOMES = {
    "cann_ep": Home(
        host=("libaclnn_host.so", "libacl_rt.so", "libnnopbase.so", "libopapi_nn.so"),
        stand_in=("libacl_op_compiler.so", "libfmk_onnx_parser.so"),
        inputs=(*PROJECT, WHEEL),
        links_onnxruntime=True,
    ),
    "torch_npu": Home(
        host=("libaclnn_host.so", "libacl_rt.so", "libnnopbase.so", "libopapi_nn.so"),
        stand_in=(
            "libacl_op_compiler.so",
            "libacl_tdt_channel.so",
            "libge_runner.so",
            "libgraph.so",
            "libhccl.so",
            "libopapi.so",
        ),
        inputs=NATIVE,
        folders=("runtime", "compiler", "opp"),
    ),
}
STAND_INS = "tests/harness/cann"
"""The sources of the stand-ins: a folder NAME of each, and `shared`."""
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
FLAGS = ["-std=c++17", "-O2", *WARNINGS, "-fPIC", "-shared", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]


def make(name: str) -> None:
    """Create the folder unless it is up to date."""
    home, folder = HOMES[name], ROOT / "build" / name
    state = fingerprint((*home.inputs, f"{STAND_INS}/shared/*", f"{STAND_INS}/{name}/*", "tools/cann_home.py"))
    libraries, stamp = folder / "lib64", folder / ".made"
    if stamp.is_file() and stamp.read_text() == state:
        return
    shutil.rmtree(folder, ignore_errors=True)
    for made in (libraries, *(folder / further for further in home.folders)):
        made.mkdir(parents=True)
    for link in home.host:
        (libraries / link).symlink_to(package("poolgrad_lowering") / "runtime" / "libaclnn_host.so")
    links = ["-laclnn_host"]
    if home.links_onnxruntime:
        [onnxruntime] = (package("onnxruntime") / "capi").glob("libonnxruntime.so.1.*")
        (libraries / "libonnxruntime.so.1").symlink_to(onnxruntime)
        links.append("-l:libonnxruntime.so.1")
    compile_stand_in(ROOT / STAND_INS / name, libraries, links)
    for link in home.stand_in:
        (libraries / link).symlink_to("libascendcl.so")
    stamp.write_text(state)


def compile_stand_in(sources: Path, libraries: Path, links: list[str]) -> None:
    """Compile the library that the client loads as libascendcl.so."""
    shared = ROOT / STAND_INS / "shared"
    files = sorted(file for folder in (shared, sources) for file in folder.glob("*.cpp"))
    headers = [f"-I{folder}" for folder in (ROOT / "runtime" / "src", shared, sources)]
    compiler = os.environ.get("CXX", "g++")
    output = ["-o", libraries / "libascendcl.so"]
    linked = ["-Wl,--no-undefined", f"-L{libraries}", *links]
    subprocess.run([compiler, *FLAGS, *headers, *files, *linked, *output], check=True)


def package(name: str) -> Path:
    """Return the folder of an installed package."""
    return Path(sysconfig.get_path("platlib")) / name


if __name__ == "__main__":
    make(sys.argv[1])
