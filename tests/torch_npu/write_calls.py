# SPDX-License-Identifier: Apache-2.0

"""Counts how calls of torch_npu and of sessions differ, for the page: the session `torch-npu-calls`."""

from __future__ import annotations

import json

from tests.torch_npu.test_calls import RECORD, measure

if __name__ == "__main__":
    RECORD.write_text(json.dumps(measure(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
