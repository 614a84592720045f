// The kernels that the provider offers to onnxruntime.
#ifndef POOLGRAD_EP_REGISTRY_H_
#define POOLGRAD_EP_REGISTRY_H_

#include <memory>

#include "ep/kernel.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

inline constexpr char kProviderName[] = "AclnnExecutionProvider";

// The registry of one session: a kernel for every dialect operator, on `device`.
class KernelRegistry {
 public:
  KernelRegistry(const EpContext& ort, std::shared_ptr<Device> device);

  const ort::OrtKernelRegistry* get() const { return registry_.get(); }

 private:
  // What onnxruntime passes back to create a kernel of one operator.
  struct Creator {
    const EpContext& ort;
    std::shared_ptr<Device> device;
    const DialectOp& op;
  };

  static ort::OrtStatus* CreateKernel(void* creator, const ort::OrtKernelInfo* info, ort::OrtKernelImpl** out) noexcept;

  void Add(const DialectOp& op);

  const EpContext& ort_;
  std::shared_ptr<Device> device_;
  std::vector<std::unique_ptr<Creator>> creators_;
  OrtHandle<ort::OrtKernelRegistry> registry_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_REGISTRY_H_
