// SPDX-License-Identifier: Apache-2.0

// Whether phase 1 of a function accepts any call with an element type on the product.
#ifndef POOLGRAD_ACLNN_PROBE_H_
#define POOLGRAD_ACLNN_PROBE_H_

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "aclnn/function.h"

namespace poolgrad::aclnn {

class Backend;

// A release may export a function that its operator package does not implement for the product: CANN 9.0 exports the
// adaptive gradients on Ascend 950, where phase 1 refuses every element type. Version numbers do not show this, because
// the runtime and the operators are separate packages, and custom libraries replace single operators. Nor do tables of
// products show which types the functions of an installed release take. So phase 1 of each function is run once for
// each element type, when a node first needs it, with the smallest legal call: it reads no data and computes nothing,
// and the executor is destroyed. Thread-safe.
class Probes {
 public:
  // The message with which phase 1 of the backend's function returns ACLNN_ERR_PARAM_INVALID for that call, or an empty
  // text if it does not. `deterministic`: see ExecutorOptions. Any other failure says nothing about the function: it is
  // not recorded, and appears again when the node runs.
  std::string RefusalOf(const Backend& backend, const Function& function, aclDataType type, bool deterministic);

 private:
  std::mutex mutex_;
  std::map<std::pair<const Function*, aclDataType>, std::string> refusals_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PROBE_H_
