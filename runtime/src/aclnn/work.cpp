// SPDX-License-Identifier: Apache-2.0

#include "aclnn/work.h"

#include "aclnn/failure.h"

namespace poolgrad::aclnn {

WorkEnded WaitForStream(const Api& api, aclrtStream stream) {
  Check(api, "aclrtSynchronizeStream", api.aclrtSynchronizeStream(stream));
  return {};
}

WorkEnded WaitForEvent(const Api& api, aclrtEvent event) {
  Check(api, "aclrtSynchronizeEvent", api.aclrtSynchronizeEvent(event));
  return {};
}

WorkEnded WaitForDevice(const Api& api) {
  Check(api, "aclrtSynchronizeDevice", api.aclrtSynchronizeDevice());
  return {};
}

std::optional<WorkEnded> EndStream(const Api& api, StreamHandle& stream) noexcept {
  const int waited = api.aclrtSynchronizeStream(stream.get());
  Tolerate(api, waited);
  const int destroyed = api.aclrtDestroyStream(stream.get());
  Tolerate(api, destroyed);
  if (waited != ACL_SUCCESS && destroyed != ACL_SUCCESS) return std::nullopt;
  std::get_deleter<Release<void>>(stream)->function = nullptr;
  stream.reset();
  return WorkEnded();
}

StreamHandle CreateStream(const Backend& backend) {
  aclrtStream stream = nullptr;
  Check(backend.api(), "aclrtCreateStream", backend.api().aclrtCreateStream(&stream));
  return StreamHandle(stream, Released(backend, backend.api().aclrtDestroyStream));
}

WorkMemory AllocateDeviceMemory(const Backend& backend, std::size_t bytes) {
  void* memory = nullptr;
  Check(backend.api(), "aclrtMalloc", backend.api().aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  return WorkMemory(MemoryHandle(memory, Released(backend, backend.api().aclrtFree)));
}

WorkMemory AllocatePinnedMemory(const Backend& backend, std::size_t bytes) {
  void* memory = nullptr;
  Check(backend.api(), "aclrtMallocHost", backend.api().aclrtMallocHost(&memory, bytes));
  return WorkMemory(MemoryHandle(memory, Released(backend, backend.api().aclrtFreeHost)));
}

}  // namespace poolgrad::aclnn
