# SPDX-License-Identifier: Apache-2.0

"""Operators of training runtimes in standard ONNX: their definitions, and the rewrites that write them."""
