// SPDX-License-Identifier: Apache-2.0

// The kernels that the provider offers to onnxruntime.
#ifndef POOLGRAD_EP_REGISTRY_H_
#define POOLGRAD_EP_REGISTRY_H_

#include <memory>
#include <vector>

#include "ep/kernel.h"
#include "ep/memcpy_kernel.h"
#include "ep/ort_context.h"
#include "ep/scalars_kernel.h"

namespace poolgrad::ep {

inline constexpr char kProviderName[] = "AclnnExecutionProvider";

// The registry of one session: a kernel for every dialect operator, and for scalars.
class KernelRegistry {
 public:
  // stream: the session's stream, or null if its tensors are in host memory. `ort` and `trust` must outlive the
  // registry.
  KernelRegistry(const EpContext& ort, const aclnn::Backend& backend, std::shared_ptr<aclnn::Stream> stream,
                 bool deterministic, const IndexTrust& trust);

  const ort::OrtKernelRegistry* get() const { return registry_.get(); }

 private:
  // The state that onnxruntime passes to CreateKernel for one operator.
  struct OperationCreator {
    const EpContext& ort;
    std::shared_ptr<Placement> placement;
    const IndexTrust& trust;
    const DialectOp& op;
  };
  struct MemcpyCreator {
    const EpContext& ort;
    std::shared_ptr<aclnn::Stream> stream;
    MemcpyDirection direction;
  };

  static ort::OrtStatus* CreateKernel(void* creator, const ort::OrtKernelInfo* info, ort::OrtKernelImpl** out) noexcept;
  static ort::OrtStatus* CreateScalars(void* registry, const ort::OrtKernelInfo* info,
                                       ort::OrtKernelImpl** out) noexcept;
  static ort::OrtStatus* CreateMemcpy(void* creator, const ort::OrtKernelInfo* info, ort::OrtKernelImpl** out) noexcept;

  void Add(const ort::OrtKernelDef* kernel_def, ort::OrtKernelCreateFunc create, void* creator);

  const EpContext& ort_;
  std::shared_ptr<aclnn::Stream> stream_;
  std::vector<std::unique_ptr<OperationCreator>> operations_;
  std::vector<std::unique_ptr<MemcpyCreator>> copies_;
  OrtHandle<ort::OrtKernelRegistry> registry_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_REGISTRY_H_
