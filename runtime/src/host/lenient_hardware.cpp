// SPDX-License-Identifier: Apache-2.0

// The lenient device: its memory is memory of the process, and work runs at once on the calling thread.

#include <cstdlib>

#include "host/hardware.h"
#include "host/live.h"
#include "host/mode.h"

namespace poolgrad::host {
namespace {

constexpr size_t kAlignment = 64;  // as aclrtMalloc aligns

// A stream without a queue has no state. The object only provides an address.
struct Stream {};

struct Event {
  bool recorded = false;
};

Status Run(const Work& work) {
  Addresses addresses{};
  for (size_t use = 0; use < work.uses.size(); ++use) {
    addresses[use] = static_cast<std::byte*>(work.uses[use].address);
  }
  return work.run(addresses);
}

std::atomic<int64_t>& LiveMemory(Place place) {
  return LiveCount(place == Place::kDevice ? Kind::kDeviceMemory : Kind::kPinnedMemory);
}

class Lenient final : public Hardware {
 public:
  aclrtRunMode RunMode() const override { return ACL_DEVICE; }

  Status Allocate(Place place, size_t size, void** memory) override {
    const size_t padded = (size + kAlignment - 1) / kAlignment * kAlignment;
    void* allocated = padded >= size ? std::aligned_alloc(kAlignment, padded) : nullptr;
    if (allocated == nullptr) return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "cannot allocate ", size, " bytes");
    *memory = allocated;
    ++LiveMemory(place);
    return {};
  }

  Status Free(Place place, void* memory) override {
    std::free(memory);
    --LiveMemory(place);
    return {};
  }

  Status RunNow(Work work) override { return Run(work); }
  Status Submit(aclrtStream /*stream*/, Work work) override { return Run(work); }

  Status CreateStream(aclrtStream* stream) override {
    *stream = new Stream;
    ++LiveCount(Kind::kStream);
    return {};
  }

  Status DestroyStream(aclrtStream stream) override {
    delete static_cast<Stream*>(stream);
    --LiveCount(Kind::kStream);
    return {};
  }

  Status Synchronize(aclrtStream /*stream*/) override { return {}; }
  Status SynchronizeAll() override { return {}; }

  Status Query(aclrtStream /*stream*/, aclrtStreamStatus* status) override {
    *status = ACL_STREAM_STATUS_COMPLETE;
    return {};
  }

  Status CreateEvent(aclrtEvent* event) override {
    *event = new Event;
    ++LiveCount(Kind::kEvent);
    return {};
  }

  Status DestroyEvent(aclrtEvent event) override {
    delete static_cast<Event*>(event);
    --LiveCount(Kind::kEvent);
    return {};
  }

  Status RecordEvent(aclrtEvent event, aclrtStream /*stream*/) override {
    static_cast<Event*>(event)->recorded = true;
    return {};
  }

  Status Wait(aclrtStream /*stream*/, aclrtEvent /*event*/) override { return {}; }
  Status SynchronizeEvent(aclrtEvent /*event*/) override { return {}; }

  Status QueryEvent(aclrtEvent event, aclrtEventRecordedStatus* status) override {
    const bool recorded = static_cast<Event*>(event)->recorded;
    *status = recorded ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return {};
  }

  void EndContext(int32_t /*device*/) override {}
};

}  // namespace

Hardware& LenientHardware() {
  static auto* const hardware = new Lenient;  // never destroyed: calls may come at exit
  return *hardware;
}

Hardware& TheHardware() { return IsStrict() ? StrictHardware() : LenientHardware(); }

}  // namespace poolgrad::host
