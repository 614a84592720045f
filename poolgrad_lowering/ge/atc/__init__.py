# SPDX-License-Identifier: Apache-2.0

"""Offline conversion with ATC: exports models that CANN's ONNX parser takes, and writes the parser plugin they need."""
