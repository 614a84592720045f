// SPDX-License-Identifier: Apache-2.0

// The strict device, on which misuse that a real device may tolerate is detected.

#include "host/hardware.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "host/boundary.h"
#include "host/registry.h"
#include "host/strict/memory.h"
#include "host/strict/streams.h"
#include "host/violations.h"

namespace poolgrad::host {
namespace {

// One lock for all functions, held also while work runs.
class Strict final : public Hardware {
 public:
  aclrtRunMode RunMode() const override { return ACL_HOST; }

  Status Allocate(Place place, size_t size, void** memory) override {
    const std::lock_guard lock(mutex_);
    return memory_.Allocate(CurrentDevice(), place, size, memory);
  }

  Status Free(Place place, void* memory) override {
    const std::lock_guard lock(mutex_);
    if (Status status = CheckDevice(memory_.DeviceOf(memory), CurrentDevice(), kNoPeer, "memory"); !status.ok()) {
      return status;
    }
    const std::string user = streams_.UserOf({"memory", memory, memory_.SizeAt(memory), place, true});
    if (!user.empty()) Record(Rule::kMemoryInUse, Text(memory, " is still to be used by ", user));
    return Recorded(Rule::kBadFree, memory_.Free(place, memory));
  }

  Status RunNow(Work work) override {
    const std::lock_guard lock(mutex_);
    work.device = CurrentDevice();
    for (const Use& use : work.uses) {
      const std::string user = streams_.UserOf(use);
      if (user.empty()) continue;
      Record(Rule::kRace, Text(use.name, ", ", use.size, " bytes at ", use.address, ", is still to be used by ", user));
    }
    return Run(work);
  }

  Status Submit(aclrtStream handle, Work work) override {
    return OnStream(handle, [&](Stream& stream) {
      work.device = stream.device;
      if (Status status = CheckAddresses(work); !status.ok()) return status;
      const bool waits = SettlePageable(work);
      Poison(work, true);
      Status status = streams_.Submit(stream, {current_function, std::move(work), {}});
      return status.ok() && waits ? streams_.Synchronize(stream) : status;
    });
  }

  Status CreateStream(aclrtStream* handle) override {
    const std::lock_guard lock(mutex_);
    Stream* stream = stream_handles_.Add(std::make_unique<Stream>(Stream{CurrentDevice()}));
    streams_.Enter(*stream);
    ended_.erase(stream);
    *handle = stream;
    return {};
  }

  Status DestroyStream(aclrtStream handle) override {
    return OnStream(handle, [&](Stream& stream) {
      streams_.Synchronize(stream);
      streams_.Leave(stream);
      return stream_handles_.Remove(&stream, kStale);
    });
  }

  Status Synchronize(aclrtStream handle) override {
    return OnStream(handle, [&](Stream& stream) { return streams_.Synchronize(stream); });
  }

  Status SynchronizeAll() override {
    const std::lock_guard lock(mutex_);
    return streams_.SynchronizeAll(CurrentDevice());
  }

  Status Query(aclrtStream handle, aclrtStreamStatus* status) override {
    return OnStream(handle, [&](const Stream& stream) {
      *status = stream.queue.empty() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
      return stream.failure;
    });
  }

  Status CreateEvent(aclrtEvent* handle) override {
    const std::lock_guard lock(mutex_);
    *handle = event_handles_.Add(std::make_unique<Event>(Event{CurrentDevice()}));
    ended_.erase(*handle);
    return {};
  }

  Status DestroyEvent(aclrtEvent handle) override {
    return OnEvent(handle, [&](const Event& event) { return event_handles_.Remove(&event, kStale); });
  }

  Status RecordEvent(aclrtEvent handle, aclrtStream stream_handle) override {
    return OnBoth(handle, stream_handle,
                  [&](Event& event, const Stream& stream) { return streams_.RecordEvent(event, stream); });
  }

  Status Wait(aclrtStream stream_handle, aclrtEvent handle) override {
    return OnBoth(handle, stream_handle,
                  [&](const Event& event, Stream& stream) { return streams_.Wait(stream, event); });
  }

  Status SynchronizeEvent(aclrtEvent handle) override {
    return OnEvent(handle, [&](const Event& event) { return streams_.Synchronize(event); });
  }

  Status QueryEvent(aclrtEvent handle, aclrtEventRecordedStatus* status) override {
    return OnEvent(handle, [&](const Event& event) -> Status {
      const bool complete = streams_.IsComplete(event);
      *status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
      return {};
    });
  }

  void EndContext(int32_t device) override {
    const std::lock_guard lock(mutex_);
    streams_.LeaveAll(device);
    default_streams_.erase(device);
    constexpr const char* kWhen = "the device's context ends";
    RecordLeak(Kind::kStream, End(stream_handles_, device), kWhen);
    RecordLeak(Kind::kEvent, End(event_handles_, device), kWhen);
    RecordLeak(Kind::kDeviceMemory, memory_.Count(device, Place::kDevice), kWhen);
    RecordLeak(Kind::kPinnedMemory, memory_.Count(device, Place::kHost), kWhen);
    memory_.Clear(device);
  }

 private:
  static constexpr int kStale = ACL_ERROR_RT_INVALID_HANDLE;
  static constexpr int kOtherContext = ACL_ERROR_RT_STREAM_CONTEXT;
  static constexpr int kNoPeer = ACL_ERROR_RT_PARAM_INVALID;  // devices have no access to each other's memory

  static Status Recorded(Rule rule, Status status) {
    if (!status.ok()) Record(rule, status.message);
    return status;
  }

