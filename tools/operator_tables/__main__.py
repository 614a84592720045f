# SPDX-License-Identifier: Apache-2.0

"""Writes all tables."""

from __future__ import annotations

from tools.operator_tables.tables import ROOT, tables

for path, text in tables().items():
    (ROOT / path).write_text(text, encoding="utf-8")
