# SPDX-License-Identifier: Apache-2.0

"""What changed between two runs of `fingerprints.py`: a line per model that is not the same.

`python compare.py BEFORE.json AFTER.json`; 1 where anything changed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Fingerprint = Mapping[str, Any]


def differences(before: Fingerprint, after: Fingerprint) -> Iterator[str]:
    """What is not the same of one model, verdict by verdict."""
    if "error" in before or "error" in after:
        yield f"error {before.get('error')} → {after.get('error')}"
        return
    old, new = ({(anchor["scope"], anchor["name"]): anchor for anchor in found["anchors"]} for found in (before, after))
    for scope, name in sorted(old.keys() | new.keys()):
        first, second = old.get((scope, name), {}), new.get((scope, name), {})
        changed = [key for key in {**first, **second} if first.get(key) != second.get(key)]
        if changed:
            told = ", ".join(f"{key} {first.get(key)} → {second.get(key)}" for key in changed)
            yield f"{name} in {scope}: {told}"


def compare(before: Mapping[str, Fingerprint], after: Mapping[str, Fingerprint]) -> dict[str, list[str]]:
    """The lines of each model that is not the same."""
    changed = {}
    for path in sorted(before.keys() | after.keys()):
        if path not in before or path not in after:
            changed[path] = ["only before" if path in before else "only after"]
        elif before[path] != after[path]:
            changed[path] = list(differences(before[path], after[path])) or ["other bytes, the same verdicts"]
    return changed


def main() -> int:
    """Print what changed."""
    before, after = (json.loads(Path(path).read_text(encoding="utf-8")) for path in sys.argv[1:3])
    changed = compare(before, after)
    for path, lines in changed.items():
        for line in lines:
            sys.stdout.write(f"{path}: {line}\n")
    total = len(before.keys() | after.keys())
    sys.stdout.write(f"{total} models: {total - len(changed)} the same, {len(changed)} not\n")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
