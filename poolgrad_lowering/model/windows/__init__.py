# SPDX-License-Identifier: Apache-2.0

"""The windows of pools: those of ONNX and of adaptive pooling, each formula once."""
