# SPDX-License-Identifier: Apache-2.0

"""Puts the original's nodes back where an export for CANN's graph engine has written them otherwise.

The rewrites are derived from ONNX's definitions, not from the export; what is not proven to be the same stays.
"""
