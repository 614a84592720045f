#include "aclnn/plan_cache.h"

#include <algorithm>
#include <utility>

namespace poolgrad::aclnn {
namespace {

// Of one node: the sizes it sees times the threads that run it at once, without growing where sizes never repeat.
constexpr std::size_t kMaxKept = 32;

}  // namespace

PlanCache::Kept::Kept(Entry entry, const Operands& operands) : entry(entry) {
  for (std::size_t i = 0; i < operands.count; ++i) {
    const TensorView& view = operands.views[i];
    types[i] = view.type;
    std::copy(view.dims, view.dims + view.rank, dims[i].begin());
  }
}

// The entry decides how many operands there are, and their ranks.
bool PlanCache::Kept::Serves(Entry other_entry, const Operands& operands) const {
  if (entry != other_entry) return false;
  for (std::size_t i = 0; i < operands.count; ++i) {
    const TensorView& view = operands.views[i];
    if (types[i] != view.type || !std::equal(view.dims, view.dims + view.rank, dims[i].begin())) return false;
  }
  return true;
}

PlanCache::PlanCache(const Backend& backend, bool deterministic) : api_(backend.api()), deterministic_(deterministic) {
  kept_.reserve(kMaxKept);
}

template <typename Call>
void PlanCache::Enqueue(const Call& call, DeviceBuffer& workspace, aclrtStream stream) {
  const Operands operands = OperandsOf(call);
  std::unique_ptr<Kept> kept = Take(call.entry, operands);
  const bool is_first = kept == nullptr;
  if (is_first) kept = std::make_unique<Kept>(call.entry, operands);
  if (kept->plan == nullptr) kept->plan = std::make_unique<Plan>(api_, call, PlanOptions{deterministic_, is_first});
  kept->plan->Enqueue(operands, workspace.Reserve(kept->plan->workspace_size()), stream);
  if (!kept->plan->repeatable()) kept->plan.reset();
  Keep(std::move(kept));
}

// Null if there is none. Not the oldest of several, but the newest: the others grow old if fewer threads run.
std::unique_ptr<PlanCache::Kept> PlanCache::Take(Entry entry, const Operands& operands) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found =
      std::find_if(kept_.rbegin(), kept_.rend(), [&](const auto& kept) { return kept->Serves(entry, operands); });
  if (found == kept_.rend()) return nullptr;
  std::unique_ptr<Kept> kept = std::move(*found);
  kept_.erase(std::next(found).base());
  return kept;
}

void PlanCache::Keep(std::unique_ptr<Kept> kept) {
  std::unique_ptr<Kept> dropped;  // destroyed without the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  if (kept_.size() == kMaxKept) {
    dropped = std::move(kept_.front());
    kept_.erase(kept_.begin());
  }
  kept_.push_back(std::move(kept));
}

template void PlanCache::Enqueue(const ForwardCall& call, DeviceBuffer& workspace, aclrtStream stream);
template void PlanCache::Enqueue(const BackwardCall& call, DeviceBuffer& workspace, aclrtStream stream);

}  // namespace poolgrad::aclnn
