# SPDX-License-Identifier: Apache-2.0

"""The folder that a release archive of onnxruntime has, with the library of the installed wheel."""

from __future__ import annotations

import os
from pathlib import Path

import onnxruntime

DECLARATIONS = Path(__file__).parent / "include"


def lay_out(folder: Path) -> None:
    """Make a new folder with `include/` and `lib/`.

    The header is the official one if ONNXRUNTIME_INCLUDE_DIR names its folder, else the part of it that the example
    program uses.
    """
    folder.mkdir()
    (folder / "include").symlink_to(os.environ.get("ONNXRUNTIME_INCLUDE_DIR", DECLARATIONS))
    (folder / "lib").mkdir()
    [library] = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (folder / "lib" / name).symlink_to(library)
