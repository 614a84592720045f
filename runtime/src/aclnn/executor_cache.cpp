// SPDX-License-Identifier: Apache-2.0

#include "aclnn/executor_cache.h"

#include <algorithm>
#include <utility>

namespace poolgrad::aclnn {
namespace {

// Per node: enough for several sizes in several threads, and a bound where sizes never repeat.
constexpr std::size_t kMaxIdle = 32;

}  // namespace

ExecutorCache::Item::Item(Entry entry, const Operands& operands) : entry(entry) {
  for (std::size_t i = 0; i < operands.count; ++i) {
    const TensorView& view = operands.views[i];
    types[i] = view.type;
    std::copy(view.dims, view.dims + view.rank, dims[i].begin());
  }
}

// The entry determines the number of operands and their ranks.
bool ExecutorCache::Item::Matches(Entry other_entry, const Operands& operands) const {
  if (entry != other_entry) return false;
  for (std::size_t i = 0; i < operands.count; ++i) {
    const TensorView& view = operands.views[i];
    if (types[i] != view.type || !std::equal(view.dims, view.dims + view.rank, dims[i].begin())) return false;
  }
  return true;
}

ExecutorCache::ExecutorCache(const Backend& backend, bool deterministic)
    : backend_(backend), deterministic_(deterministic) {
  idle_.reserve(kMaxIdle);
}

template <typename Call>
void ExecutorCache::Enqueue(const Call& call, DeviceBuffer& workspace, aclrtStream stream) {
  const Operands operands = OperandsOf(call);
  std::unique_ptr<Item> item = Take(call.entry, operands);
  const bool is_first = item == nullptr;
  if (is_first) item = std::make_unique<Item>(call.entry, operands);
  std::unique_ptr<CachedExecutor>& executor = item->executor;
  if (executor == nullptr) {
    executor =
        std::make_unique<CachedExecutor>(backend_, call, ExecutorOptions{deterministic_, /*repeatable=*/is_first});
  }
  executor->Enqueue(operands, workspace.Reserve(executor->workspace_size()), stream);
  if (!executor->repeatable()) executor.reset();
  Return(std::move(item));
}

// Null if there is none. Of several it returns the most recently used, so that the others are dropped when fewer
// threads run.
std::unique_ptr<ExecutorCache::Item> ExecutorCache::Take(Entry entry, const Operands& operands) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found =
      std::find_if(idle_.rbegin(), idle_.rend(), [&](const auto& item) { return item->Matches(entry, operands); });
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

template void ExecutorCache::Enqueue(const ForwardCall& call, DeviceBuffer& workspace, aclrtStream stream);
template void ExecutorCache::Enqueue(const BackwardCall& call, DeviceBuffer& workspace, aclrtStream stream);

}  // namespace poolgrad::aclnn
