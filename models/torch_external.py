# SPDX-License-Identifier: Apache-2.0

"""Builds joint graphs as torch's exporter writes them to files by default: tensors over 256 bytes in external data.

Exports the rows `NAMES` of `torch_nets.NETS`, or those named on the command line, as `torch_joint.py` does. The zeros
onto which the gradients are scattered are in the external data, `<name>.onnx.data`. See README.md for the environment.
"""

from __future__ import annotations

import argparse

from models.building import built, save
from models.torch_joint import export, row
from models.torch_nets import NETS

NAMES = (
    "audio",
    "ceil",
    "lenet",
    "lenet_float16",
    "nested",
    "resnet_stem",
    "spatial_pyramid",
    "unbatched",
    "video_ceil",
)


def build(name: str) -> None:
    """Export one row into its file, and write its tensors and its manifest row. Raises `ValueError` as `row` does."""
    net = NETS[name]
    file = built("torch_external", name).with_suffix(".onnx")
    model, arrays = export(net, file)
    save("torch_external", name, model, arrays, manifest="external.json", **row(name, net, model))


def main() -> None:
    """Build the rows named on the command line, or all of `NAMES`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], help="rows of NAMES; all if none is named")
    for name in parser.parse_args().names or NAMES:
        build(name)
        print(name)


if __name__ == "__main__":
    main()
