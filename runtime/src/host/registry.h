// SPDX-License-Identifier: Apache-2.0

// The objects behind the handles of one kind.
#ifndef POOLGRAD_HOST_REGISTRY_H_
#define POOLGRAD_HOST_REGISTRY_H_

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "host/live.h"
#include "host/mode.h"
#include "host/violations.h"

namespace poolgrad::host {

// Lenient: handles are not checked, and objects only counted. Strict: every handle is looked up before it is
// dereferenced, and the address of a destroyed object is not reused for a while, so that a stale handle never names a
// new object.
template <typename T>
class Registry {
 public:
  explicit Registry(Kind kind) : kind_(kind) {}

  T* Add(std::unique_ptr<T> object) {
    T* handle = object.get();
    if (IsStrict()) {
      const std::lock_guard lock(mutex_);
      alive_.emplace(handle, std::move(object));
    } else {
      object.release();
    }
    ++LiveCount(kind_);
    return handle;
  }

  bool IsAlive(const T* handle) const {
    if (!IsStrict()) return true;
    const std::lock_guard lock(mutex_);
    return alive_.count(handle) != 0;
  }

  // A violation, with this code, if the handle is not alive.
  Status Check(const T* handle, int code) const { return IsAlive(handle) ? Status{} : Stale(handle, code); }

  // As Check; destroys the object if the handle is alive.
  Status Remove(const T* handle, int code) {
    if (!IsStrict()) {
      delete handle;
    } else if (!Retire(handle)) {
      return Stale(handle, code);
    }
    --LiveCount(kind_);
    return {};
  }

  // In strict mode, destroys all live objects. Returns their handles, which must not be dereferenced.
  std::vector<const void*> RemoveAll() {
    return RemoveWhere([](const T&) { return true; });
  }

  // The same for the objects that satisfy the condition.
  template <typename Condition>
  std::vector<const void*> RemoveWhere(Condition&& condition) {
    std::vector<const void*> handles;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [handle, object] : alive_) {
        if (condition(*object)) handles.push_back(handle);
      }
    }
    for (const void* handle : handles) Remove(static_cast<const T*>(handle), ACL_SUCCESS);
    return handles;
  }

 private:
  static constexpr size_t kRetired = 4096;

  bool Retire(const T* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = alive_.find(handle);
    if (found == alive_.end()) return false;
    retired_.push_back(std::move(found->second));
    alive_.erase(found);
    if (retired_.size() > kRetired) retired_.pop_front();
    return true;
  }

  Status Stale(const T* handle, int code) const {
    return Violation(Rule::kStaleHandle, code, KindName(kind_), ' ', static_cast<const void*>(handle),
                     " is none of this library, or was destroyed before");
  }

  const Kind kind_;
  mutable std::mutex mutex_;
  std::unordered_map<const T*, std::unique_ptr<T>> alive_;
  std::deque<std::unique_ptr<T>> retired_;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_REGISTRY_H_
