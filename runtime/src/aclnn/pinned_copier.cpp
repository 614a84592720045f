// SPDX-License-Identifier: Apache-2.0

#include "aclnn/pinned_copier.h"

#include <algorithm>
#include <cstring>

#include "aclnn/failure.h"

namespace poolgrad::aclnn {
namespace {

EventHandle CreateEvent(const Backend& backend) {
  aclrtEvent event = nullptr;
  Check(backend.api(), "aclrtCreateEventWithFlag", backend.api().aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
  return EventHandle(event, Released(backend, backend.api().aclrtDestroyEvent));
}

// The size of the part at `offset`.
std::size_t PartBytes(std::size_t offset, std::size_t bytes) {
  return std::min(PinnedCopier::kChunkBytes, bytes - offset);
}

}  // namespace

PinnedCopier::Chunk::Chunk(const Backend& chunk_backend)
    : backend(chunk_backend),
      event(CreateEvent(chunk_backend)),
      memory(AllocatePinnedMemory(chunk_backend, kChunkBytes)) {}

PinnedCopier::Chunk::~Chunk() {
  if (const ClosingScope scope(backend); scope.is_current() && Finish()) memory.Free(ended);
}

void PinnedCopier::Chunk::Start(void* to, const void* from, std::size_t bytes, aclrtMemcpyKind kind,
                                aclrtStream stream) {
  const Api& api = backend.api();
  Check(api, "aclrtMemcpyAsync", api.aclrtMemcpyAsync(to, bytes, from, bytes, kind, stream));
  copy = Copy::kUnrecorded;
  try {
    Check(api, "aclrtRecordEvent", api.aclrtRecordEvent(event.get(), stream));
  } catch (...) {
    ended = WaitForStream(api, stream);  // if this fails too, it is the error of the copy
    copy = Copy::kNone;
    throw;
  }
  copy = Copy::kRecorded;
}

void PinnedCopier::Chunk::Wait() {
  if (copy == Copy::kNone) return;
  ended = WaitForEvent(backend.api(), event.get());
  copy = Copy::kNone;
}

bool PinnedCopier::Chunk::Finish() noexcept {
  try {
    if (copy == Copy::kRecorded) Wait();
  } catch (...) {
    // `copy` tells the caller.
  }
  return copy == Copy::kNone;
}

PinnedCopier::PinnedCopier(const Backend& backend) : chunks_{Chunk(backend), Chunk(backend)} {}

bool PinnedCopier::Finish() noexcept {
  bool finished = true;
  for (Chunk& chunk : chunks_) finished = chunk.Finish() && finished;
  return finished;
}

void PinnedCopier::Finish(WorkEnded ended) {
  for (Chunk& chunk : chunks_) {
    chunk.ended = ended;
    chunk.copy = Copy::kNone;
  }
}

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
