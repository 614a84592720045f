// SPDX-License-Identifier: Apache-2.0

#include "ep/custom_op.h"

#include <utility>

#include "ep/logger.h"
#include "ep/output_shapes.h"

namespace poolgrad::ep {
namespace {

void LogBackend(const OrtContext& ort, const ort::OrtKernelInfo* info, const std::string& label,
                const aclnn::Backend& backend) {
  const ort::OrtLogger* logger = nullptr;
  Check(ort.api, ort.api.KernelInfo_GetLogger(info, &logger));
  Logger(ort.api, logger)
      .Info(label + " runs on backend " + aclnn::NameOf(backend.kind()) + " (" + backend.soc_name() + ")");
}

ort::ONNXTensorElementDataType TypeOf(Part part, ort::ONNXTensorElementDataType value,
                                      ort::ONNXTensorElementDataType index) {
  switch (part) {
    case Part::kArgmax:
      return index;
    case Part::kSizes:
      return ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
    default:
      return value;
  }
}

}  // namespace

CustomOp::CustomOp(const OrtContext& ort, std::shared_ptr<Placement> placement, const DialectOp& op,
                   ort::ONNXTensorElementDataType value, ort::ONNXTensorElementDataType index)
    : ort::OrtCustomOp{}, ort_(ort), placement_(std::move(placement)), op_(op) {
  for (const Part part : op.inputs) inputs_.push_back(TypeOf(part, value, index));
  for (const Part part : op.outputs) outputs_.push_back(TypeOf(part, value, index));
  version = ort.version;
  GetName = GetNameImpl;
  GetExecutionProviderType = GetExecutionProviderTypeImpl;
  GetInputType = GetInputTypeImpl;
  GetInputTypeCount = GetInputTypeCountImpl;
  GetOutputType = GetOutputTypeImpl;
  GetOutputTypeCount = GetOutputTypeCountImpl;
  KernelDestroy = DestroyKernelImpl;
  GetInputCharacteristic = GetCharacteristicImpl;
  GetOutputCharacteristic = GetCharacteristicImpl;
  GetInputMemoryType = GetInputMemoryTypeImpl;
  CreateKernelV2 = CreateKernelImpl;
  KernelComputeV2 = ComputeImpl;
  InferOutputShapeFn = InferOutputShapeImpl;
}

const char* CustomOp::GetNameImpl(const ort::OrtCustomOp* self) noexcept { return Self(self).op_.name; }

// Null is the CPU provider: tensors are in host memory on every backend.
const char* CustomOp::GetExecutionProviderTypeImpl(const ort::OrtCustomOp*) noexcept { return nullptr; }

std::size_t CustomOp::GetInputTypeCountImpl(const ort::OrtCustomOp* self) noexcept { return Self(self).inputs_.size(); }

std::size_t CustomOp::GetOutputTypeCountImpl(const ort::OrtCustomOp* self) noexcept {
  return Self(self).outputs_.size();
}

ort::ONNXTensorElementDataType CustomOp::GetInputTypeImpl(const ort::OrtCustomOp* self, std::size_t index) noexcept {
  return Self(self).inputs_[index];
}

ort::ONNXTensorElementDataType CustomOp::GetOutputTypeImpl(const ort::OrtCustomOp* self, std::size_t index) noexcept {
  return Self(self).outputs_[index];
}

ort::OrtCustomOpInputOutputCharacteristic CustomOp::GetCharacteristicImpl(const ort::OrtCustomOp*,
                                                                          std::size_t) noexcept {
  return ort::INPUT_OUTPUT_REQUIRED;
}

ort::OrtMemType CustomOp::GetInputMemoryTypeImpl(const ort::OrtCustomOp*, std::size_t) noexcept {
  return ort::OrtMemTypeDefault;
}

// Infers nothing if the node cannot run. onnxruntime neither reads nor frees a status here; it then calls CreateKernel,
// which reports the fault.
ort::OrtStatus* CustomOp::InferOutputShapeImpl(const ort::OrtCustomOp* self,
                                               ort::OrtShapeInferContext* context) noexcept {
  const CustomOp& op = Self(self);
  try {
    InferOutputShapes(op.ort_, op.op_, op.placement_->backend().product(), context);
  } catch (...) {
    // See above.
  }
  return nullptr;
}

ort::OrtStatus* CustomOp::CreateKernelImpl(const ort::OrtCustomOp* self, const ort::OrtApi*,
                                           const ort::OrtKernelInfo* info, void** out) noexcept {
  const CustomOp& op = Self(self);
  return Guard(op.ort_.api, [&] {
    auto operation = std::make_unique<Operation>(op.ort_, op.placement_, op.op_, info, IndexTrust(false));
    operation->CheckArguments(info);
    LogBackend(op.ort_, info, operation->label(), op.placement_->backend());
    *out = operation.release();
  });
}

ort::OrtStatus* CustomOp::ComputeImpl(void* kernel, ort::OrtKernelContext* context) noexcept {
  return static_cast<Operation*>(kernel)->Run(context);
}

void CustomOp::DestroyKernelImpl(void* kernel) noexcept { delete static_cast<Operation*>(kernel); }

}  // namespace poolgrad::ep
