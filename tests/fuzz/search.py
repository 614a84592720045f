# SPDX-License-Identifier: Apache-2.0

"""Search for bytes that break a promise, guided by what of the package they reach (atheris, which is libFuzzer).

`python -m tests.fuzz.search models|pairs FOLDER [libFuzzer's options]`; FOLDER holds seeds and takes what reaches
further.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import atheris
from google.protobuf.message import DecodeError

with atheris.instrument_imports(include=["poolgrad_lowering"]):
    from poolgrad_lowering.patterns import own_forms
    from tests.fuzz import promises

    own_forms()  # they are imported where they are first asked for

from tests.fuzz.changes import corrupted, mutated, rewritten

Change = Callable[[bytes, int, int], bytes]
CHANGES = (corrupted, mutated, rewritten, rewritten)
OF_PAIRS = (corrupted, rewritten, rewritten)  # not fields: what a model asks to be computed, the verifier computes
CHECKS = {"models": promises.check_model, "pairs": promises.check_pair}


def changed_model(data: bytes, size: int, seed: int, changes: Sequence[Change] = CHANGES) -> Any:
    """Another model where the data is one, other bytes where not; libFuzzer's own changes now and then."""
    chance = random.Random(seed)
    if not data or chance.random() < 0.2:
        return atheris.Mutate(data, size)
    try:
        return chance.choice(changes)(data, seed, chance.randint(1, 3))[:size]
    except (DecodeError, TypeError, ValueError):  # no model, names that are no text, numbers at their ends
        return atheris.Mutate(data, size)


def changed_pair(data: bytes, size: int, seed: int) -> Any:
    """One model of the two is changed, or both in the same way."""
    first, second = promises.unpacked(data)
    room = max(size // 2 - 4, 1)
    which = seed % 4
    if which in (0, 1):
        second = changed_model(second, room, seed, OF_PAIRS)
    if which in (1, 2):
        first = changed_model(first, room, seed, OF_PAIRS)
    return promises.packed(first, second)[:size]


def main() -> None:
    """Search until libFuzzer ends the process."""
    name = sys.argv[1]
    change: Callable[[bytes, int, int], Any] = changed_pair if name == "pairs" else changed_model
    atheris.Setup([sys.argv[0], *sys.argv[2:]], CHECKS[name], custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
