// SPDX-License-Identifier: Apache-2.0

// The kernels of MemcpyFromHost and MemcpyToHost, nodes that onnxruntime inserts between providers.
#ifndef POOLGRAD_EP_MEMCPY_KERNEL_H_
#define POOLGRAD_EP_MEMCPY_KERNEL_H_

#include <memory>

#include "aclnn/stream.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

enum class MemcpyDirection { kFromHost, kToHost };

// When Compute returns, a copy to the host is finished, and a copy from the host has read its input.
class MemcpyKernel : public ort::OrtKernelImpl {
 public:
  MemcpyKernel(const OrtContext& ort, std::shared_ptr<aclnn::Stream> stream, MemcpyDirection direction);

 private:
  static ort::OrtStatus* ComputeImpl(ort::OrtKernelImpl* self, ort::OrtKernelContext* context) noexcept;
  static void ReleaseImpl(ort::OrtKernelImpl* self) noexcept;

  void Copy(ort::OrtKernelContext* context);

  OrtContext ort_;
  std::shared_ptr<aclnn::Stream> stream_;
  MemcpyDirection direction_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_MEMCPY_KERNEL_H_
