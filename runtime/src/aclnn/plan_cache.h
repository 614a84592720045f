// The plans of one node, kept from one Run to the next.
#ifndef POOLGRAD_ACLNN_PLAN_CACHE_H_
#define POOLGRAD_ACLNN_PLAN_CACHE_H_

#include <memory>
#include <mutex>
#include <optional>
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
  // What a plan can serve again.
  struct Signature {
    Signature(Entry entry, const Operands& operands);
    bool operator==(const Signature& other) const;

    Entry entry;
    std::array<aclDataType, kMaxOperands> types{};
    std::array<std::array<std::int64_t, kMaxRank>, kMaxOperands> dims{};
  };

  // An idle plan; null where executors of this signature cannot be repeated.
  struct Kept {
    Signature signature;
    std::unique_ptr<Plan> plan;
  };

  template <typename Call>
  std::unique_ptr<Plan> Take(const Call& call, const Signature& signature);
  std::optional<Kept> TakeKept(const Signature& signature);
  void Keep(Kept kept);

  const Api& api_;
  const bool deterministic_;
  std::mutex mutex_;
  std::vector<Kept> kept_;  // the least recently used first
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PLAN_CACHE_H_
