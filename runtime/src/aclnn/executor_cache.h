// SPDX-License-Identifier: Apache-2.0

// The executors of one node, cached from one Run to the next.
#ifndef POOLGRAD_ACLNN_EXECUTOR_CACHE_H_
#define POOLGRAD_ACLNN_EXECUTOR_CACHE_H_

#include <memory>
#include <mutex>
#include <vector>

#include "aclnn/cached_executor.h"
#include "aclnn/device_buffer.h"

namespace poolgrad::aclnn {

// Enqueues the calls of one node, whose attributes never change, and keeps the repeatable executors for later calls of
// the same types and sizes. Thread-safe: concurrent calls use different executors.
class ExecutorCache {
 public:
  // `deterministic`: whether the node's sums must not depend on scheduling.
  ExecutorCache(const Backend& backend, bool deterministic);

  // Puts a call on the stream and returns before the result is computed. The calling thread must have a current device.
  // The operands and the memory that `workspace` returns must live until the stream has finished. Drops the executor of
  // a call that failed. Allocates nothing if the cache has an executor for the call. Throws std::runtime_error.
  void Enqueue(const Call& call, DeviceBuffer& workspace, aclrtStream stream);

 private:
  // An idle executor, which can run calls of the types and sizes of `call`, whose addresses mean nothing. `executor` is
  // null if executors of such calls cannot be repeated.
  struct Item {
    const Call call;
    std::unique_ptr<CachedExecutor> executor;
  };

  std::unique_ptr<Item> Take(const Call& call);
  void Return(std::unique_ptr<Item> item);

  const Backend& backend_;
  const bool deterministic_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Item>> idle_;  // the least recently used first
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_EXECUTOR_CACHE_H_
