// SPDX-License-Identifier: Apache-2.0

#include "aclnn/stream.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "aclnn/failure.h"

namespace poolgrad::aclnn {

StreamHandle CreateStream(const Api& api) {
  aclrtStream stream = nullptr;
  Check(api, "aclrtCreateStream", api.aclrtCreateStream(&stream));
  return StreamHandle(stream, Released(api, api.aclrtDestroyStream));
}

Stream::Stream(const Backend& backend) : backend_(backend), workspace_(backend, handle_), copiers_(backend) {
  const DeviceScope scope(backend);
  handle_ = CreateStream(backend.api());
}

Stream::~Stream() {
  try {
    closing_.emplace(backend_);
    Synchronize();
  } catch (...) {
    // The results and the stream are not used again.
  }
  if (!works_on_given_streams_) return;
  try {
    // Their workspaces are freed next. The streams themselves may no longer exist, so this waits for the device.
    SynchronizeDevice();
  } catch (...) {
    // As above.
  }
}

void Stream::BeginUse() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (std::find(users_.begin(), users_.end(), std::this_thread::get_id()) != users_.end()) return;
  unused_.wait_for(lock, kLongestWait, [this] { return error_.empty() || users_.empty(); });
  if (!error_.empty()) {
    Replace();
    users_.clear();
  }
  users_.push_back(std::this_thread::get_id());
}

void Stream::EndUse() {
  try {
    Synchronize();
  } catch (...) {
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

void Stream::Synchronize() {
  const DeviceScope scope(backend_);
  const StreamHandle handle = HandleFor(nullptr);
  try {
    Check(backend_.api(), "aclrtSynchronizeStream", backend_.api().aclrtSynchronizeStream(handle.get()));
  } catch (const std::exception& error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (handle == handle_) error_ = error.what();  // otherwise the stream was replaced meanwhile
    throw;
  }
}

void Stream::SynchronizeDevice() const {
  const DeviceScope scope(backend_);
  Check(backend_.api(), "aclrtSynchronizeDevice", backend_.api().aclrtSynchronizeDevice());
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

void Stream::Replace() {
  const DeviceScope scope(backend_);
  copiers_.Clear();
  // A stream in error has dropped its work. If only a wait failed, the work must finish before its memory is reused.
  Tolerate(backend_.api(), backend_.api().aclrtSynchronizeStream(handle_.get()));
  handle_ = CreateStream(backend_.api());
  error_.clear();
}

}  // namespace poolgrad::aclnn
