# SPDX-License-Identifier: Apache-2.0

"""What lowering makes of models, so that it can be compared between processes, interpreters and revisions.

`python fingerprints.py MODEL…` prints a JSON object: each path with the hash of the lowered model's bytes and the
verdicts on its anchors, or with the error. Needs the package and nothing of the tests.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from onnx import ModelProto

from poolgrad_lowering import PoolgradError, lower


def fingerprint(data: bytes) -> dict[str, Any]:
    """The hash and the verdicts of one serialised model."""
    try:
        result = lower(ModelProto.FromString(data))
    except PoolgradError as error:
        return {"error": str(error)}
    anchors = [
        {key: value for key, value in anchor.items() if value is not None}
        for anchor in result.report.to_dict()["anchors"]
    ]
    return {"sha256": hashlib.sha256(result.model.SerializeToString()).hexdigest(), "anchors": anchors}


def main() -> None:
    """Print the fingerprints of the models that the command line names."""
    found = {path: fingerprint(Path(path).read_bytes()) for path in sys.argv[1:]}
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
