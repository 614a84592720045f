// SPDX-License-Identifier: Apache-2.0

#include "ep/shared_work.h"

namespace poolgrad::ep {

SharedWork::SharedWork(const OrtContext& ort, const aclnn::Api& api, const ort::OrtKernelContext* context)
    : ort_(ort.api), api_(api), context_(context) {
  if (api_.aclnnHostSetParallelFor != nullptr) api_.aclnnHostSetParallelFor(ParallelFor, this);
}

SharedWork::~SharedWork() {
  if (api_.aclnnHostSetParallelFor != nullptr) api_.aclnnHostSetParallelFor(nullptr, nullptr);
}

// If onnxruntime refuses, the calling thread does all the work.
void SharedWork::ParallelFor(void* self, void (*run)(void* data, std::size_t index), std::size_t count,
                             void* data) noexcept {
  const SharedWork& shared = *static_cast<const SharedWork*>(self);
  constexpr std::size_t kOneByOne = 0;
  ort::OrtStatus* status = shared.ort_.KernelContext_ParallelFor(shared.context_, run, count, kOneByOne, data);
  if (status == nullptr) return;
  shared.ort_.ReleaseStatus(status);
  for (std::size_t index = 0; index < count; ++index) run(data, index);
}

}  // namespace poolgrad::ep
