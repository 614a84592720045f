# SPDX-License-Identifier: Apache-2.0

"""The windows of pools, each formula once: ONNX's, aclnn's and those of adaptive pooling."""
