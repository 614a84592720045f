# SPDX-License-Identifier: Apache-2.0

"""The result of a self-test as data."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass

from poolgrad_lowering.runtime.doctor import Diagnosis

SCHEMA_VERSION = 1
STATUSES = ("ok", "close", "different", "refused", "error")


@dataclass(frozen=True)
class Row:
    """A check and its outcome.

    `operator`, `element_type` and `function` (of aclnn) are None for a check of a whole session. `status` is one of
    `STATUSES`: "ok"; "close" if sums are rounded otherwise than in the recorded calls; "different" if a result differs;
    "refused" if the provider did not claim a node of the dialect;
    "error" if something failed. `detail` explains every status except "ok".
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
    """The result: the backend (None with a `problem` if there is none), the checks, and the machine's diagnosis."""

    backend: str | None
    problem: str | None
    rows: list[Row]
    machine: Diagnosis

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows with each status."""
        counted = Counter(row.status for row in self.rows)
        return {status: counted[status] for status in STATUSES}

    @property
    def passed(self) -> bool:
        """Whether at least one check is ok, and none is different or failed."""
        counts = self.counts
        return counts["ok"] > 0 and counts["different"] == counts["error"] == 0

    def to_json(self) -> str:
        """Return JSON text with the names of the fields as keys, and `schema_version`, `passed` and `counts`."""
        machine = json.loads(self.machine.to_json())
        beside = {"schema_version": SCHEMA_VERSION, "passed": self.passed, "counts": self.counts}
        return json.dumps({**beside, **asdict(self), "machine": machine}, indent=2) + "\n"
