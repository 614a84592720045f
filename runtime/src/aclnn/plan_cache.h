// The plans of one node, kept from one Run to the next.
#ifndef POOLGRAD_ACLNN_PLAN_CACHE_H_
#define POOLGRAD_ACLNN_PLAN_CACHE_H_

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "aclnn/device_buffer.h"
#include "aclnn/plan.h"

namespace poolgrad::aclnn {

// Enqueues the calls of one node, whose attributes are the same in each, and keeps the repeatable plans for later
// calls of the same types and sizes. Thread-safe: calls at the same time have plans of their own.
class PlanCache {
 public:
  // `deterministic`: whether the node's sums must not depend on scheduling.
  PlanCache(const Backend& backend, bool deterministic);

  // Puts a ForwardCall or BackwardCall on the stream and returns before it is computed. The calling thread has a
  // current device; the operands have to live until the stream is done, and so has what `workspace` gives. A plan whose
  // call failed is dropped. Allocates nothing where it finds a plan. Throws std::runtime_error.
  template <typename Call>
  void Enqueue(const Call& call, DeviceBuffer& workspace, aclrtStream stream);

 private:
  // An idle plan, with the types and sizes of the calls that it serves. The plan is null where executors of such calls
  // cannot be repeated.
  struct Kept {
    Kept(Entry entry, const Operands& operands);
    bool Serves(Entry other_entry, const Operands& operands) const;

    Entry entry;
    std::array<aclDataType, kMaxOperands> types{};
    std::array<std::array<std::int64_t, kMaxRank>, kMaxOperands> dims{};
    std::unique_ptr<Plan> plan;
  };

  std::unique_ptr<Kept> Take(Entry entry, const Operands& operands);
  void Keep(std::unique_ptr<Kept> kept);

  const Api& api_;
  const bool deterministic_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Kept>> kept_;  // the least recently used first
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PLAN_CACHE_H_
