// SPDX-License-Identifier: Apache-2.0

// The kernel of a dialect node, for the plugin execution provider.
#ifndef POOLGRAD_EP_KERNEL_H_
#define POOLGRAD_EP_KERNEL_H_

#include "ep/operation.h"

namespace poolgrad::ep {

class Kernel : public ort::OrtKernelImpl {
 public:
  // See Operation.
  Kernel(const OrtContext& ort, std::shared_ptr<Placement> placement, const DialectOp& op,
         const ort::OrtKernelInfo* info, const IndexTrust& trust);

 private:
  static ort::OrtStatus* ComputeImpl(ort::OrtKernelImpl* self, ort::OrtKernelContext* context) noexcept;
  static void ReleaseImpl(ort::OrtKernelImpl* self) noexcept;

  Operation operation_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_KERNEL_H_
