// SPDX-License-Identifier: Apache-2.0

#include "ep/kernel.h"

#include <utility>

namespace poolgrad::ep {

Kernel::Kernel(const OrtContext& ort, std::shared_ptr<Placement> placement, const DialectOp& op,
               const ort::OrtKernelInfo* info, const IndexTrust& trust)
    : ort::OrtKernelImpl{}, operation_(ort, std::move(placement), op, info, trust) {
  ort_version_supported = ort.version;
  Compute = ComputeImpl;
  Release = ReleaseImpl;
}

ort::OrtStatus* Kernel::ComputeImpl(ort::OrtKernelImpl* self, ort::OrtKernelContext* context) noexcept {
  return static_cast<Kernel*>(self)->operation_.Run(context);
}

void Kernel::ReleaseImpl(ort::OrtKernelImpl* self) noexcept { delete static_cast<Kernel*>(self); }

}  // namespace poolgrad::ep
