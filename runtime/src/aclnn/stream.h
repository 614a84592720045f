// The streams on which a session works in device memory.
#ifndef POOLGRAD_ACLNN_STREAM_H_
#define POOLGRAD_ACLNN_STREAM_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "aclnn/backend.h"
#include "aclnn/device_buffer.h"
#include "aclnn/device_scope.h"
#include "aclnn/idle_pool.h"
#include "aclnn/pinned_copier.h"

namespace poolgrad::aclnn {

// Throws std::runtime_error.
StreamHandle CreateStream(const Api& api);

// A stream that several threads use. Whatever one of them starts comes after what any of them started before, so that
// memory may be used again as soon as its last use is started.
//
// Where another provider of the session brings streams, onnxruntime gives one of them to each Run: a function with a
// parameter `given` works on that stream then, in its order, and on the session's own where `given` is null. Who made
// a given stream waits for it, and replaces it after an error.
//
// A device leaves a stream that met an error unusable, and what was started on it undone, whoever started it. Every use
// that began before the error was seen may have lost work: its next call fails. A use that begins later waits until
// those have ended, and then works on a new stream. So nothing that was computed from lost results reaches that stream,
// and no memory is used by both. onnxruntime does not end every Run that failed, so none is waited for longer than
// kLongestWait.
class Stream {
 public:
  explicit Stream(const Backend& backend);
  ~Stream();  // waits for the stream

  static constexpr std::chrono::seconds kLongestWait{10};

  // A use lasts from BeginUse to EndUse on the same thread, which waits for the stream and throws std::runtime_error if
  // the device met an error meanwhile. BeginUse waits for the other uses where the stream is in error. Where it throws
  // there is no use to end. Within a use it does nothing: onnxruntime-cann begins a Run several times and ends it once.
  void BeginUse();
  void EndUse();

  // Waits for what was started so far. Throws std::runtime_error if the device met an error.
  void Synchronize();

  // Waits for what was started so far on any stream of the device. Throws as Synchronize does.
  void SynchronizeDevice() const;

  // Calls start(aclrtStream, DeviceBuffer& workspace), which puts work on the stream and does not wait for it.
  template <typename Start>
  void Submit(aclrtStream given, Start&& start) {
    const DeviceScope scope(backend_);
    if (given != nullptr) return GivenOf(given).Submit(start);
    const std::lock_guard<std::mutex> lock(mutex_);
    RequireIntact();
    start(handle_.get(), workspace_);
  }

  // As of PinnedCopier.
  void CopyToDevice(void* to, const void* from, std::size_t bytes, aclrtStream given);
  void CopyToHost(void* to, const void* from, std::size_t bytes, aclrtStream given);
  void Read(const void* from, std::size_t bytes, aclrtStream given, const PinnedCopier::Consumer& consume);

  // These do not wait.
  void CopyOnDevice(void* to, const void* from, std::size_t bytes, aclrtStream given);
  void Clear(void* memory, std::size_t bytes, aclrtStream given);

  const Backend& backend() const { return backend_; }

  // Whether the session's tensors are used on given streams, by whomever.
  bool works_on_given_streams() const { return works_on_given_streams_; }
  void ExpectGivenStreams() {
    if (!works_on_given_streams_) works_on_given_streams_ = true;  // each Run comes by
  }

 private:
  // A stream that onnxruntime gave, with the workspace of the calls on it.
  class Given {
   public:
    Given(const Backend& backend, aclrtStream stream) : handle_(StreamHandle(), stream), workspace_(backend, handle_) {}

    template <typename Start>
    void Submit(Start&& start) {
      const std::lock_guard<std::mutex> lock(mutex_);
      start(handle_.get(), workspace_);
    }

   private:
    std::mutex mutex_;
    const StreamHandle handle_;  // does not own it
    DeviceBuffer workspace_;
  };

  Given& GivenOf(aclrtStream stream);
  StreamHandle Intact(aclrtStream given = nullptr);

  // The caller holds the lock.
  void RequireIntact() const;
  void RemoveUser();
  void Replace();

  const Backend& backend_;
  std::optional<DeviceScope> closing_;  // from the destructor's call until the members below are gone
  std::mutex mutex_;
  DeviceBuffer workspace_;
  StreamHandle handle_;
  IdlePool<PinnedCopier> copiers_;
  std::map<aclrtStream, Given> given_;
  std::atomic<bool> works_on_given_streams_{false};
  std::vector<std::thread::id> users_;  // the threads in a use
  std::condition_variable unused_;      // there is none any more
  std::string error_;                   // what the device met; empty if nothing
};

// A use of a stream, ended also where an exception passes.
class StreamUse {
 public:
  explicit StreamUse(Stream& stream) : stream_(&stream) { stream.BeginUse(); }
  ~StreamUse();
  StreamUse(const StreamUse&) = delete;

  // Throws what EndUse throws.
  void End();

 private:
  Stream* stream_;  // null once ended
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_STREAM_H_
