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

// Holds as many T(backend) as were used at the same time. Thread-safe.
template <typename T>
class IdlePool {
 public:
  explicit IdlePool(const Backend& backend) : backend_(backend) {}

  // Calls use(T&) on the calling thread. If it throws, the object is destroyed: its state is unknown.
  template <typename Use>
  void With(Use&& use) {
    std::unique_ptr<T> object = Take();
    use(*object);
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(object));
  }

  void Clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.clear();
  }

 private:
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
  std::vector<std::unique_ptr<T>> idle_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_IDLE_POOL_H_
