#include "aclnn/stream_set.h"

#include <algorithm>
#include <exception>

namespace poolgrad::aclnn {

std::shared_ptr<Stream> StreamSet::Create(const Backend& backend) {
  auto stream = std::make_shared<Stream>(backend);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto is_gone = [](const std::weak_ptr<Stream>& entry) { return entry.expired(); };
  streams_.erase(std::remove_if(streams_.begin(), streams_.end(), is_gone), streams_.end());
  streams_.push_back(stream);
  return stream;
}

void StreamSet::Synchronize() {
  for (const std::shared_ptr<Stream>& stream : Streams()) {
    try {
      stream->Synchronize();
    } catch (const std::exception&) {
      // Not an error of who waits.
    }
  }
}

std::vector<std::shared_ptr<Stream>> StreamSet::Streams() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<Stream>> streams;
  for (const std::weak_ptr<Stream>& entry : streams_) {
    if (std::shared_ptr<Stream> stream = entry.lock()) streams.push_back(std::move(stream));
  }
  return streams;
}

}  // namespace poolgrad::aclnn
