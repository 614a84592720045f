// SPDX-License-Identifier: Apache-2.0

// A dialect operator for one pair of types, as a custom operator of onnxruntime.
#ifndef POOLGRAD_EP_CUSTOM_OP_H_
#define POOLGRAD_EP_CUSTOM_OP_H_

#include <memory>
#include <vector>

#include "ep/operation.h"

namespace poolgrad::ep {

class CustomOp : public ort::OrtCustomOp {
 public:
  // Value: float32, float16 or bfloat16; index: int32 or int64, of argmax if there is one. `op` and this object must
  // outlive every session.
  CustomOp(const OrtContext& ort, std::shared_ptr<Placement> placement, const DialectOp& op,
           ort::ONNXTensorElementDataType value, ort::ONNXTensorElementDataType index);

 private:
  static const CustomOp& Self(const ort::OrtCustomOp* self) { return *static_cast<const CustomOp*>(self); }

  static const char* GetNameImpl(const ort::OrtCustomOp* self) noexcept;
  static const char* GetExecutionProviderTypeImpl(const ort::OrtCustomOp* self) noexcept;
  static std::size_t GetInputTypeCountImpl(const ort::OrtCustomOp* self) noexcept;
  static std::size_t GetOutputTypeCountImpl(const ort::OrtCustomOp* self) noexcept;
  static ort::ONNXTensorElementDataType GetInputTypeImpl(const ort::OrtCustomOp* self, std::size_t index) noexcept;
  static ort::ONNXTensorElementDataType GetOutputTypeImpl(const ort::OrtCustomOp* self, std::size_t index) noexcept;
  static ort::OrtCustomOpInputOutputCharacteristic GetCharacteristicImpl(const ort::OrtCustomOp* self,
                                                                         std::size_t index) noexcept;
  static ort::OrtMemType GetInputMemoryTypeImpl(const ort::OrtCustomOp* self, std::size_t index) noexcept;
  static ort::OrtStatus* InferOutputShapeImpl(const ort::OrtCustomOp* self,
                                              ort::OrtShapeInferContext* context) noexcept;
  static ort::OrtStatus* CreateKernelImpl(const ort::OrtCustomOp* self, const ort::OrtApi* api,
                                          const ort::OrtKernelInfo* info, void** out) noexcept;
  static ort::OrtStatus* ComputeImpl(void* kernel, ort::OrtKernelContext* context) noexcept;
  static void DestroyKernelImpl(void* kernel) noexcept;

  OrtContext ort_;
  std::shared_ptr<Placement> placement_;
  const DialectOp& op_;
  std::vector<ort::ONNXTensorElementDataType> inputs_;
  std::vector<ort::ONNXTensorElementDataType> outputs_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_CUSTOM_OP_H_
