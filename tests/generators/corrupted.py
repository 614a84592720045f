# SPDX-License-Identifier: Apache-2.0

"""Searches for corruptions of lowered models that `verify` does not see.

`python -m tests.generators.corrupted --minutes 10 --seed 1` prints for each kind how many were tried and how many were
caught. A model that is called proven is written into a folder.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

import onnx
from onnx import ModelProto

from models import catalogue
from poolgrad_lowering import PoolgradError, export_atc, lower, verify
from tests.generators.corruptions import KINDS

BUILT = (
    "ort/lenet",
    "ort/lenet_opset12",
    "ort/stem_dynamic_shape",
    "ort/unequal_pads",
    "ort_module/pyramid",
    "torch/global",
    "torch/lenet_dynamic_batch",
    "torch/lenet_float16",
    "torch/nested",
    "torch/video_ceil",
    "torch_legacy/adaptive",
)
ADAPTIVE = ("ort_module/pyramid", "torch_legacy/adaptive")
"""Models with gradients of adaptive pools, which exports expand."""
DRAWN = {
    "other windows": [name for name in BUILT if name not in (*ADAPTIVE, "ort/unequal_pads", "torch/global")],
    "axes changed": [name for name in BUILT if name != "torch/global"],
    "expanded node changed": ADAPTIVE,
}
"""The models that a kind draws from, if not from all, as the others can compute the same after the change.

Those are other windows of an adaptive or global pool; a kernel that is one less, where it was one more so that both
pads are the same; and a plane of one window in which the axis of size 1 has moved.
"""
OF_EXPORTS = ("axes changed", "expanded node changed")
NOT_OF_EXPORTS = ("initializer more",)
"""Where an export has other nodes than the original, an initializer that nothing reads is none of the differences."""


@cache
def pair(name: str, target: str, forward: bool, export: bool) -> tuple[bytes, bytes]:
    """A built model and its lowered model or export, which is proven, as bytes."""
    original = onnx.load(catalogue.entry(name).file)
    lowered = lower(original, target=target, forward=forward).model
    if export:
        lowered = export_atc(lowered, target=target).model
    found = verify(original, lowered, whole_model=False)
    if not found.proven:
        raise AssertionError(f"{name} is not proven before anything is changed: {found.first_failure}")
    return original.SerializeToString(), lowered.SerializeToString()


def corrupted(kind: str, random: Random) -> tuple[ModelProto, ModelProto] | None:
    """An original and a corrupted lowered model; None if the drawn model has nothing to change."""
    chosen = (
        random.choice(DRAWN.get(kind, BUILT)),
        random.choice(("atlas-a2", "ascend950")),
        random.random() < 0.5,
        kind in OF_EXPORTS or (random.random() < 0.4 and kind not in NOT_OF_EXPORTS),
    )
    original, lowered = (ModelProto.FromString(held) for held in pair(*chosen))
    before = lowered.SerializeToString(deterministic=True)
    KINDS[kind](lowered, random)
    return (original, lowered) if lowered.SerializeToString(deterministic=True) != before else None


def is_caught(original: ModelProto, lowered: ModelProto, seed: int) -> bool:
    """Whether `verify` does not call the model proven."""
    try:
        return not verify(original, lowered, seed=seed, whole_model=False).proven
    except PoolgradError:  # a model that is no model
        return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Search and print the counts; returns 1 if a corruption was not caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("build/corrupted"))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    deadline, random = time.monotonic() + 60 * options.minutes, Random(options.seed)
    tried, caught = Counter[str](), Counter[str]()
    while time.monotonic() < deadline:
        for kind in KINDS:
            models = corrupted(kind, random)
            if models is None:
                continue
            tried[kind] += 1
            if is_caught(*models, random.randrange(1 << 16)):
                caught[kind] += 1
                continue
            folder = options.folder / f"{kind} {tried[kind]}"
            folder.mkdir(parents=True, exist_ok=True)
            for name, model in zip(("original.onnx", "lowered.onnx"), models, strict=True):
                onnx.save(model, folder / name)
    for kind in KINDS:
        sys.stdout.write(f"| {kind} | {tried[kind]} | {caught[kind]} |\n")
    return 0 if tried == caught else 1


if __name__ == "__main__":
    sys.exit(main())
