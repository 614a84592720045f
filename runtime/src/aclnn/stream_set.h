// The streams of all sessions in device memory.
#ifndef POOLGRAD_ACLNN_STREAM_SET_H_
#define POOLGRAD_ACLNN_STREAM_SET_H_

#include <memory>
#include <mutex>
#include <vector>

#include "aclnn/stream.h"

namespace poolgrad::aclnn {

// Thread-safe.
class StreamSet {
 public:
  // A new stream, in the set as long as it lives. Throws std::runtime_error.
  std::shared_ptr<Stream> Create(const Backend& backend);

  // Waits for what was started so far on any stream. An error of the device stays with the stream that met it, whose
  // users are told.
  void Synchronize();

 private:
  std::vector<std::shared_ptr<Stream>> Streams();

  std::mutex mutex_;
  std::vector<std::weak_ptr<Stream>> streams_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_STREAM_SET_H_
