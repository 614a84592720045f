// Which gradients need no check of their indices.
#ifndef POOLGRAD_EP_INDEX_TRUST_H_
#define POOLGRAD_EP_INDEX_TRUST_H_

#include <set>
#include <string>
#include <vector>

#include "aclnn/call.h"
#include "ep/dialect.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

// A node that the provider runs, and the entry of aclnn that it goes to.
struct Claim {
  const ort::OrtNode* node;
  const DialectOp* op;
  aclnn::Entry entry;
};

// A gradient's indices are in range by construction if a pool of the same session computes them on the device from the
// same x. Kernels are known by their node's name; if one name has several nodes, each of them has to be such a
// gradient.
class IndexTrust {
 public:
  // trusts_all: whether the session asks to trust any indices.
  explicit IndexTrust(bool trusts_all) : trusts_all_(trusts_all) {}

  // Adds the claims of one graph. Throws Error.
  void Learn(const OrtContext& ort, const std::vector<Claim>& claims);

  // Complete once every graph has been learned.
  bool Covers(const std::string& node_name) const;

 private:
  bool trusts_all_;
  std::set<std::string> trusted_;
  std::set<std::string> untrusted_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_INDEX_TRUST_H_
