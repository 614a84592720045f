// SPDX-License-Identifier: Apache-2.0

#include "ep/kernel_definition.h"

#include <numeric>
#include <vector>

#include "ep/dialect_table.h"
#include "ep/registry.h"

namespace poolgrad::ep {
namespace {

constexpr int kMemcpyVersion = 1;

// The scalars of one node whose memory is shared; the kernel copies any further ones.
constexpr std::size_t kSharedScalars = 512;

// Sets no type constraints: onnxruntime cannot match these against a node that has a function body. The provider checks
// types before it claims a node.
class Builder {
 public:
  Builder(const EpContext& ort, const char* domain, const char* op_type, int version)
      : ort_(ort), builder_(nullptr, ort.ep_api.ReleaseKernelDefBuilder) {
    const ort::OrtEpApi& api = ort.ep_api;
    ort::OrtKernelDefBuilder* created = nullptr;
    Check(ort.api, api.CreateKernelDefBuilder(&created));
    builder_.reset(created);
    Check(ort.api, api.KernelDefBuilder_SetOperatorType(created, op_type));
    Check(ort.api, api.KernelDefBuilder_SetDomain(created, domain));
    Check(ort.api, api.KernelDefBuilder_SetSinceVersion(created, version, version));
    Check(ort.api, api.KernelDefBuilder_SetExecutionProvider(created, kProviderName));
  }

  void SetHostInput(std::size_t index) {
    Check(ort_.api, ort_.ep_api.KernelDefBuilder_SetInputMemType(builder_.get(), index, ort::OrtMemTypeCPUInput));
  }

  void SetHostOutput(std::size_t index) {
    Check(ort_.api, ort_.ep_api.KernelDefBuilder_SetOutputMemType(builder_.get(), index, ort::OrtMemTypeCPUOutput));
  }

  // Makes each of the first outputs the memory of the input at its position.
  void ShareMemory(std::size_t count) {
    std::vector<int> positions(count);
    std::iota(positions.begin(), positions.end(), 0);
    Check(ort_.api, ort_.ep_api.KernelDefBuilder_AddInputOutputAliases(builder_.get(), positions.data(),
                                                                       positions.data(), count));
  }

  KernelDefinition Build() {
    ort::OrtKernelDef* definition = nullptr;
    Check(ort_.api, ort_.ep_api.KernelDefBuilder_Build(builder_.get(), &definition));
    return {definition, ort_.ep_api.ReleaseKernelDef};
  }

 private:
  const EpContext& ort_;
  OrtHandle<ort::OrtKernelDefBuilder> builder_;
};

}  // namespace

KernelDefinition DefineOperation(const EpContext& ort, const DialectOp& op, bool is_on_device) {
  Builder builder(ort, kDialectDomain, op.name, kDialectVersion);
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (!is_on_device || op.inputs.begin()[i] == Part::kSizes) builder.SetHostInput(i);
  }
  for (std::size_t i = 0; i < op.outputs.size() && !is_on_device; ++i) builder.SetHostOutput(i);
  return builder.Build();
}

KernelDefinition DefineUnsqueezeScalars(const EpContext& ort, bool is_on_device) {
  Builder builder(ort, kDialectDomain, kUnsqueezeScalars, kDialectVersion);
  builder.ShareMemory(kSharedScalars);
  for (std::size_t i = 0; !is_on_device && i < kSharedScalars; ++i) {
    builder.SetHostInput(i);
    builder.SetHostOutput(i);
  }
  return builder.Build();
}

KernelDefinition DefineMemcpy(const EpContext& ort, MemcpyDirection direction) {
  const bool is_from_host = direction == MemcpyDirection::kFromHost;
  Builder builder(ort, "", is_from_host ? "MemcpyFromHost" : "MemcpyToHost", kMemcpyVersion);
  if (is_from_host) {
    builder.SetHostInput(0);
  } else {
    builder.SetHostOutput(0);
  }
  return builder.Build();
}

}  // namespace poolgrad::ep
