# SPDX-License-Identifier: Apache-2.0

"""The models that a search starts from: what real exporters wrote, and what only looks like a gradient.

`python -m tests.fuzz.seeds FOLDER` writes them as files, by the check that they are for: one model a file, or a pair of
one and its lowered form.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from onnx import ModelProto, parser

from poolgrad_lowering import lower
from tests.fuzz.promises import packed
from tests.patterns import test_ort_max_pool_grad, test_torch_scatter_add_near_misses

BUILT = Path(__file__).parents[2] / "models" / "built"
NEAR_MISSES = test_torch_scatter_add_near_misses.NEAR_MISSES | test_ort_max_pool_grad.NEAR_MISSES


@cache
def seeds() -> dict[str, bytes]:
    """Serialised models by name."""
    built = {str(path.relative_to(BUILT)): path.read_bytes() for path in sorted(BUILT.rglob("*.onnx"))}
    models = {
        f"{code.value}/{name}": parser.parse_model(source) if isinstance(source, str) else source
        for (code, name), source in NEAR_MISSES.items()
    }
    return built | {name: model.SerializeToString(deterministic=True) for name, model in models.items()}


def pair(data: bytes) -> bytes:
    """A model and what becomes of it."""
    return packed(data, lower(ModelProto.FromString(data)).model.SerializeToString())


def write(folder: Path) -> None:
    """Write the seeds of each check into a folder of the check's name."""
    for check, make in (("models", bytes), ("pairs", pair)):
        (folder / check).mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(seeds().values()):
            (folder / check / f"seed-{number}").write_bytes(make(data))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
