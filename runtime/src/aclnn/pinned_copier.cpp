// SPDX-License-Identifier: Apache-2.0

#include "aclnn/pinned_copier.h"

#include <algorithm>
#include <cstring>

#include "aclnn/failure.h"

namespace poolgrad::aclnn {
namespace {

MemoryHandle AllocatePinnedMemory(const Api& api, std::size_t bytes) {
  void* memory = nullptr;
  Check(api, "aclrtMallocHost", api.aclrtMallocHost(&memory, bytes));
  return MemoryHandle(memory, Released(api, api.aclrtFreeHost));
}

EventHandle CreateEvent(const Api& api) {
  aclrtEvent event = nullptr;
  Check(api, "aclrtCreateEventWithFlag", api.aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
  return EventHandle(event, Released(api, api.aclrtDestroyEvent));
}

// The size of the part at `offset`.
std::size_t PartBytes(std::size_t offset, std::size_t bytes) {
  return std::min(PinnedCopier::kChunkBytes, bytes - offset);
}

}  // namespace

PinnedCopier::Chunk::Chunk(const Api& acl)
    : api(acl), memory(AllocatePinnedMemory(acl, kChunkBytes)), event(CreateEvent(acl)) {}

PinnedCopier::Chunk::~Chunk() {
  // If this fails, the stream is in error and copies nothing more. The next wait for the stream reports the error.
  if (is_copying) Tolerate(api, api.aclrtSynchronizeEvent(event.get()));
}

void PinnedCopier::Chunk::Start(void* to, const void* from, std::size_t bytes, aclrtMemcpyKind kind,
                                aclrtStream stream) {
  Check(api, "aclrtMemcpyAsync", api.aclrtMemcpyAsync(to, bytes, from, bytes, kind, stream));
  const int recorded = api.aclrtRecordEvent(event.get(), stream);
  is_copying = recorded == ACL_SUCCESS;
  if (!is_copying) Tolerate(api, api.aclrtSynchronizeStream(stream));  // nothing else could wait for the copy
  Check(api, "aclrtRecordEvent", recorded);
}

void PinnedCopier::Chunk::Wait() {
  if (!is_copying) return;
  Check(api, "aclrtSynchronizeEvent", api.aclrtSynchronizeEvent(event.get()));
  is_copying = false;
}

PinnedCopier::PinnedCopier(const Backend& backend) : chunks_{Chunk(backend.api()), Chunk(backend.api())} {}

void PinnedCopier::CopyToDevice(void* to, const void* from, std::size_t bytes, aclrtStream stream) {
  for (std::size_t offset = 0; offset < bytes; offset += kChunkBytes) {
    Chunk& chunk = ChunkAt(offset);
    const std::size_t part = PartBytes(offset, bytes);
    chunk.Wait();
    std::memcpy(chunk.memory.get(), static_cast<const char*>(from) + offset, part);
    chunk.Start(static_cast<char*>(to) + offset, chunk.memory.get(), part, ACL_MEMCPY_HOST_TO_DEVICE, stream);
  }
}

void PinnedCopier::CopyToHost(void* to, const void* from, std::size_t bytes, aclrtStream stream) {
  Read(from, bytes, stream, [to](const void* part, std::size_t offset, std::size_t part_bytes) {
    std::memcpy(static_cast<char*>(to) + offset, part, part_bytes);
  });
}

void PinnedCopier::Read(const void* from, std::size_t bytes, aclrtStream stream, const Consumer& consume) {
  std::size_t started = 0;
  for (std::size_t offset = 0; offset < bytes; offset += kChunkBytes) {
    for (; started < bytes && started < offset + chunks_.size() * kChunkBytes; started += kChunkBytes) {
      Chunk& next = ChunkAt(started);
      next.Wait();
      next.Start(next.memory.get(), static_cast<const char*>(from) + started, PartBytes(started, bytes),
                 ACL_MEMCPY_DEVICE_TO_HOST, stream);
    }
    Chunk& chunk = ChunkAt(offset);
    chunk.Wait();
    consume(chunk.memory.get(), offset, PartBytes(offset, bytes));
  }
}

}  // namespace poolgrad::aclnn
