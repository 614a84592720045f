// The streams of all sessions in device memory.
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
  // A new stream, in the set as long as it lives. Throws std::runtime_error.
  std::shared_ptr<Stream> Create(const Backend& backend);

  // Waits for what was started so far on any stream, and for the device where sessions work on streams that onnxruntime
  // gave them. An error of the device stays with the stream that met it, whose users are told.
  void Synchronize();

 private:
  using Streams = std::map<std::uint64_t, std::weak_ptr<Stream>>;  // by number, in the order of their making

  std::shared_ptr<Stream> NextAfter(std::uint64_t& number);

  std::mutex mutex_;
  Streams streams_;
  std::uint64_t last_ = 0;  // the newest number
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_STREAM_SET_H_
