// SPDX-License-Identifier: Apache-2.0

#include "ep/attributes.h"

#include <algorithm>
#include <array>
#include <limits>

namespace poolgrad::ep {
namespace {

constexpr std::size_t kMaxInts = 8;  // longer than any list of the dialect
constexpr std::size_t kMaxText = 64;
constexpr std::int64_t kMaxValue = std::numeric_limits<std::int32_t>::max();

using Axes = std::array<std::int64_t, 3>;

// Reads a list of `axes` values into the last elements of `out`.
void ReadAxes(std::size_t axes, const AttributeSource& source, const char* name, std::int64_t low, Axes& out) {
  const std::vector<std::int64_t> values = ReadList(source, name, axes, low);
  std::copy(values.begin(), values.end(), out.end() - axes);
}

ort::ONNXTensorElementDataType ArgmaxType(const AttributeSource& source, const char* name) {
  const std::int64_t dtype = source.Int(name);
  if (dtype == ACL_INT32) return ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
  if (dtype == ACL_INT64) return ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
  throw InvalidArgument(std::string(name) + " is " + std::to_string(dtype) + ", not 3 (INT32) or 9 (INT64)");
}

// Makes the windows of a gradient those without gaps that span the same elements. A gradient depends on the recorded
// positions alone, which these windows contain as well, and there are as many of them. CANN's kernels lose gradients
// where windows with gaps share elements (ops-nn of August 2026, pooling/):
// - Atlas A2 and A3 take windows for apart if no kernel is larger than its stride, whatever the dilation, and store in
//   place of adding: SetAttrParams in max_pool3d_grad_with_argmax/op_host/max_pool3d_grad_with_argmax_tiling_base.cpp,
//   lines 202-205, and CalcOutOffset in pool_3d_common/op_kernel/arch22/max_pool3d_grad_scatter_unified.h, line 81.
// - The gradient over two axes of Ascend 950 adds windows together that are ceil(kernel / stride) apart, whatever the
//   dilation: InitializationVars and DoBufferCalculate in
//   pool_grad_common/op_host/arch35/max_pool_grad_nchw_tiling_common.cpp, lines 60-68 and 103-104.
void CloseGaps(aclnn::Window& window) {
  for (std::size_t axis = 0; axis < window.kernel.size(); ++axis) {
    std::int64_t& kernel = window.kernel[axis];
    kernel = window.dilation[axis] * (kernel - 1) + 1;  // both are at most the maximum of int32
    if (kernel > kMaxValue) {
      throw InvalidArgument("ksize and dilation span " + std::to_string(kernel) + " elements, above int32");
    }
    window.dilation[axis] = 1;
  }
}

void ReadWindow(const DialectOp& op, const AttributeSource& source, aclnn::Window& window) {
  ReadAxes(op.axes, source, "ksize", 1, window.kernel);
  ReadAxes(op.axes, source, "strides", 1, window.stride);
  ReadAxes(op.axes, source, "pads", 0, window.padding);
  ReadAxes(op.axes, source, "dilation", 1, window.dilation);
  RequirePaddingWithinHalfKernel(window);
  window.ceil_mode = source.Int("ceil_mode") != 0;
  if (op.direction == Direction::kBackward) CloseGaps(window);
}

// Requires that the onnx_* list begins with Ascend's values for the last `rank` axes, which are those of x.
void RequireSame(const char* name, const std::vector<std::int64_t>& onnx, std::size_t rank, const Axes& ascend) {
  if (onnx.size() < rank || !std::equal(ascend.end() - rank, ascend.end(), onnx.begin())) {
    throw InvalidArgument(std::string(name) + " names other windows than Ascend's attributes");
  }
}

void ReadOnnxWindow(const DialectOp& op, const AttributeSource& source, const aclnn::Window& window, OnnxWindow& onnx) {
  const std::vector<std::int64_t> kernel = source.Ints("onnx_kernel_shape");
  onnx.rank = kernel.size();
  if (onnx.rank == 0 || onnx.rank > op.axes) {
    throw InvalidArgument("onnx_kernel_shape has " + std::to_string(onnx.rank) + " values");
  }
  const std::vector<std::int64_t> pads = source.Ints("onnx_pads");
  if (pads.size() != 2 * onnx.rank) {
    throw InvalidArgument("onnx_pads has " + std::to_string(pads.size()) + " values, not " +
                          std::to_string(2 * onnx.rank));
  }
  RequireSame("onnx_kernel_shape", kernel, onnx.rank, window.kernel);
  RequireSame("onnx_strides", source.Ints("onnx_strides"), onnx.rank, window.stride);
  RequireSame("onnx_pads", pads, onnx.rank, window.padding);
  RequireSame("onnx_dilations", source.Ints("onnx_dilations"), onnx.rank, window.dilation);
  for (std::size_t axis = 0; axis < onnx.rank; ++axis) {
    const std::int64_t end = pads[onnx.rank + axis];
    if (end < 0 || end > kMaxValue) throw InvalidArgument("onnx_pads holds " + std::to_string(end));
    onnx.padding_end[onnx.padding_end.size() - onnx.rank + axis] = end;
  }
  onnx.ceil_mode = source.Int("onnx_ceil_mode") != 0;
}

// Reads the shape of x of a gradient that has no input for it.
Shape ReadShape(const AttributeSource& source) {
  constexpr std::size_t kRank = 4;
  const std::vector<std::int64_t> sizes = ReadList(source, "orig_input_shape", kRank, 1);
  Shape shape;
  shape.rank = kRank;
  std::copy(sizes.begin(), sizes.end(), shape.dims.begin());
  return shape;
}

// The text of `size` bytes at `data`, without the terminator that onnxruntime may include in the size.
std::string Text(const char* data, std::size_t size) { return std::string(data, std::find(data, data + size, '\0')); }

}  // namespace

std::vector<std::int64_t> ReadList(const AttributeSource& source, const char* name, std::size_t count,
                                   std::int64_t low) {
  std::vector<std::int64_t> values = source.Ints(name);
  if (values.size() != count) {
    throw InvalidArgument(std::string(name) + " has " + std::to_string(values.size()) + " values, not " +
                          std::to_string(count));
  }
  for (const std::int64_t value : values) {
    if (value < low || value > kMaxValue) {
      throw InvalidArgument(std::string(name) + " holds " + std::to_string(value) + ", below " + std::to_string(low) +
                            " or above int32");
    }
  }
  return values;
}

void RequireText(const AttributeSource& source, const char* name, const char* value) {
  if (source.String(name) != value) throw InvalidArgument(std::string(name) + " is not " + value);
}

void RequirePaddingWithinHalfKernel(const aclnn::Window& window) {
  for (std::size_t axis = 0; axis < window.kernel.size(); ++axis) {
    if (window.padding[axis] > window.kernel[axis] / 2) {
      throw InvalidArgument("pads holds " + std::to_string(window.padding[axis]) + ", more than half of ksize " +
                            std::to_string(window.kernel[axis]));
    }
  }
}

const ort::OrtOpAttr* NodeAttributes::Find(const char* name) const {
  const ort::OrtOpAttr* attribute = nullptr;
  Check(ort_.api, ort_.api.Node_GetAttributeByName(node_, name, &attribute));
  return attribute;
}

std::size_t OpAttributes::Read(const char* name, ort::OrtOpAttrType type, void* data, std::size_t bytes) const {
  std::size_t read = 0;
  try {
    const ort::OrtOpAttr* attribute = Find(name);
    if (attribute == nullptr) throw InvalidArgument("the node does not have it");
    Check(ort_.api, ort_.api.ReadOpAttr(attribute, type, data, bytes, &read));
  } catch (const Error& error) {
    throw InvalidArgument(std::string("attribute ") + name + ": " + error.what());
  }
  return read;
}

std::int64_t OpAttributes::Int(const char* name) const {
  std::int64_t value = 0;
  Read(name, ort::ORT_OP_ATTR_INT, &value, sizeof value);
  return value;
}

float OpAttributes::Float(const char* name) const {
  float value = 0;
  Read(name, ort::ORT_OP_ATTR_FLOAT, &value, sizeof value);
  return value;
}

std::vector<std::int64_t> OpAttributes::Ints(const char* name) const {
  std::vector<std::int64_t> values(kMaxInts);
  values.resize(Read(name, ort::ORT_OP_ATTR_INTS, values.data(), kMaxInts * sizeof(std::int64_t)) /
                sizeof(std::int64_t));
  return values;
}

std::string OpAttributes::String(const char* name) const {
  std::array<char, kMaxText> text{};
  return Text(text.data(), Read(name, ort::ORT_OP_ATTR_STRING, text.data(), text.size()));
}

std::int64_t KernelAttributes::Int(const char* name) const {
  std::int64_t value = 0;
  CheckRead(name, ort_.api.KernelInfoGetAttribute_int64(info_, name, &value));
  return value;
}

float KernelAttributes::Float(const char* name) const {
  float value = 0;
  CheckRead(name, ort_.api.KernelInfoGetAttribute_float(info_, name, &value));
  return value;
}

std::vector<std::int64_t> KernelAttributes::Ints(const char* name) const {
  std::vector<std::int64_t> values(kMaxInts);
  std::size_t size = kMaxInts;
  CheckRead(name, ort_.api.KernelInfoGetAttributeArray_int64(info_, name, values.data(), &size));
  values.resize(size);
  return values;
}

std::string KernelAttributes::String(const char* name) const {
  std::array<char, kMaxText> text{};
  std::size_t size = text.size();
  CheckRead(name, ort_.api.KernelInfoGetAttribute_string(info_, name, text.data(), &size));
  return Text(text.data(), size);
}

void KernelAttributes::CheckRead(const char* name, ort::OrtStatus* status) const {
  try {
    Check(ort_.api, status);
  } catch (const Error& error) {
    throw InvalidArgument(std::string("attribute ") + name + ": " + error.what());
  }
}

Attributes ReadAttributes(const DialectOp& op, const AttributeSource& source) {
  Attributes attributes;
  const bool is_average = op.direction == Direction::kBackward && !ReadsArgmax(op);
  if (op.axes > 0 && is_average) {
    ReadAverageWindow(op, source, attributes);
  } else if (op.axes > 0) {
    ReadWindow(op, source, attributes.window);
    if (op.direction == Direction::kForward) ReadOnnxWindow(op, source, attributes.window, attributes.onnx);
  } else if (op.direction == Direction::kForward) {
    aclnn::Axes& output_size = attributes.window.output_size;
    ReadAxes(output_size.size(), source, "output_size", 1, output_size);
  } else if (!Has(op.inputs, Part::kX)) {
    attributes.x_shape = ReadShape(source);
  }
  if (op.data_format != nullptr) RequireText(source, "data_format", op.data_format);
  if (op.index_type != nullptr) attributes.argmax_type = ArgmaxType(source, op.index_type);
  return attributes;
}

}  // namespace poolgrad::ep
