// SPDX-License-Identifier: Apache-2.0

#include "ep/registry.h"

#include <utility>

#include "ep/dialect_table.h"
#include "ep/kernel_definition.h"

namespace poolgrad::ep {
namespace {

OrtHandle<ort::OrtKernelRegistry> CreateRegistry(const EpContext& ort) {
  ort::OrtKernelRegistry* registry = nullptr;
  Check(ort.api, ort.ep_api.CreateKernelRegistry(&registry));
  return {registry, ort.ep_api.ReleaseKernelRegistry};
}

std::shared_ptr<Placement> PlacementOf(const aclnn::Backend& backend, std::shared_ptr<aclnn::Stream> stream,
                                       bool deterministic) {
  if (stream == nullptr) return std::make_shared<HostPlacement>(backend, deterministic);
  return std::make_shared<DevicePlacement>(std::move(stream), deterministic);
}

}  // namespace

KernelRegistry::KernelRegistry(const EpContext& ort, const aclnn::Backend& backend,
                               std::shared_ptr<aclnn::Stream> stream, bool deterministic, const IndexTrust& trust)
    : ort_(ort), stream_(stream), registry_(CreateRegistry(ort)) {
  const std::shared_ptr<Placement> placement = PlacementOf(backend, stream, deterministic);
  for (const DialectOp& op : kDialectOps) {
    operations_.push_back(std::make_unique<OperationCreator>(OperationCreator{ort, placement, trust, op}));
    Add(DefineOperation(ort, op, stream != nullptr).get(), CreateKernel, operations_.back().get());
  }
  Add(DefineUnsqueezeScalars(ort, stream != nullptr).get(), CreateScalars, this);
  if (stream == nullptr) return;
  for (const MemcpyDirection direction : {MemcpyDirection::kFromHost, MemcpyDirection::kToHost}) {
    copies_.push_back(std::make_unique<MemcpyCreator>(MemcpyCreator{ort, stream, direction}));
    Add(DefineMemcpy(ort, direction).get(), CreateMemcpy, copies_.back().get());
  }
}

void KernelRegistry::Add(const ort::OrtKernelDef* kernel_def, ort::OrtKernelCreateFunc create, void* creator) {
  Check(ort_.api, ort_.ep_api.KernelRegistry_AddKernel(registry_.get(), kernel_def, create, creator));
}

ort::OrtStatus* KernelRegistry::CreateKernel(void* creator, const ort::OrtKernelInfo* info,
                                             ort::OrtKernelImpl** out) noexcept {
  const OperationCreator& self = *static_cast<const OperationCreator*>(creator);
  return Guard(self.ort.api, [&] { *out = new Kernel(self.ort, self.placement, self.op, info, self.trust); });
}

ort::OrtStatus* KernelRegistry::CreateScalars(void* registry, const ort::OrtKernelInfo*,
                                              ort::OrtKernelImpl** out) noexcept {
  const KernelRegistry& self = *static_cast<const KernelRegistry*>(registry);
  return Guard(self.ort_.api, [&] { *out = new ScalarsKernel(self.ort_, self.stream_); });
}

ort::OrtStatus* KernelRegistry::CreateMemcpy(void* creator, const ort::OrtKernelInfo*,
                                             ort::OrtKernelImpl** out) noexcept {
  const MemcpyCreator& self = *static_cast<const MemcpyCreator*>(creator);
  return Guard(self.ort.api, [&] { *out = new MemcpyKernel(self.ort, self.stream, self.direction); });
}

}  // namespace poolgrad::ep
