// SPDX-License-Identifier: Apache-2.0

#include "operators.h"

namespace poolgrad {
namespace atc {
namespace {

using Attributes = std::vector<Attribute>;

Attribute Ints(const char* name, std::size_t length, std::int64_t minimum, std::vector<std::int64_t> fallback = {}) {
  return {name, Type::kInts, length, minimum, {}, fallback, ""};
}

Attribute IndexType(const char* name) { return {name, Type::kInt, 0, 0, {3, 9}, {3}, ""}; }

Attribute CeilMode() { return {"ceil_mode", Type::kBool, 0, 0, {0, 1}, {0}, ""}; }

Attribute Text(const char* name, const char* text) { return {name, Type::kString, 0, 0, {}, {}, text}; }

Attribute DataFormat(const char* layout) { return Text("data_format", layout); }

Attribute Flag(const char* name, std::int64_t fallback) { return {name, Type::kBool, 0, 0, {0, 1}, {fallback}, ""}; }

Attribute Divisor() { return {"divisor_override", Type::kInt, 0, 0, {}, {0}, ""}; }

Attributes Windows(std::size_t axes) {
  return {Ints("ksize", axes, 1), Ints("strides", axes, 1), Ints("pads", axes, 0),
          Ints("dilation", axes, 1, std::vector<std::int64_t>(axes, 1))};
}

Attributes OnnxWindows() {
  return {Ints("onnx_kernel_shape", 0, 1),
          Ints("onnx_strides", 0, 1),
          Ints("onnx_pads", 0, 0),
          Ints("onnx_dilations", 0, 1),
          {"onnx_ceil_mode", Type::kInt, 0, 0, {0, 1}, {}, ""}};
}

Attributes OnnxAverageWindows() {
  return {Ints("onnx_kernel_shape", 0, 1),
          Ints("onnx_strides", 0, 1),
          Ints("onnx_pads", 0, 0),
          Ints("onnx_output_padding", 0, 0),
          Ints("onnx_counted_pads", 0, 0),
          Ints("onnx_uncounted_pads", 0, 0),
          {"onnx_divisor", Type::kFloat, 0, 0, {}, {0}, ""}};
}

Attributes AverageWindows3d() {
  return {Ints("ksize", 3, 1), Ints("strides", 3, 1), Ints("pads", 6, 0), CeilMode(), Flag("count_include_pad", 1),
          Divisor(),           DataFormat("NCDHW")};
}

Attributes AverageWindows2d() {
  return {Ints("ksize", 4, 1), Ints("strides", 4, 1), Text("padding_mode", "CALCULATED"),
          Ints("pads", 4, 0),  DataFormat("NCHW"),    {"global_pooling", Type::kBool, 0, 0, {0}, {0}, ""},
          CeilMode(),          Flag("exclusive", 1),  Divisor()};
}

Attributes Join(Attributes first, const Attributes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::vector<Operator> Table() {
  const std::vector<std::string> gradient{"x", "grad", "argmax"}, x{"x"}, y{"y"}, pool{"y", "argmax"};
  const Attributes ncdhw{CeilMode(), DataFormat("NCDHW")}, nchw{IndexType("dtype"), CeilMode(), DataFormat("NCHW")};
  const Attributes adaptive{Ints("output_size", 3, 1), IndexType("indices_dtype")}, none;
  return {
      {"npu::1::MaxPool3DGradWithArgmax", "MaxPool3DGradWithArgmax", gradient, y, Layout::kNcdhw,
       Join(Windows(3), ncdhw), none},
      {"npu::1::MaxPoolGradWithArgmaxV3", "MaxPoolGradWithArgmaxV3", gradient, y, Layout::kNchw, Join(Windows(2), nchw),
       none},
      {"npu::1::AdaptiveMaxPool3DGrad", "MaxPool3DGradWithArgmax", gradient, y, Layout::kNcdhw, none, none, true},
      {"npu::1::MaxPool3DWithArgmaxV2", "MaxPool3DWithArgmaxV2", x, pool, Layout::kNcdhw,
       Join(Join(Windows(3), ncdhw), {IndexType("dtype")}), OnnxWindows()},
      {"npu::1::MaxPoolWithArgmaxV3", "MaxPoolWithArgmaxV3", x, pool, Layout::kNchw, Join(Windows(2), nchw),
       OnnxWindows()},
      {"npu::1::AdaptiveMaxPool3d", "AdaptiveMaxPool3d", x, {"y", "indices"}, Layout::kNcdhw, adaptive, none},
      {"npu::1::AvgPool3DGrad",
       "AvgPool3DGrad",
       {"orig_input_shape", "grads"},
       {"output"},
       Layout::kNd,
       AverageWindows3d(),
       OnnxAverageWindows()},
      {"npu::1::AvgPoolV2Grad",
       "AvgPoolV2Grad",
       {"orig_input_shape", "input_grad"},
       {"out_grad"},
       Layout::kNd,
       AverageWindows2d(),
       OnnxAverageWindows()},
      {"npu::1::AdaptiveAvgPool3dGrad",
       "AdaptiveAvgPool3dGrad",
       {"y_grad", "x"},
       {"x_grad"},
       Layout::kNd,
       {DataFormat("NCDHW")},
       none},
      {"npu::1::AdaptiveAvgPool2dGrad",
       "AdaptiveAvgPool2dGrad",
       {"input_grad"},
       {"output_grad"},
       Layout::kNd,
       {Ints("orig_input_shape", 4, 1)},
       none},
  };
}

}  // namespace

const std::vector<Operator>& Operators() {
  static const std::vector<Operator> table = Table();
  return table;
}

}  // namespace atc
}  // namespace poolgrad
