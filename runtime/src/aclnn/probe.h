// Whether phase 1 of a function takes any call on the product at all.
#ifndef POOLGRAD_ACLNN_PROBE_H_
#define POOLGRAD_ACLNN_PROBE_H_

#include <map>
#include <mutex>
#include <string>

#include "aclnn/call.h"

namespace poolgrad::aclnn {

class Backend;

// A release may export a function that its operator package does not have for the product: CANN 9.0 does so with the
// adaptive gradients on Ascend 950, whose phase 1 refuses every element type. The versions that CANN tells do not
// settle it, because runtime and operators are packages of their own, and custom libraries replace single operators. So
// each function is tried once, when a node first needs it, with the smallest legal call: phase 1 looks at no data and
// computes nothing, and its executor is destroyed. Thread-safe.
class Probes {
 public:
  // Why phase 1 of the entry's function for a ForwardCall or BackwardCall answers ACLNN_ERR_PARAM_INVALID to that call,
  // or an empty text. A release may sample the switch ACL_OPT_DETERMINISTIC only once, when an operator is first used:
  // `deterministic` turns it on before. Any other failure says nothing about the function: it is not remembered, and
  // shows again when the node runs.
  template <typename Call>
  std::string RefusalOf(const Backend& backend, Entry entry, bool deterministic);

 private:
  std::mutex mutex_;
  std::map<const Function*, std::string> refusals_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PROBE_H_
