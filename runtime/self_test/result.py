"""What a self-test found, as data."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass

from poolgrad_lowering.runtime.doctor import Diagnosis

SCHEMA_VERSION = 1
STATUSES = ("ok", "different", "refused", "error")


@dataclass(frozen=True)
class Row:
    """A check and how it went.

    `operator`, `element_type` and `function`, which is aclnn's, are None where a check is of a whole session.
    `status` is one of `STATUSES`: what was demanded held; a result is another one; the provider did not take a node
    of the dialect; something failed. `detail` says more of all but ok.
    """

    title: str
    operator: str | None
    element_type: str | None
    function: str | None
    status: str
    detail: str | None
    seconds: float


@dataclass(frozen=True)
class SelfTest:
    """A self-test: the backend that it ran on, None and a problem where there was none, and the machine."""

    backend: str | None
    problem: str | None
    rows: list[Row]
    machine: Diagnosis

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have each status."""
        counted = Counter(row.status for row in self.rows)
        return {status: counted[status] for status in STATUSES}

    @property
    def passed(self) -> bool:
        """Whether something ran and nothing of it was different or failed."""
        counts = self.counts
        return counts["ok"] > 0 and counts["different"] == counts["error"] == 0

    def to_json(self) -> str:
        """Return JSON with the fields' names as keys, and `schema_version`, `passed` and `counts` beside them."""
        machine = json.loads(self.machine.to_json())
        beside = {"schema_version": SCHEMA_VERSION, "passed": self.passed, "counts": self.counts}
        return json.dumps({**beside, **asdict(self), "machine": machine}, indent=2) + "\n"
