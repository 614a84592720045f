// SPDX-License-Identifier: Apache-2.0

// The streams that work on one device's memory: of the sessions, and of copies outside of them.
#ifndef POOLGRAD_ACLNN_STREAM_SET_H_
#define POOLGRAD_ACLNN_STREAM_SET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "aclnn/stream.h"

namespace poolgrad::aclnn {

// Thread-safe.
class StreamSet {
 public:
  // Creates a stream, which stays in the set until it is destroyed. Throws std::runtime_error.
  std::shared_ptr<Stream> Create(const Backend& backend);

  // Waits for the work started so far on all streams but `except`, and for the device if a session works on given
  // streams. The error of a stream whose work ended is reported to its users alone. Throws std::runtime_error if work
  // may still run.
  WorkEnded Synchronize(const Stream* except = nullptr);

 private:
  using Streams = std::map<std::uint64_t, std::weak_ptr<Stream>>;  // by number, in the order of creation

  std::shared_ptr<Stream> NextAfter(std::uint64_t& number);
  std::shared_ptr<Stream> FindWithGivenStreams();

  std::mutex mutex_;
  Streams streams_;
  std::uint64_t last_ = 0;  // the largest number
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_STREAM_SET_H_
