#include "aclnn/plan_cache.h"

#include <algorithm>
#include <utility>

namespace poolgrad::aclnn {
namespace {

// Of one node: the sizes it sees times the threads that run it at once, without growing where sizes never repeat.
constexpr std::size_t kMaxKept = 32;

}  // namespace

PlanCache::Signature::Signature(Entry entry, const Operands& operands) : entry(entry) {
  for (std::size_t i = 0; i < operands.count; ++i) {
    const TensorView& view = operands.views[i];
    types[i] = view.type;
    std::copy(view.dims, view.dims + view.rank, dims[i].begin());
  }
}

bool PlanCache::Signature::operator==(const Signature& other) const {
  return entry == other.entry && types == other.types && dims == other.dims;
}

PlanCache::PlanCache(const Backend& backend, bool deterministic) : api_(backend.api()), deterministic_(deterministic) {
  kept_.reserve(kMaxKept);
}

template <typename Call>
void PlanCache::Enqueue(const Call& call, DeviceBuffer& workspace, aclrtStream stream) {
  const Operands operands = OperandsOf(call);
  const Signature signature(call.entry, operands);
  std::unique_ptr<Plan> plan = Take(call, signature);
  plan->Enqueue(operands, workspace.Reserve(plan->workspace_size()), stream);
  if (!plan->repeatable()) plan.reset();
  Keep({signature, std::move(plan)});
}

template <typename Call>
std::unique_ptr<Plan> PlanCache::Take(const Call& call, const Signature& signature) {
  std::optional<Kept> kept = TakeKept(signature);
  if (kept.has_value() && kept->plan != nullptr) return std::move(kept->plan);
  return std::make_unique<Plan>(api_, call, PlanOptions{deterministic_, !kept.has_value()});
}

// Not the oldest of several, but the newest: the others grow old if fewer threads run.
std::optional<PlanCache::Kept> PlanCache::TakeKept(const Signature& signature) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found =
      std::find_if(kept_.rbegin(), kept_.rend(), [&](const Kept& kept) { return kept.signature == signature; });
  if (found == kept_.rend()) return std::nullopt;
  Kept kept = std::move(*found);
  kept_.erase(std::next(found).base());
  return kept;
}

void PlanCache::Keep(Kept kept) {
  std::optional<Kept> dropped;  // destroyed without the lock
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
