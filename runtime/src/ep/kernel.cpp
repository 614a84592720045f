#include "ep/kernel.h"

#include <cstring>
#include <utility>

#include "aclnn/staging.h"
#include "aclnn/tensor_view.h"
#include "ep/node.h"

namespace poolgrad::ep {
namespace {

struct Tensor {
  Argument argument;
  void* data = nullptr;
};

std::string NodeName(const OrtContext& ort, const ort::OrtKernelInfo* info) {
  std::size_t size = 0;
  Check(ort.api, ort.api.KernelInfo_GetNodeName(info, nullptr, &size));
  std::string name(size, '\0');
  Check(ort.api, ort.api.KernelInfo_GetNodeName(info, name.data(), &size));
  name.resize(std::strlen(name.c_str()));  // size counts the terminator
  return name;
}

void* DataOf(const OrtContext& ort, const ort::OrtValue* value) {
  void* data = nullptr;
  // The one accessor of a tensor's memory asks for a mutable value; inputs are only read.
  Check(ort.api, ort.api.GetTensorMutableData(const_cast<ort::OrtValue*>(value), &data));
  return data;
}

Tensor Input(const OrtContext& ort, ort::OrtKernelContext* context, std::size_t index) {
  const ort::OrtValue* value = nullptr;
  Check(ort.api, ort.api.KernelContext_GetInput(context, index, &value));
  if (value == nullptr) throw InvalidArgument("input " + std::to_string(index) + " is missing");
  ort::OrtTensorTypeAndShapeInfo* created = nullptr;
  Check(ort.api, ort.api.GetTensorTypeAndShape(value, &created));
  const OrtHandle<ort::OrtTensorTypeAndShapeInfo> info(created, ort.api.ReleaseTensorTypeAndShapeInfo);
  Tensor tensor{ReadArgument(ort, info.get()), DataOf(ort, value)};
  if (tensor.argument.shape.rank == 0) throw InvalidArgument("input " + std::to_string(index) + " is a scalar");
  return tensor;
}

// The output of the node, of x's shape and type.
Tensor Output(const OrtContext& ort, ort::OrtKernelContext* context, const Argument& x) {
  ort::OrtValue* value = nullptr;
  Check(ort.api, ort.api.KernelContext_GetOutput(context, 0, x.shape.dims.data(), x.shape.rank, &value));
  return {x, DataOf(ort, value)};
}

aclDataType AclType(ort::ONNXTensorElementDataType type) {
  switch (type) {
    case ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return ACL_FLOAT;
    case ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return ACL_FLOAT16;
    case ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return ACL_BF16;
    case ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return ACL_INT32;
    case ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return ACL_INT64;
    default:
      return ACL_DT_UNDEFINED;
  }
}

// A tensor as the entry of a route reads it: NCDHW, or NCHW of a tensor whose D is 1.
class OperandView {
 public:
  OperandView(const Tensor& tensor, std::size_t rank)
      : tensor_(tensor), rank_(rank), dims_(tensor.argument.shape.AsNcdhw()) {
    if (rank == 4) dims_ = {dims_[0], dims_[1], dims_[3], dims_[4]};
  }

  aclnn::TensorView Get() const { return {AclType(tensor_.argument.type), dims_.data(), rank_, tensor_.data}; }

 private:
  const Tensor& tensor_;
  std::size_t rank_;
  std::array<std::int64_t, Shape::kMaxRank> dims_;
};

}  // namespace

Kernel::Kernel(const OrtContext& ort, std::shared_ptr<Device> device, const DialectOp& op,
               const ort::OrtKernelInfo* info)
    : ort::OrtKernelImpl{},
      ort_(ort),
      device_(std::move(device)),
      op_(op),
      label_(Label(op.name, NodeName(ort, info))),
      attributes_(ReadAttributes(op, KernelAttributes(ort, info))) {
  ort_version_supported = ort.version;
  Compute = ComputeImpl;
  Release = ReleaseImpl;
}

ort::OrtStatus* Kernel::ComputeImpl(ort::OrtKernelImpl* self, ort::OrtKernelContext* context) noexcept {
  Kernel& kernel = *static_cast<Kernel*>(self);
  return Guard(kernel.ort_.api, [&] {
    try {
      kernel.Run(context);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(kernel.label_ + ": " + error.what());
    } catch (const std::exception& error) {
      throw Error(ort::ORT_FAIL, kernel.label_ + ": " + error.what());
    }
  });
}

void Kernel::ReleaseImpl(ort::OrtKernelImpl* self) noexcept { delete static_cast<Kernel*>(self); }

void Kernel::Run(ort::OrtKernelContext* context) {
  const Tensor x = Input(ort_, context, 0);
  const Tensor grad = Input(ort_, context, 1);
  const Tensor argmax = Input(ort_, context, 2);
  const Route& route =
      CheckArguments(op_, attributes_, device_->backend.product(), {x.argument, grad.argument, argmax.argument});
  const Tensor y = Output(ort_, context, x.argument);
  if (y.argument.shape.IsEmpty()) return;
  const OperandView grad_view(grad, route.view_rank);
  const OperandView x_view(x, route.view_rank);
  const OperandView argmax_view(argmax, route.view_rank);
  const OperandView y_view(y, route.view_rank);
  if (grad.argument.shape.IsEmpty()) {
    // aclnn leaves the output as it is when there is nothing to add.
    std::memset(y.data, 0, aclnn::ByteCount(y_view.Get()));
    return;
  }
  const aclnn::BackwardCall call{route.entry,       grad_view.Get(), x_view.Get(),
                                 argmax_view.Get(), y_view.Get(),    attributes_.window};
  device_->streams.With(
      [&](aclnn::StreamResources& resources) { aclnn::RunBackwardOnHostMemory(device_->backend, call, resources); });
}

}  // namespace poolgrad::ep
