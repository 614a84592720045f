// SPDX-License-Identifier: Apache-2.0

#include "ep/placement.h"

#include <cstring>

#include "aclnn/indices.h"
#include "aclnn/staging.h"

namespace poolgrad::ep {

void HostPlacement::Run(const aclnn::Call& call, aclnn::ExecutorCache& executors, bool, aclrtStream) {
  streams_.With(
      [&](aclnn::StreamResources& resources) { aclnn::RunOnHostMemory(backend(), call, executors, resources); });
}

void HostPlacement::Clear(const aclnn::TensorView& view, aclrtStream) {
  std::memset(view.data, 0, aclnn::ByteCount(view));
}

void DevicePlacement::Run(const aclnn::Call& call, aclnn::ExecutorCache& executors, bool trusts_indices,
                          aclrtStream given) {
  if (!trusts_indices) aclnn::CheckIndices(call, *stream_, given);
  stream_->Submit(
      given, [&](aclrtStream stream, aclnn::DeviceBuffer& workspace) { executors.Enqueue(call, workspace, stream); });
}

void DevicePlacement::Clear(const aclnn::TensorView& view, aclrtStream given) {
  stream_->Clear(view.data, aclnn::ByteCount(view), given);
}

}  // namespace poolgrad::ep
