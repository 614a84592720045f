// The strict device: what a caller of a real one can do wrong shows here.

#include "host/hardware.h"

#include <cstring>
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

// One lock for all of it, held also while work runs: a device does one thing at a time.
class Strict final : public Hardware {
 public:
  aclrtRunMode RunMode() const override { return ACL_HOST; }

  Status Allocate(Place place, size_t size, void** memory) override {
    const std::lock_guard lock(mutex_);
    return memory_.Allocate(place, size, memory);
  }

  Status Free(Place place, void* memory) override {
    const std::lock_guard lock(mutex_);
    const std::string user = streams_.UserOf({"memory", memory, memory_.SizeAt(memory), place, true});
    if (!user.empty()) Record(Rule::kMemoryInUse, Text(memory, " is still to be used by ", user));
    return Recorded(Rule::kBadFree, memory_.Free(place, memory));
  }

  Status RunNow(const Work& work) override {
    const std::lock_guard lock(mutex_);
    for (const Use& use : work.uses) {
      const std::string user = streams_.UserOf(use);
      if (user.empty()) continue;
      Record(Rule::kRace, Text(use.name, ", ", use.size, " bytes at ", use.address, ", is still to be used by ", user));
    }
    return Run(work);
  }

  Status Submit(aclrtStream handle, Work work) override {
    return OnStream(handle, [&](Stream& stream) {
      if (Status status = CheckAddresses(work); !status.ok()) return status;
      const bool waits = SettlePageable(work);
      Poison(work, true);
      Status status = streams_.Submit(stream, {current_function, std::move(work), {}});
      return status.ok() && waits ? streams_.Synchronize(stream) : status;
    });
  }

  Status CreateStream(aclrtStream* handle) override {
    const std::lock_guard lock(mutex_);
    Stream* stream = stream_handles_.Add(std::make_unique<Stream>());
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
    return streams_.SynchronizeAll();
  }

  Status Query(aclrtStream handle, aclrtStreamStatus* status) override {
    return OnStream(handle, [&](const Stream& stream) {
      *status = stream.queue.empty() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
      return stream.failure;
    });
  }

  Status CreateEvent(aclrtEvent* handle) override {
    const std::lock_guard lock(mutex_);
    *handle = event_handles_.Add(std::make_unique<Event>());
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

  void EndContext() override {
    const std::lock_guard lock(mutex_);
    streams_.LeaveAll();
    default_stream_.reset();
    constexpr const char* kWhen = "the device's context ends";
    RecordLeak(Kind::kStream, End(stream_handles_), kWhen);
    RecordLeak(Kind::kEvent, End(event_handles_), kWhen);
    RecordLeak(Kind::kDeviceMemory, memory_.Count(Place::kDevice), kWhen);
    RecordLeak(Kind::kPinnedMemory, memory_.Count(Place::kHost), kWhen);
    memory_.Clear();
  }

 private:
  static constexpr int kStale = ACL_ERROR_RT_INVALID_HANDLE;

  static Status Recorded(Rule rule, Status status) {
    if (!status.ok()) Record(rule, status.message);
    return status;
  }

  // Returns how many objects it ends.
  template <typename T>
  size_t End(Registry<T>& registry) {
    const std::vector<const void*> handles = registry.RemoveAll();
    ended_.insert(handles.begin(), handles.end());
    return handles.size();
  }

  template <typename T>
  Status CheckHandle(const Registry<T>& registry, const void* handle) const {
    if (ended_.count(handle) == 0) return registry.Check(static_cast<const T*>(handle), kStale);
    return Fail(ACL_ERROR_RT_STREAM_CONTEXT, handle, " belongs to a context that ended");
  }

  Stream& DefaultStream() {
    if (!default_stream_) {
      default_stream_ = std::make_unique<Stream>();
      streams_.Enter(*default_stream_);
    }
    return *default_stream_;
  }

  template <typename Body>
  Status OnStream(aclrtStream handle, Body&& body) {
    const std::lock_guard lock(mutex_);
    if (handle == nullptr) return body(DefaultStream());
    Status status = CheckHandle(stream_handles_, handle);
    return status.ok() ? body(*static_cast<Stream*>(handle)) : status;
  }

  template <typename Body>
  Status OnEvent(aclrtEvent handle, Body&& body) {
    const std::lock_guard lock(mutex_);
    Status status = CheckHandle(event_handles_, handle);
    return status.ok() ? body(*static_cast<Event*>(handle)) : status;
  }

  template <typename Body>
  Status OnBoth(aclrtEvent event_handle, aclrtStream stream_handle, Body&& body) {
    return OnStream(stream_handle, [&](Stream& stream) {
      Status status = CheckHandle(event_handles_, event_handle);
      return status.ok() ? body(*static_cast<Event*>(event_handle), stream) : status;
    });
  }

  // A kernel finds out only when it runs.
  Status CheckAddresses(const Work& work) const {
    std::byte* bytes = nullptr;
    for (size_t use = 0; use < work.uses.size() && !work.is_kernel; ++use) {
      Status status = Recorded(Rule::kBadAddress, memory_.Reach(work.uses[use], &bytes));
      if (!status.ok()) return status;
    }
    return {};
  }

  // Streams do not copy from or to memory that is not pinned: what they read of it is taken now, and for what they
  // write there, for which this returns true, the caller has to wait.
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

  // Poisons what the work will write: where it is queued, if nothing queued before still uses it.
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
      Status status = Recorded(Rule::kBadAddress, memory_.Reach(work.uses[use], &addresses[use]));
      if (!status.ok())
        return {work.is_kernel ? ACL_ERROR_RT_AICORE_EXCEPTION : status.code, std::move(status.message)};
    }
    Poison(work, false);
    return work.run(addresses);
  }

  std::mutex mutex_;
  Memory memory_;
  Streams streams_{[this](const Work& work) { return Run(work); }};
  std::unique_ptr<Stream> default_stream_;
  Registry<Stream> stream_handles_{Kind::kStream};
  Registry<Event> event_handles_{Kind::kEvent};
  std::set<const void*> ended_;  // handles of streams and events whose context ended
};

}  // namespace

Hardware& StrictHardware() {
  static auto* const hardware = new Strict;  // never destroyed: calls may come until the very end
  return *hardware;
}

}  // namespace poolgrad::host
