// SPDX-License-Identifier: Apache-2.0

// The kernel of UnsqueezeScalars, which gives tensors of rank 0 one axis.
#ifndef POOLGRAD_EP_SCALARS_KERNEL_H_
#define POOLGRAD_EP_SCALARS_KERNEL_H_

#include <memory>

#include "aclnn/stream.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

// Copies nothing where onnxruntime gives an output the memory of its input, as the kernel's definition asks.
class ScalarsKernel : public ort::OrtKernelImpl {
 public:
  // stream: the session's stream, or null if its tensors are in host memory.
  ScalarsKernel(const OrtContext& ort, std::shared_ptr<aclnn::Stream> stream);

 private:
  static ort::OrtStatus* ComputeImpl(ort::OrtKernelImpl* self, ort::OrtKernelContext* context) noexcept;
  static void ReleaseImpl(ort::OrtKernelImpl* self) noexcept;

  void Unsqueeze(ort::OrtKernelContext* context, std::size_t position);

  OrtContext ort_;
  std::shared_ptr<aclnn::Stream> stream_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_SCALARS_KERNEL_H_
