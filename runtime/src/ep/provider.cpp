// SPDX-License-Identifier: Apache-2.0

#include "ep/provider.h"

#include "ep/allocator.h"
#include "ep/dialect_table.h"
#include "ep/node.h"

namespace poolgrad::ep {
namespace {

// The operator of this name, or null.
const DialectOp* FindDialectOp(const std::string& name) {
  for (const DialectOp& op : kDialectOps) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

}  // namespace

Provider::Provider(const EpContext& ort, const aclnn::Backend& backend, const MemoryDomain* domain,
                   const Options& options, const Logger& session_logger, const Logger& process_logger)
    : ort::OrtEp{},
      ort_(ort),
      backend_(backend),
      domain_(domain),
      stream_(domain == nullptr ? nullptr : domain->streams->Create(backend)),
      session_logger_(session_logger),
      process_logger_(process_logger),
      deterministic_(options.deterministic),
      trust_(!options.check_indices),
      registry_(ort_, backend, stream_, options.deterministic, trust_) {
  ort_version_supported = ort.version;
  GetName = GetNameImpl;
  GetCapability = GetCapabilityImpl;
  GetKernelRegistry = GetKernelRegistryImpl;
  if (domain == nullptr) return;
  OnRunStart = OnRunStartImpl;
  OnRunEnd = OnRunEndImpl;
  CreateAllocator = CreateAllocatorImpl;
}

const char* Provider::GetNameImpl(const ort::OrtEp*) noexcept { return kProviderName; }

ort::OrtStatus* Provider::GetCapabilityImpl(ort::OrtEp* self, const ort::OrtGraph* graph,
                                            ort::OrtEpGraphSupportInfo* support) noexcept {
  Provider& provider = *static_cast<Provider*>(self);
  return Guard(provider.ort_.api, [&] {
    std::vector<Claim> claims;
    for (const ort::OrtNode* node : NodesOf(provider.ort_, graph)) {
      if (const std::optional<Claim> claim = provider.Consider(node, support)) claims.push_back(*claim);
    }
    provider.trust_.Learn(provider.ort_, claims);
  });
}

ort::OrtStatus* Provider::GetKernelRegistryImpl(ort::OrtEp* self, const ort::OrtKernelRegistry** out) noexcept {
  *out = static_cast<Provider*>(self)->registry_.get();
  return nullptr;
}

ort::OrtStatus* Provider::OnRunStartImpl(ort::OrtEp* self, const ort::OrtRunOptions*) noexcept {
  Provider& provider = *static_cast<Provider*>(self);
  return Guard(provider.ort_.api, [&] { provider.stream_->BeginUse(); });
}

// Waits even if `synchronize` is false: other sessions may read the results in device memory after the Run.
ort::OrtStatus* Provider::OnRunEndImpl(ort::OrtEp* self, const ort::OrtRunOptions*, bool) noexcept {
  Provider& provider = *static_cast<Provider*>(self);
  return Guard(provider.ort_.api, [&] { provider.stream_->EndUse(); });
}

ort::OrtStatus* Provider::CreateAllocatorImpl(ort::OrtEp* self, const ort::OrtMemoryInfo*,
                                              ort::OrtAllocator** out) noexcept {
  Provider& provider = *static_cast<Provider*>(self);
  return Guard(provider.ort_.api, [&] {
    *out = new Allocator(provider.ort_, provider.process_logger_, provider.domain_->info.get(),
                         std::make_unique<aclnn::SessionMemory>(provider.stream_));
  });
}

// Claims the node, or logs why it is left to its function body.
std::optional<Claim> Provider::Consider(const ort::OrtNode* node, ort::OrtEpGraphSupportInfo* support) {
  const ort::OrtKernelDef* kernel_def = nullptr;
  Check(ort_.api, ort_.ep_api.EpGraphSupportInfo_LookUpKernel(support, node, &kernel_def));
  const std::string op_type = OperatorType(ort_, node);
  if (kernel_def != nullptr && op_type == kUnsqueezeScalars) {
    Check(ort_.api, ort_.ep_api.EpGraphSupportInfo_AddSingleNode(support, node));
    return std::nullopt;
  }
  const DialectOp* op = kernel_def == nullptr ? nullptr : FindDialectOp(op_type);
  if (op == nullptr) return std::nullopt;
  try {
    const Attributes attributes = ReadAttributes(*op, NodeAttributes(ort_, node));
    CheckNode(*op, attributes, backend_, deterministic_, InputsOf(ort_, node, op->inputs.size()),
              OutputsOf(ort_, node, op->outputs.size()));
  } catch (const Error& reason) {
    session_logger_.Info(Label(ort_, node) + " is left to its function body: " + reason.what());
    return std::nullopt;
  }
  Check(ort_.api, ort_.ep_api.EpGraphSupportInfo_AddSingleNode(support, node));
  return Claim{node, op};
}

}  // namespace poolgrad::ep
