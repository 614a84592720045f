// SPDX-License-Identifier: Apache-2.0

// The streams of a session whose tensors are in device memory.
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
#include "aclnn/work.h"

namespace poolgrad::aclnn {

// A stream that several threads use. Work runs in the order in which the threads start it, so memory can be reused as
// soon as its last use is started.
//
// If another provider of the session creates streams, onnxruntime gives one of them to each Run. A function with a
// parameter `given` works on that stream, and on the session's own stream if `given` is null. The provider that created
// a given stream waits for it, and replaces it after an error.
//
// After an error a stream is unusable and the work of all threads on it is lost. Every use that began before the error
// was seen may have lost work: its next call fails. A use that begins later waits until those uses have ended, and then
// works on a new stream, once the work of the old one has ended. So nothing computed from lost results reaches the new
// stream, and the two streams never use the same memory at once. onnxruntime does not end every Run that failed, so
// BeginUse waits for at most kLongestWait.
class Stream {
 public:
  explicit Stream(const Backend& backend);
  ~Stream();  // waits for the stream, and frees only memory whose use has ended

  static constexpr std::chrono::seconds kLongestWait{10};

  // A use lasts from BeginUse to EndUse on the same thread. EndUse waits for the stream, and throws std::runtime_error
  // if an error occurred during the use. If the stream is in error, BeginUse waits for the other uses, and throws if
  // the work on the stream cannot be ended. If BeginUse throws, there is no use to end. Within a use it does nothing:
  // onnxruntime-cann begins a Run several times and ends it once.
  void BeginUse();
  void EndUse();

  // Waits for the work started so far on the session's own stream. Throws std::runtime_error if it failed, or if the
  // wait itself failed: the stream is then in error, and work may still run.
  WorkEnded Synchronize();

  // As Synchronize. But if the stream is in error, ends its work: by a second wait or by destroying the stream. Throws
  // std::runtime_error only if work may still run.
  WorkEnded Settle();

  // Waits for the work started so far on all streams of the device. Throws as Synchronize does.
  WorkEnded SynchronizeDevice() const;

  // As SynchronizeDevice; if the wait fails, settles the session's own stream and waits once more.
  WorkEnded SettleDevice();

  // Calls start(aclrtStream, DeviceBuffer& workspace), which enqueues work and does not wait for it. One call at a
  // time.
  template <typename Start>
  void Submit(aclrtStream given, Start&& start) {
    const DeviceScope scope(backend_);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (given != nullptr) {
      start(given, WorkspaceOf(given));
    } else {
      RequireIntact();
      start(handle_.get(), workspace_);
    }
  }

  // See PinnedCopier.
  void CopyToDevice(void* to, const void* from, std::size_t bytes, aclrtStream given);
  void CopyToHost(void* to, const void* from, std::size_t bytes, aclrtStream given);
  void Read(const void* from, std::size_t bytes, aclrtStream given, const PinnedCopier::Consumer& consume);

  // These do not wait.
  void CopyOnDevice(void* to, const void* from, std::size_t bytes, aclrtStream given);
  void Clear(void* memory, std::size_t bytes, aclrtStream given);

  const Backend& backend() const { return backend_; }

  // Whether anything uses the session's tensors on given streams.
  bool works_on_given_streams() const { return works_on_given_streams_; }
  void ExpectGivenStreams() {
    if (!works_on_given_streams_) works_on_given_streams_ = true;  // reading first keeps the cache line shared
  }

 private:
  // A stream of onnxruntime's, with the workspace of the calls on it.
  struct Given {
    Given(const Backend& backend, aclrtStream stream) : handle(NotOwned(stream)), workspace(backend, handle) {}

    const StreamHandle handle;
    DeviceBuffer workspace;
  };

  static StreamHandle NotOwned(aclrtStream stream) { return StreamHandle(StreamHandle(), stream); }

  void SettleQuietly() noexcept;

  // `given`, or the session's stream if it is null. Throws std::runtime_error if the session's stream is in error.
  StreamHandle HandleFor(aclrtStream given);

  // These need the lock.
  DeviceBuffer& WorkspaceOf(aclrtStream given);
  void RequireIntact() const;
  void RemoveUser();
  WorkEnded End(std::unique_lock<std::mutex>& lock);
  void Replace(std::unique_lock<std::mutex>& lock);

  const Backend& backend_;
  std::optional<ClosingScope> closing_;  // set by the destructor; outlives the members below
  std::mutex mutex_;
  DeviceBuffer workspace_;
  StreamHandle handle_;
  IdlePool<PinnedCopier> copiers_;
  std::map<aclrtStream, Given> given_;
  std::atomic<bool> works_on_given_streams_{false};
  std::vector<std::thread::id> users_;  // the threads in a use
  std::condition_variable unused_;      // notified when the last use ends
  std::string error_;                   // message of the error; empty if there is none
  std::optional<WorkEnded> ended_;      // set when the stream in error has been ended; handle_ is then null
};

// A use of a stream. The destructor ends it if an exception is thrown.
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
