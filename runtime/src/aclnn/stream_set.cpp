// SPDX-License-Identifier: Apache-2.0

#include "aclnn/stream_set.h"

#include <exception>
#include <iterator>

namespace poolgrad::aclnn {

std::shared_ptr<Stream> StreamSet::Create(const Backend& backend) {
  auto stream = std::make_shared<Stream>(backend);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto entry = streams_.begin(); entry != streams_.end();) {
    entry = entry->second.expired() ? streams_.erase(entry) : std::next(entry);
  }
  streams_.emplace(++last_, stream);
  return stream;
}

WorkEnded StreamSet::Synchronize(const Stream* except) {
  const std::shared_ptr<Stream> mixed = FindWithGivenStreams();
  if (mixed != nullptr) {
    try {
      return mixed->SynchronizeDevice();
    } catch (const std::exception&) {
      // A stream in error fails this wait for all. Those of the set are ended below, before it is repeated.
    }
  }
  WorkEnded ended = WorkEnded::NothingStarted();
  std::uint64_t number = 0;
  while (const std::shared_ptr<Stream> stream = NextAfter(number)) {
    if (stream.get() != except) ended = stream->Settle();
  }
  return mixed != nullptr ? mixed->SynchronizeDevice() : ended;
}

std::shared_ptr<Stream> StreamSet::FindWithGivenStreams() {
  std::uint64_t number = 0;
  while (std::shared_ptr<Stream> stream = NextAfter(number)) {
    if (stream->works_on_given_streams()) return stream;
  }
  return nullptr;
}

// The first stream with a larger number, which `number` is set to, or null.
std::shared_ptr<Stream> StreamSet::NextAfter(std::uint64_t& number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto entry = streams_.upper_bound(number); entry != streams_.end(); ++entry) {
    number = entry->first;
    if (std::shared_ptr<Stream> stream = entry->second.lock()) return stream;
  }
  return nullptr;
}

}  // namespace poolgrad::aclnn
