// SPDX-License-Identifier: Apache-2.0

// A pool of objects, each used by one thread at a time.
#ifndef POOLGRAD_ACLNN_IDLE_POOL_H_
#define POOLGRAD_ACLNN_IDLE_POOL_H_

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "aclnn/backend.h"

namespace poolgrad::aclnn {

// Holds as many T(backend) as were used at the same time. Thread-safe. T::Finish() waits for the work that uses the
// object, and returns whether it ended.
template <typename T>
class IdlePool {
 public:
  explicit IdlePool(const Backend& backend) : backend_(backend) {}

  // Calls use(T&) on the calling thread. If it throws, the object is not used again, because its state is unknown. It
  // is destroyed, or held until Clear if work still uses it.
  template <typename Use>
  void With(Use&& use) {
    std::unique_ptr<T> object = Take();
    try {
      use(*object);
    } catch (...) {
      if (!object->Finish()) Add(broken_, std::move(object));
      throw;
    }
    Add(idle_, std::move(object));
  }

  // Destroys all objects.
  void Clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.clear();
    broken_.clear();
  }

  // As Clear, after the work of all objects ended.
  template <typename Proof>
  void Clear(const Proof& ended) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto* objects : {&idle_, &broken_}) {
      for (const std::unique_ptr<T>& object : *objects) object->Finish(ended);
    }
    idle_.clear();
    broken_.clear();
  }

 private:
  using Objects = std::vector<std::unique_ptr<T>>;

  void Add(Objects& objects, std::unique_ptr<T> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    objects.push_back(std::move(object));
  }

  std::unique_ptr<T> Take() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<T> object = std::move(idle_.back());
        idle_.pop_back();
        return object;
      }
    }
    return std::make_unique<T>(backend_);
  }

  const Backend& backend_;
  std::mutex mutex_;
  Objects idle_;
  Objects broken_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_IDLE_POOL_H_
