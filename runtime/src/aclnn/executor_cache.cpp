// SPDX-License-Identifier: Apache-2.0

#include "aclnn/executor_cache.h"

#include <algorithm>
#include <utility>

namespace poolgrad::aclnn {
namespace {

// Per node: enough for several sizes in several threads, and a bound where sizes never repeat.
constexpr std::size_t kMaxIdle = 32;

// Whether one executor can run both calls of a node. The function determines the number of operands and their ranks.
bool HaveSameSizes(const Call& a, const Call& b) {
  const auto is_same = [](const TensorView& x, const TensorView& y) { return x.type == y.type && x.dims == y.dims; };
  return &a.function == &b.function &&
         std::equal(a.operands.begin(), a.operands.begin() + a.function.operands.size(), b.operands.begin(), is_same);
}

}  // namespace

ExecutorCache::ExecutorCache(const Backend& backend, bool deterministic)
    : backend_(backend), deterministic_(deterministic) {
  idle_.reserve(kMaxIdle);
}

void ExecutorCache::Enqueue(const Call& call, DeviceBuffer& workspace, aclrtStream stream) {
  std::unique_ptr<Item> item = Take(call);
  const bool is_first = item == nullptr;
  if (is_first) item = std::unique_ptr<Item>(new Item{call, nullptr});
  std::unique_ptr<CachedExecutor>& executor = item->executor;
  if (executor == nullptr) {
    executor =
        std::make_unique<CachedExecutor>(backend_, call, ExecutorOptions{deterministic_, /*repeatable=*/is_first});
  }
  executor->Enqueue(call, workspace.Reserve(executor->workspace_size()), stream);
  if (!executor->repeatable()) executor.reset();
  Return(std::move(item));
}

// Null if there is none. Of several it returns the most recently used, so that the others are dropped when fewer
// threads run.
std::unique_ptr<ExecutorCache::Item> ExecutorCache::Take(const Call& call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found =
      std::find_if(idle_.rbegin(), idle_.rend(), [&](const auto& item) { return HaveSameSizes(item->call, call); });
  if (found == idle_.rend()) return nullptr;
  std::unique_ptr<Item> item = std::move(*found);
  idle_.erase(std::next(found).base());
  return item;
}

void ExecutorCache::Return(std::unique_ptr<Item> item) {
  std::unique_ptr<Item> dropped;  // declared before the lock, so destroyed after it is released
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.size() == kMaxIdle) {
    dropped = std::move(idle_.front());
    idle_.erase(idle_.begin());
  }
  idle_.push_back(std::move(item));
}

}  // namespace poolgrad::aclnn