  // Returns how many objects it ends.
  template <typename T>
  size_t End(Registry<T>& registry, int32_t device) {
    const std::vector<const void*> handles =
        registry.RemoveWhere([device](const T& object) { return object.device == device; });
    ended_.insert(handles.begin(), handles.end());
    return handles.size();
  }

  // A violation with this code if `what`, an object of one device, is used on another. Objects without a device, and
  // threads without a device, are not checked.
  static Status CheckDevice(int32_t owner, int32_t user, int code, const char* what) {
    if (owner == user || owner == kNoDevice || user == kNoDevice) return {};
    return Violation(Rule::kOtherDevice, code, what, " of device ", owner, " is used on device ", user);
  }

  template <typename T>
  Status CheckHandle(const Registry<T>& registry, const void* handle, const char* what) const {
    if (ended_.count(handle) != 0) return Fail(kOtherContext, handle, " belongs to a context that ended");
    const T* object = static_cast<const T*>(handle);
    Status status = registry.Check(object, kStale);
    return status.ok() ? CheckDevice(object->device, CurrentDevice(), kOtherContext, what) : status;
  }

  // The default stream of the current device.
  Stream& DefaultStream() {
    std::unique_ptr<Stream>& stream = default_streams_[CurrentDevice()];
    if (!stream) {
      stream = std::make_unique<Stream>(Stream{CurrentDevice()});
      streams_.Enter(*stream);
    }
    return *stream;
  }

  template <typename Body>
  Status OnStream(aclrtStream handle, Body&& body) {
    const std::lock_guard lock(mutex_);
    if (handle == nullptr) return body(DefaultStream());
    Status status = CheckHandle(stream_handles_, handle, "a stream");
    return status.ok() ? body(*static_cast<Stream*>(handle)) : status;
  }

  template <typename Body>
  Status OnEvent(aclrtEvent handle, Body&& body) {
    const std::lock_guard lock(mutex_);
    Status status = CheckHandle(event_handles_, handle, "an event");
    return status.ok() ? body(*static_cast<Event*>(handle)) : status;
  }

  template <typename Body>
  Status OnBoth(aclrtEvent event_handle, aclrtStream stream_handle, Body&& body) {
    return OnStream(stream_handle, [&](Stream& stream) {
      Status status = CheckHandle(event_handles_, event_handle, "an event");
      return status.ok() ? body(*static_cast<Event*>(event_handle), stream) : status;
    });
  }

  Status Reach(const Work& work, const Use& use, std::byte** bytes) const {
    Status status = CheckDevice(memory_.DeviceOf(use.address), work.device, kNoPeer, use.name);
    return status.ok() ? Recorded(Rule::kBadAddress, memory_.Reach(use, bytes)) : status;
  }

  // The addresses of a kernel are checked when it runs.
  Status CheckAddresses(const Work& work) const {
    std::byte* bytes = nullptr;
    for (size_t use = 0; use < work.uses.size() && !work.is_kernel; ++use) {
      Status status = Reach(work, work.uses[use], &bytes);
      if (!status.ok()) return status;
    }
    return {};
  }

  // Streams cannot copy from or to memory that is not pinned. This copies the bytes that the work reads from such
  // memory. It returns whether the work writes to such memory: the caller must then wait for the stream.
  bool SettlePageable(Work& work) const {
    bool waits = false;
    for (size_t index = 0; index < work.uses.size(); ++index) {
      Use& use = work.uses[index];
      if (use.place == Place::kDevice || memory_.IsKnown(use.address)) continue;
      waits |= use.written;
      if (use.written) continue;
      const auto* begin = static_cast<const std::byte*>(use.address);
      work.run = [index, taken = std::vector<std::byte>(begin, begin + use.size),
                  run = std::move(work.run)](const Addresses& at) mutable {
        Addresses settled = at;
        settled[index] = taken.data();
        return run(settled);
      };
      use.size = 0;
    }
    return waits;
  }

  // Poisons the memory that the work will write. If the work is queued, not the memory that earlier queued work uses.
  void Poison(const Work& work, bool queued) const {
    for (const Use& use : work.uses) {
      std::byte* bytes = nullptr;
      if (!use.written || !use.whole || IsRead(work, use) || !memory_.IsKnown(use.address)) continue;
      if (queued && streams_.IsUsed(use)) continue;
      if (memory_.Reach(use, &bytes).ok()) std::memset(bytes, kPoison, use.size);
    }
  }

  static bool IsRead(const Work& work, const Use& written) {
    for (const Use& use : work.uses) {
      if (!use.written && Conflict(use, written)) return true;
    }
    return false;
  }

  Status Run(const Work& work) const {
    Addresses addresses{};
    for (size_t use = 0; use < work.uses.size(); ++use) {
      Status status = Reach(work, work.uses[use], &addresses[use]);
      if (!status.ok())
        return {work.is_kernel ? ACL_ERROR_RT_AICORE_EXCEPTION : status.code, std::move(status.message)};
    }
    Poison(work, false);
    return work.run(addresses);
  }

  std::mutex mutex_;
  Memory memory_;
  Streams streams_{[this](const Work& work) { return Run(work); }};
  std::map<int32_t, std::unique_ptr<Stream>> default_streams_;  // by device
  Registry<Stream> stream_handles_{Kind::kStream};
  Registry<Event> event_handles_{Kind::kEvent};
  std::set<const void*> ended_;  // handles of streams and events whose context ended
};

}  // namespace

Hardware& StrictHardware() {
  static auto* const hardware = new Strict;  // never destroyed: calls may come at exit
  return *hardware;
}

}  // namespace poolgrad::host
