// SPDX-License-Identifier: Apache-2.0

#include "ep/operands.h"

#include <algorithm>

#include "ep/node.h"

namespace poolgrad::ep {
namespace {

void* DataOf(const OrtContext& ort, const ort::OrtValue* value) {
  void* data = nullptr;
  // The only accessor of a tensor's memory takes a mutable value; inputs are only read.
  Check(ort.api, ort.api.GetTensorMutableData(const_cast<ort::OrtValue*>(value), &data));
  return data;
}

Tensor TensorOf(const OrtContext& ort, const ort::OrtValue* value) {
  return {ReadArgument(ort, value), DataOf(ort, value)};
}

}  // namespace

Tensor Input(const OrtContext& ort, ort::OrtKernelContext* context, std::size_t index) {
  const ort::OrtValue* value = nullptr;
  Check(ort.api, ort.api.KernelContext_GetInput(context, index, &value));
  if (value == nullptr) throw InvalidArgument("input " + std::to_string(index) + " is missing");
  const Tensor tensor = TensorOf(ort, value);
  if (tensor.argument.shape.rank == 0) throw InvalidArgument("input " + std::to_string(index) + " is a scalar");
  return tensor;
}

Tensor Output(const OrtContext& ort, ort::OrtKernelContext* context, std::size_t index, const Shape& shape,
              ort::ONNXTensorElementDataType type) {
  ort::OrtValue* value = nullptr;
  Check(ort.api, ort.api.KernelContext_GetOutput(context, index, shape.dims.data(), shape.rank, &value));
  Require(value != nullptr, [&] { return "output " + std::to_string(index) + " is missing"; });
  const Tensor tensor = TensorOf(ort, value);
  Require(tensor.argument.type == type,
          [&] { return "output " + std::to_string(index) + " is not of the type that the node makes"; });
  // onnxruntime does not report that its allocator returned null.
  Require(tensor.data != nullptr || shape.IsEmpty(),
          [&] { return "there was no memory for output " + std::to_string(index) + ", " + ToString(shape); });
  return tensor;
}

Shape ReadShape(const Tensor& sizes, std::size_t rank) {
  const auto& [type, shape] = sizes.argument;
  Require(type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, "orig_input_shape is not int32");
  Require(shape.rank == 1 && static_cast<std::size_t>(shape.dims[0]) == rank && rank <= Shape::kMaxRank, [&] {
    return "orig_input_shape has the shape " + ToString(shape) + ", and grad has rank " + std::to_string(rank);
  });
  Shape read;
  read.rank = rank;
  std::copy_n(static_cast<const std::int32_t*>(sizes.data), rank, read.dims.begin());
  Require(read.IsKnown(), [&] { return "orig_input_shape holds a negative size, " + ToString(read); });
  return read;
}

void RequireAligned(std::initializer_list<NamedTensor> tensors) {
  for (const auto& [name, role, tensor] : tensors) {
    const std::size_t beyond = reinterpret_cast<std::uintptr_t>(tensor.data) % kTensorAlignment;
    if (beyond == 0) continue;
    throw InvalidArgument(std::string(name) + " begins " + std::to_string(beyond) + " bytes after a multiple of " +
                          std::to_string(kTensorAlignment) +
                          " bytes, and aclnn takes tensors in device memory from multiples only");
  }
}

aclnn::TensorView ViewOf(const Tensor& tensor, std::size_t rank) {
  aclnn::TensorView view{AclType(tensor.argument.type), tensor.argument.shape.AsNcdhw(), rank, tensor.data};
  if (rank == 4) view.dims = {view.dims[0], view.dims[1], view.dims[3], view.dims[4]};
  return view;
}

aclnn::Call CallOf(const aclnn::Function& function, const aclnn::Window& window,
                   std::initializer_list<NamedTensor> tensors) {
  aclnn::Call call{function, {}, window};
  aclnn::TensorView* view = call.operands.data();
  for (const aclnn::Operand& operand : function.operands) {
    for (const auto& [name, role, tensor] : tensors) {
      if (role == operand.role) *view = ViewOf(tensor, function.rank());
    }
    ++view;
  }
  return call;
}

}  // namespace poolgrad::ep
