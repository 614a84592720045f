# SPDX-License-Identifier: Apache-2.0

"""Lowered models in the releases of onnxruntime, by their function bodies alone, against the originals.

`prepare` writes a folder of cases (`cases`), `runner` runs it under one release (both in `tests/harness/releases/`),
and `test_releases` judges the rows.
"""
