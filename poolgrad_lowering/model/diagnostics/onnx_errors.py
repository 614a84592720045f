# SPDX-License-Identifier: Apache-2.0

"""The exceptions of onnx's own functions, which have no common base.

The checker, which inference and the inliner run first, also refuses models for their size, such as more than 10,000
functions.
"""

import onnx

ONNX_ERRORS = (
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    onnx.shape_inference.InferenceError,
    MemoryError,
    RuntimeError,
    ValueError,
)
