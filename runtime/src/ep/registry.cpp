#include "ep/registry.h"

#include <utility>

namespace poolgrad::ep {
namespace {

OrtHandle<ort::OrtKernelRegistry> CreateRegistry(const EpContext& ort) {
  ort::OrtKernelRegistry* registry = nullptr;
  Check(ort.api, ort.ep_api.CreateKernelRegistry(&registry));
  return {registry, ort.ep_api.ReleaseKernelRegistry};
}

// Without type constraints: onnxruntime cannot match these against a node that has a function body. The
// provider checks types itself before it claims a node.
OrtHandle<ort::OrtKernelDef> Define(const EpContext& ort, const DialectOp& op) {
  const ort::OrtEpApi& api = ort.ep_api;
  ort::OrtKernelDefBuilder* created = nullptr;
  Check(ort.api, api.CreateKernelDefBuilder(&created));
  const OrtHandle<ort::OrtKernelDefBuilder> builder(created, api.ReleaseKernelDefBuilder);
  Check(ort.api, api.KernelDefBuilder_SetOperatorType(builder.get(), op.name));
  Check(ort.api, api.KernelDefBuilder_SetDomain(builder.get(), kDialectDomain));
  Check(ort.api, api.KernelDefBuilder_SetSinceVersion(builder.get(), kDialectVersion, kDialectVersion));
  Check(ort.api, api.KernelDefBuilder_SetExecutionProvider(builder.get(), kProviderName));
  ort::OrtKernelDef* kernel_def = nullptr;
  Check(ort.api, api.KernelDefBuilder_Build(builder.get(), &kernel_def));
  return {kernel_def, api.ReleaseKernelDef};
}

}  // namespace

KernelRegistry::KernelRegistry(const EpContext& ort, std::shared_ptr<Device> device)
    : ort_(ort), device_(std::move(device)), registry_(CreateRegistry(ort)) {
  for (const DialectOp& op : kDialectOps) Add(op);
}

void KernelRegistry::Add(const DialectOp& op) {
  const OrtHandle<ort::OrtKernelDef> kernel_def = Define(ort_, op);
  creators_.push_back(std::make_unique<Creator>(Creator{ort_, device_, op}));
  Check(ort_.api,
        ort_.ep_api.KernelRegistry_AddKernel(registry_.get(), kernel_def.get(), CreateKernel, creators_.back().get()));
}

ort::OrtStatus* KernelRegistry::CreateKernel(void* creator, const ort::OrtKernelInfo* info,
                                             ort::OrtKernelImpl** out) noexcept {
  const Creator& self = *static_cast<const Creator*>(creator);
  return Guard(self.ort.api, [&] { *out = new Kernel(self.ort, self.device, self.op, info); });
}

}  // namespace poolgrad::ep
