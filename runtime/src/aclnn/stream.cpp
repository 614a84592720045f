// SPDX-License-Identifier: Apache-2.0

#include "aclnn/stream.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "aclnn/failure.h"

namespace poolgrad::aclnn {
namespace {

constexpr std::chrono::milliseconds kPoll{1};

}  // namespace

Stream::Stream(const Backend& backend) : backend_(backend), workspace_(backend, handle_), copiers_(backend) {
  const DeviceScope scope(backend);
  handle_ = CreateStream(backend);
}

Stream::~Stream() {
  closing_.emplace(backend_);
  if (!closing_->is_current()) return;
  if (!ended_) ended_ = EndStream(backend_.api(), handle_);
  if (ended_) workspace_.Free(*ended_);
  if (!works_on_given_streams_) {
    if (ended_) copiers_.Clear(*ended_);
    return;
  }
  try {
    // The streams themselves may no longer exist, so this waits for the device.
    const WorkEnded ended = SettleDevice();
    for (auto& [stream, given] : given_) given.workspace.Free(ended);
    copiers_.Clear(ended);
  } catch (...) {
    // Work on given streams may still use their workspaces, which are kept.
  }
}

void Stream::BeginUse() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (std::find(users_.begin(), users_.end(), std::this_thread::get_id()) != users_.end()) return;
  unused_.wait_for(lock, kLongestWait, [this] { return error_.empty() || users_.empty(); });
  if (!error_.empty()) {
    Replace(lock);
  }
  users_.push_back(std::this_thread::get_id());
}

void Stream::EndUse() {
  try {
    Synchronize();
  } catch (...) {
    SettleQuietly();
    const std::lock_guard<std::mutex> lock(mutex_);
    RemoveUser();
    throw;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  RemoveUser();
  RequireIntact();  // the error may have been thrown in another thread
}

void Stream::RemoveUser() {
  users_.erase(std::remove(users_.begin(), users_.end(), std::this_thread::get_id()), users_.end());
  if (users_.empty()) unused_.notify_all();
}

WorkEnded Stream::Synchronize() {
  const DeviceScope scope(backend_);
  const StreamHandle handle = HandleFor(nullptr);
  try {
    return WaitForStream(backend_.api(), handle.get());
  } catch (const std::exception& error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (handle == handle_) error_ = error.what();  // otherwise the stream was replaced meanwhile
    throw;
  }
}

WorkEnded Stream::Settle() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return *ended_;
  }
  try {
    return Synchronize();
  } catch (const std::exception&) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (error_.empty()) throw;  // there was no wait
    return End(lock);
  }
}

// After this, what the caller of a failed Run does with its memory meets no work of that Run, if that is possible.
void Stream::SettleQuietly() noexcept {
  try {
    Settle();
  } catch (...) {
    // The error that is thrown comes first. Whatever needs the work ended calls Settle itself.
  }
}

// Ends the stream in error, once the waits of other threads for it have returned. Throws std::runtime_error.
WorkEnded Stream::End(std::unique_lock<std::mutex>& lock) {
  const DeviceScope scope(backend_);
  const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
  const auto is_shared = [this] { return !error_.empty() && !ended_ && handle_.use_count() > 1; };
  while (is_shared() && std::chrono::steady_clock::now() < deadline) unused_.wait_for(lock, kPoll);
  if (error_.empty()) return WorkEnded::NothingStarted();  // since another thread replaced the stream
  if (!ended_ && !is_shared()) ended_ = EndStream(backend_.api(), handle_);
  if (!ended_) throw std::runtime_error(error_);
  return *ended_;
}

WorkEnded Stream::SettleDevice() {
  try {
    return SynchronizeDevice();
  } catch (const std::exception&) {
    SettleQuietly();  // a stream in error fails the wait for the device
    return SynchronizeDevice();
  }
}

WorkEnded Stream::SynchronizeDevice() const {
  const DeviceScope scope(backend_);
  return WaitForDevice(backend_.api());
}

void Stream::CopyToDevice(void* to, const void* from, std::size_t bytes, aclrtStream given) {
  const DeviceScope scope(backend_);
  const StreamHandle handle = HandleFor(given);
  copiers_.With([&](PinnedCopier& copier) { copier.CopyToDevice(to, from, bytes, handle.get()); });
}

void Stream::CopyToHost(void* to, const void* from, std::size_t bytes, aclrtStream given) {
  const DeviceScope scope(backend_);
  const StreamHandle handle = HandleFor(given);
  copiers_.With([&](PinnedCopier& copier) { copier.CopyToHost(to, from, bytes, handle.get()); });
}

void Stream::Read(const void* from, std::size_t bytes, aclrtStream given, const PinnedCopier::Consumer& consume) {
  const DeviceScope scope(backend_);
  const StreamHandle handle = HandleFor(given);
  copiers_.With([&](PinnedCopier& copier) { copier.Read(from, bytes, handle.get(), consume); });
}

void Stream::CopyOnDevice(void* to, const void* from, std::size_t bytes, aclrtStream given) {
  const DeviceScope scope(backend_);
  const StreamHandle handle = HandleFor(given);
  const Api& api = backend_.api();
  Check(api, "aclrtMemcpyAsync",
        api.aclrtMemcpyAsync(to, bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, handle.get()));
}

void Stream::Clear(void* memory, std::size_t bytes, aclrtStream given) {
  const DeviceScope scope(backend_);
  const StreamHandle handle = HandleFor(given);
  const Api& api = backend_.api();
  Check(api, "aclrtMemsetAsync", api.aclrtMemsetAsync(memory, bytes, 0, bytes, handle.get()));
}

DeviceBuffer& Stream::WorkspaceOf(aclrtStream given) {
  ExpectGivenStreams();
  return given_.try_emplace(given, backend_, given).first->second.workspace;
}

StreamHandle Stream::HandleFor(aclrtStream given) {
  if (given != nullptr) {
    ExpectGivenStreams();
    return NotOwned(given);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  RequireIntact();
  return handle_;
}

void Stream::RequireIntact() const {
  if (!error_.empty()) throw std::runtime_error(error_);
}

StreamUse::~StreamUse() {
  try {
    End();
  } catch (...) {
    // The exception that unwinds the stack came first.
  }
}

void StreamUse::End() {
  if (stream_ != nullptr) std::exchange(stream_, nullptr)->EndUse();
}

void Stream::Replace(std::unique_lock<std::mutex>& lock) {
  const DeviceScope scope(backend_);
  const WorkEnded ended = End(lock);
  if (error_.empty()) return;  // another thread replaced it
  if (works_on_given_streams_) {
    copiers_.Clear();
  } else {
    copiers_.Clear(ended);
  }
  handle_ = CreateStream(backend_);
  ended_.reset();
  error_.clear();
  users_.clear();
}

}  // namespace poolgrad::aclnn
