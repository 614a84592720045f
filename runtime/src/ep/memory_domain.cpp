// SPDX-License-Identifier: Apache-2.0

#include "ep/memory_domain.h"

namespace poolgrad::ep {
namespace {

OrtHandle<ort::OrtMemoryInfo> Describe(const EpContext& ort, std::int32_t device) {
  // With any other value onnxruntime refuses outputs that are bound to this memory.
  constexpr std::size_t kNoAlignment = 0;
  ort::OrtMemoryInfo* info = nullptr;
  Check(ort.api,
        ort.api.CreateMemoryInfo_V2("Npu", ort::OrtMemoryInfoDeviceType_NPU, kHuaweiVendorId, device,
                                    ort::OrtDeviceMemoryType_DEFAULT, kNoAlignment, ort::OrtDeviceAllocator, &info));
  return {info, ort.api.ReleaseMemoryInfo};
}

}  // namespace

MemoryDomain::MemoryDomain(const EpContext& ort, aclnn::BackendKind kind, std::int32_t device)
    : kind(kind), device(device), streams(std::make_shared<aclnn::StreamSet>()), info(Describe(ort, device)) {}

}  // namespace poolgrad::ep
