// SPDX-License-Identifier: Apache-2.0

// Written by tools/operator_tables from the rows of the dialect.

#include "operators.h"

namespace poolgrad {
namespace atc {

// clang-format off
const std::vector<Operator>& Operators() {
  static const std::vector<Operator> table = {
    {"npu::1::MaxPool3DGradWithArgmax", "MaxPool3DGradWithArgmax", {"x", "grad", "argmax"}, {"y"},
     Layout::kNcdhw, {
      {"ksize", Type::kInts, 3, 1, {}, {}, ""},
      {"strides", Type::kInts, 3, 1, {}, {}, ""},
      {"pads", Type::kInts, 3, 0, {}, {}, ""},
      {"dilation", Type::kInts, 3, 1, {}, {1, 1, 1}, ""},
      {"ceil_mode", Type::kBool, 0, 0, {0, 1}, {0}, ""},
      {"data_format", Type::kString, 0, 0, {}, {}, "NCDHW"}},
     {}, false},
    {"npu::1::MaxPoolGradWithArgmaxV3", "MaxPoolGradWithArgmaxV3", {"x", "grad", "argmax"}, {"y"},
     Layout::kNchw, {
      {"ksize", Type::kInts, 2, 1, {}, {}, ""},
      {"strides", Type::kInts, 2, 1, {}, {}, ""},
      {"pads", Type::kInts, 2, 0, {}, {}, ""},
      {"dilation", Type::kInts, 2, 1, {}, {1, 1}, ""},
      {"dtype", Type::kInt, 0, 0, {3, 9}, {3}, ""},
      {"ceil_mode", Type::kBool, 0, 0, {0, 1}, {0}, ""},
      {"data_format", Type::kString, 0, 0, {}, {}, "NCHW"}},
     {}, false},
    {"npu::1::AdaptiveMaxPool3DGrad", "MaxPool3DGradWithArgmax", {"x", "grad", "argmax"}, {"y"},
     Layout::kNcdhw, {},
     {}, true},
    {"npu::1::MaxPool3DWithArgmaxV2", "MaxPool3DWithArgmaxV2", {"x"}, {"y", "argmax"},
     Layout::kNcdhw, {
      {"ksize", Type::kInts, 3, 1, {}, {}, ""},
      {"strides", Type::kInts, 3, 1, {}, {}, ""},
      {"pads", Type::kInts, 3, 0, {}, {}, ""},
      {"dilation", Type::kInts, 3, 1, {}, {1, 1, 1}, ""},
      {"ceil_mode", Type::kBool, 0, 0, {0, 1}, {0}, ""},
      {"data_format", Type::kString, 0, 0, {}, {}, "NCDHW"},
      {"dtype", Type::kInt, 0, 0, {3, 9}, {3}, ""}},
     {
      {"onnx_kernel_shape", Type::kInts, 0, 1, {}, {}, ""},
      {"onnx_strides", Type::kInts, 0, 1, {}, {}, ""},
      {"onnx_pads", Type::kInts, 0, 0, {}, {}, ""},
      {"onnx_dilations", Type::kInts, 0, 1, {}, {}, ""},
      {"onnx_ceil_mode", Type::kInt, 0, 0, {0, 1}, {}, ""}}, false},
    {"npu::1::MaxPoolWithArgmaxV3", "MaxPoolWithArgmaxV3", {"x"}, {"y", "argmax"},
     Layout::kNchw, {
      {"ksize", Type::kInts, 2, 1, {}, {}, ""},
      {"strides", Type::kInts, 2, 1, {}, {}, ""},
      {"pads", Type::kInts, 2, 0, {}, {}, ""},
      {"dilation", Type::kInts, 2, 1, {}, {1, 1}, ""},
      {"dtype", Type::kInt, 0, 0, {3, 9}, {3}, ""},
      {"ceil_mode", Type::kBool, 0, 0, {0, 1}, {0}, ""},
      {"data_format", Type::kString, 0, 0, {}, {}, "NCHW"}},
     {
      {"onnx_kernel_shape", Type::kInts, 0, 1, {}, {}, ""},
      {"onnx_strides", Type::kInts, 0, 1, {}, {}, ""},
      {"onnx_pads", Type::kInts, 0, 0, {}, {}, ""},
      {"onnx_dilations", Type::kInts, 0, 1, {}, {}, ""},
      {"onnx_ceil_mode", Type::kInt, 0, 0, {0, 1}, {}, ""}}, false},
    {"npu::1::AdaptiveMaxPool3d", "AdaptiveMaxPool3d", {"x"}, {"y", "indices"},
     Layout::kNcdhw, {
      {"output_size", Type::kInts, 3, 1, {}, {}, ""},
      {"indices_dtype", Type::kInt, 0, 0, {3, 9}, {3}, ""}},
     {}, false},
    {"npu::1::AvgPool3DGrad", "AvgPool3DGrad", {"orig_input_shape", "grads"}, {"output"},
     Layout::kNd, {
      {"ksize", Type::kInts, 3, 1, {}, {}, ""},
      {"strides", Type::kInts, 3, 1, {}, {}, ""},
      {"pads", Type::kInts, 6, 0, {}, {}, ""},
      {"ceil_mode", Type::kBool, 0, 0, {0, 1}, {0}, ""},
      {"count_include_pad", Type::kBool, 0, 0, {0, 1}, {1}, ""},
      {"divisor_override", Type::kInt, 0, 0, {}, {0}, ""},
      {"data_format", Type::kString, 0, 0, {}, {}, "NCDHW"}},
     {
      {"onnx_kernel_shape", Type::kInts, 0, 1, {}, {}, ""},
      {"onnx_strides", Type::kInts, 0, 1, {}, {}, ""},
      {"onnx_pads", Type::kInts, 0, 0, {}, {}, ""},
      {"onnx_output_padding", Type::kInts, 0, 0, {}, {}, ""},
      {"onnx_counted_pads", Type::kInts, 0, 0, {}, {}, ""},
      {"onnx_uncounted_pads", Type::kInts, 0, 0, {}, {}, ""},
      {"onnx_divisor", Type::kFloat, 0, 0, {}, {0}, ""}}, false},
    {"npu::1::AvgPoolV2Grad", "AvgPoolV2Grad", {"orig_input_shape", "input_grad"}, {"out_grad"},
     Layout::kNd, {
      {"ksize", Type::kInts, 4, 1, {}, {}, ""},
      {"strides", Type::kInts, 4, 1, {}, {}, ""},
      {"padding_mode", Type::kString, 0, 0, {}, {}, "CALCULATED"},
      {"pads", Type::kInts, 4, 0, {}, {}, ""},
      {"data_format", Type::kString, 0, 0, {}, {}, "NCHW"},
      {"global_pooling", Type::kBool, 0, 0, {0}, {0}, ""},
      {"ceil_mode", Type::kBool, 0, 0, {0, 1}, {0}, ""},
      {"exclusive", Type::kBool, 0, 0, {0, 1}, {1}, ""},
      {"divisor_override", Type::kInt, 0, 0, {}, {0}, ""}},
     {
      {"onnx_kernel_shape", Type::kInts, 0, 1, {}, {}, ""},
      {"onnx_strides", Type::kInts, 0, 1, {}, {}, ""},
      {"onnx_pads", Type::kInts, 0, 0, {}, {}, ""},
      {"onnx_output_padding", Type::kInts, 0, 0, {}, {}, ""},
      {"onnx_counted_pads", Type::kInts, 0, 0, {}, {}, ""},
      {"onnx_uncounted_pads", Type::kInts, 0, 0, {}, {}, ""},
      {"onnx_divisor", Type::kFloat, 0, 0, {}, {0}, ""}}, false},
    {"npu::1::AdaptiveAvgPool3dGrad", "AdaptiveAvgPool3dGrad", {"y_grad", "x"}, {"x_grad"},
     Layout::kNd, {
      {"data_format", Type::kString, 0, 0, {}, {}, "NCDHW"}},
     {}, false},
    {"npu::1::AdaptiveAvgPool2dGrad", "AdaptiveAvgPool2dGrad", {"input_grad"}, {"output_grad"},
     Layout::kNd, {
      {"orig_input_shape", Type::kInts, 4, 1, {}, {}, ""}},
     {}, false},
  };
  return table;
}
// clang-format on

}  // namespace atc
}  // namespace poolgrad
