// SPDX-License-Identifier: Apache-2.0

// Decides which gradients need no range check of their indices.
#ifndef POOLGRAD_EP_INDEX_TRUST_H_
#define POOLGRAD_EP_INDEX_TRUST_H_

#include <set>
#include <string>
#include <vector>

#include "ep/dialect.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

// A node that the provider runs.
struct Claim {
  const ort::OrtNode* node;
  const DialectOp* op;
};

// A gradient's indices are in range by construction if a pool of the same session computes them on the device from the
// same x: CANN's kernels of pools (op_kernel/ of each in ops-nn) begin a window with its first element inside of x and
// replace it by other elements only, whatever the values. Kernels are identified by their node's name. If several nodes
// have one name, this must hold for each of them.
class IndexTrust {
 public:
  // trusts_all: whether the session turns the check off (check_indices=0).
  explicit IndexTrust(bool trusts_all) : trusts_all_(trusts_all) {}

  // Adds the claims of one graph. Throws Error.
  void Learn(const OrtContext& ort, const std::vector<Claim>& claims);

  // Whether the node needs no check. Call it after Learn was called for every graph.
  bool Covers(const std::string& node_name) const;

 private:
  bool trusts_all_;
  std::set<std::string> trusted_;
  std::set<std::string> untrusted_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_INDEX_TRUST_H_
