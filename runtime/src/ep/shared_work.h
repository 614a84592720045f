// SPDX-License-Identifier: Apache-2.0

// The session's threads for kernels that run on the host.
#ifndef POOLGRAD_EP_SHARED_WORK_H_
#define POOLGRAD_EP_SHARED_WORK_H_

#include "aclnn/api.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

// During its lifetime, kernels of the host library that the calling thread starts run on the threads of onnxruntime's
// session (intra_op_num_threads). With CANN it does nothing.
class SharedWork {
 public:
  SharedWork(const OrtContext& ort, const aclnn::Api& api, const ort::OrtKernelContext* context);
  ~SharedWork();
  SharedWork(const SharedWork&) = delete;
  SharedWork& operator=(const SharedWork&) = delete;

 private:
  static void ParallelFor(void* self, void (*run)(void* data, std::size_t index), std::size_t count,
                          void* data) noexcept;

  const ort::OrtApi& ort_;
  const aclnn::Api& api_;
  const ort::OrtKernelContext* context_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_SHARED_WORK_H_
