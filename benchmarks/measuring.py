# SPDX-License-Identifier: Apache-2.0

"""Measurement: variants interleaved in rounds, medians with quartiles, ratios within a round.

Knows nothing of what is measured. Interleaving spreads a temporary load of the machine over all variants, and a ratio
compares two times of the same round.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Variants = Mapping[str, Callable[[], object]]

STEADY = 0.06
"""Seconds after which a step or a kernel that runs again and again is measured, as in training."""


@dataclass(frozen=True)
class Timing:
    """The wall times of one variant in seconds, one per round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper quartile of the rounds."""
        if len(self.seconds) < 2:
            return self.seconds[0], self.seconds[0]
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return low, high

    def ratio_to(self, other: Timing) -> float:
        """The median over the rounds of this variant's time divided by the other's."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.seconds, other.seconds, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Median and quartiles in seconds, and the number of rounds."""
        low, high = self.quartiles
        return {"median": self.median, "low": low, "high": high, "rounds": len(self.seconds)}


def interleaved(variants: Variants, rounds: int, *, unmeasured: float = 0.0) -> dict[str, Timing]:
    """The timing of every variant: one call per round after a warm-up round. The order rotates from round to round.

    Before each call the variant runs for some `unmeasured` seconds. Then threads of the variant before have stopped
    waiting for work in a loop, which both onnxruntime's and OpenMP's do for some time.
    """
    names = list(variants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        variants[name]()
    frozen_before = gc.get_freeze_count() > 0  # by others: gc can only release all frozen objects at once
    gc.freeze()  # later collections skip the existing objects
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            seconds[name].append(_time(variants[name], unmeasured))
    if not frozen_before:
        gc.unfreeze()
    return {name: Timing(tuple(times)) for name, times in seconds.items()}


def _time(call: Callable[[], object], unmeasured: float) -> float:
    gc.collect()  # the garbage of one variant must not slow the next
    begin = time.perf_counter()
    while time.perf_counter() - begin < unmeasured:
        call()
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def run_process(command: Sequence[str]) -> None:
    """Run a command and discard its output. Raises `CalledProcessError`."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def in_child(task: str, *arguments: str | Path) -> dict[str, float]:
    """The measurements of a task that `child.py` runs in a separate process. Raises `CalledProcessError`."""
    child = Path(__file__).with_name("child.py")
    command = [sys.executable, str(child), task, *map(str, arguments)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return measured
