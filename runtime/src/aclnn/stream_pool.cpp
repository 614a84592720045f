// SPDX-License-Identifier: Apache-2.0

#include "aclnn/stream_pool.h"

#include "aclnn/device_scope.h"

namespace poolgrad::aclnn {

StreamResources::StreamResources(const Backend& resources_backend)
    : backend(resources_backend),
      workspace(backend, stream),
      operands{DeviceBuffer(backend, stream), DeviceBuffer(backend, stream), DeviceBuffer(backend, stream),
               DeviceBuffer(backend, stream)},
      stream(CreateStream(backend)) {}

bool StreamResources::Finish() noexcept {
  if (stream == nullptr) return true;
  const ClosingScope scope(backend);
  if (!scope.is_current()) return false;
  const std::optional<WorkEnded> ended = EndStream(backend.api(), stream);
  if (!ended) return false;
  if (copier) copier->Finish(*ended);
  workspace.Free(*ended);
  for (DeviceBuffer& operand : operands) operand.Free(*ended);
  return true;
}

StreamPool::~StreamPool() {
  const ClosingScope scope(backend_);  // once for all resources
  resources_.Clear();
}

}  // namespace poolgrad::aclnn
