# SPDX-License-Identifier: Apache-2.0

"""Operators and functions of PyTorch in operators that its ONNX exporter translates, with right gradients."""
