// SPDX-License-Identifier: Apache-2.0

// Written by tools/operator_tables from the rows of the dialect.
#ifndef POOLGRAD_EP_DIALECT_TABLE_H_
#define POOLGRAD_EP_DIALECT_TABLE_H_

#include "ep/dialect.h"

namespace poolgrad::ep {

// clang-format off
inline constexpr char kDialectDomain[] = "npu";
inline constexpr int kDialectVersion = 1;
inline constexpr char kUnsqueezeScalars[] = "UnsqueezeScalars";

// Of x, y and the gradients, and of argmax.
inline constexpr ElementType kValueTypes[] = {
    {"float32", ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, ACL_FLOAT},
    {"float16", ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, ACL_FLOAT16},
    {"bfloat16", ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, ACL_BF16},
};
inline constexpr ElementType kIndexTypes[] = {
    {"int32", ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, ACL_INT32},
    {"int64", ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, ACL_INT64},
};

inline constexpr Parts kXGradArgmax = {Part::kX, Part::kGrad, Part::kArgmax};
inline constexpr Parts kY = {Part::kY};
inline constexpr Parts kX = {Part::kX};
inline constexpr Parts kYArgmax = {Part::kY, Part::kArgmax};
inline constexpr Parts kSizesGrad = {Part::kSizes, Part::kGrad};
inline constexpr Parts kGradX = {Part::kGrad, Part::kX};
inline constexpr Parts kGrad = {Part::kGrad};

inline constexpr DialectOp kDialectOps[] = {
    {"MaxPool3DGradWithArgmax", Direction::kBackward, kXGradArgmax, kY, 3, "NCDHW", nullptr},
    {"MaxPoolGradWithArgmaxV3", Direction::kBackward, kXGradArgmax, kY, 2, "NCHW", "dtype"},
    {"AdaptiveMaxPool3DGrad", Direction::kBackward, kXGradArgmax, kY, 0, nullptr, nullptr},
    {"MaxPool3DWithArgmaxV2", Direction::kForward, kX, kYArgmax, 3, "NCDHW", "dtype"},
    {"MaxPoolWithArgmaxV3", Direction::kForward, kX, kYArgmax, 2, "NCHW", "dtype"},
    {"AdaptiveMaxPool3d", Direction::kForward, kX, kYArgmax, 0, nullptr, "indices_dtype"},
    {"AvgPool3DGrad", Direction::kBackward, kSizesGrad, kY, 3, "NCDHW", nullptr},
    {"AvgPoolV2Grad", Direction::kBackward, kSizesGrad, kY, 2, "NCHW", nullptr},
    {"AdaptiveAvgPool3dGrad", Direction::kBackward, kGradX, kY, 0, "NCDHW", nullptr},
    {"AdaptiveAvgPool2dGrad", Direction::kBackward, kGrad, kY, 0, nullptr, nullptr},
};
// clang-format on

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_DIALECT_TABLE_H_
