# SPDX-License-Identifier: Apache-2.0

"""A plan: the chosen operators for every site of a model, as data and as a file that users edit.

`docs/report.md` describes the file, `schemas/plan.json` is its schema. `apply_plan` applies a plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

PLAN_VERSION = 1

_IN_FILE = ("site", "layer", "pattern", "operator", "alternatives", "forward")
"""The fields of a choice in a file."""


def model_sha256(data: bytes) -> str:
    """The SHA-256 of a model's file in hexadecimal, which identifies the model in a plan."""
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, which a lowering without a plan does not need

    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class SiteChoice:
    """The choice for one site.

    `site` is its identifier in the report. `operator` is the dialect operator that the gradient becomes, `forward` the
    one that its forward pool becomes; None leaves the node unchanged. `pattern`, `alternatives` and `layer` inform the
    user and have no effect. `where` is the place in a file, for messages.
    """

    site: str
    operator: str | None
    forward: str | None
    pattern: str | None = None
    alternatives: tuple[str, ...] = ()
    where: str = field(default="", compare=False)
    layer: str | None = None


@dataclass(frozen=True)
class LoweringPlan:
    """A choice for every site of a model on a target.

    `target` is the product's name, `model_sha256` the SHA-256 of the model's file in hexadecimal. `trust_defaults` says
    that defaults of graph inputs are constants (`lower`). `where` maps the names of these fields to their places in a
    file, for messages.
    """

    target: str
    model_sha256: str
    sites: tuple[SiteChoice, ...]
    trust_defaults: bool = False
    where: Mapping[str, str] = field(default_factory=dict, compare=False)

    def to_json(self) -> str:
        """The plan as JSON text, for a file."""
        document = {
            "schema_version": PLAN_VERSION,
            "model_sha256": self.model_sha256,
            "target": self.target,
            **({"trust_defaults": True} if self.trust_defaults else {}),
            "sites": [{name: getattr(choice, name) for name in _IN_FILE} for choice in self.sites],
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
