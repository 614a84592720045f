// The kernel of a dialect node: checks the arguments of a Run and has aclnn compute it.
#ifndef POOLGRAD_EP_KERNEL_H_
#define POOLGRAD_EP_KERNEL_H_

#include <memory>
#include <string>

#include "aclnn/stream_pool.h"
#include "ep/attributes.h"
#include "ep/legality.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

// What the kernels of a session share. Kernels hold it by shared_ptr: onnxruntime need not release them
// before the provider.
struct Device {
  explicit Device(const aclnn::Backend& opened) : backend(opened), streams(opened) {}

  const aclnn::Backend& backend;
  aclnn::StreamPool streams;
};

class Kernel : public ort::OrtKernelImpl {
 public:
  // Throws InvalidArgument if the attributes are not what the operator needs.
  Kernel(const OrtContext& ort, std::shared_ptr<Device> device, const DialectOp& op, const ort::OrtKernelInfo* info);

 private:
  static ort::OrtStatus* ComputeImpl(ort::OrtKernelImpl* self, ort::OrtKernelContext* context) noexcept;
  static void ReleaseImpl(ort::OrtKernelImpl* self) noexcept;

  void Run(ort::OrtKernelContext* context);
  void RunForward(ort::OrtKernelContext* context);
  void RunBackward(ort::OrtKernelContext* context);

  OrtContext ort_;
  std::shared_ptr<Device> device_;
  const DialectOp& op_;
  std::string label_;
  Attributes attributes_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_KERNEL_H_
