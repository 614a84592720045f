// SPDX-License-Identifier: Apache-2.0

#include "ep/index_trust.h"

#include <utility>

#include "ep/node.h"

namespace poolgrad::ep {
namespace {

using PoolValues = std::pair<const ort::OrtValueInfo*, const ort::OrtValueInfo*>;  // x and argmax

std::set<PoolValues> PoolsOf(const OrtContext& ort, const std::vector<Claim>& claims) {
  std::set<PoolValues> pools;
  for (const Claim& claim : claims) {
    if (claim.op->direction != Direction::kForward) continue;
    pools.emplace(InputValuesOf(ort, claim.node, 1)[0], OutputValuesOf(ort, claim.node, 2)[1]);
  }
  return pools;
}

}  // namespace

void IndexTrust::Learn(const OrtContext& ort, const std::vector<Claim>& claims) {
  const std::set<PoolValues> pools = PoolsOf(ort, claims);
  for (const Claim& claim : claims) {
    if (!ReadsArgmax(*claim.op)) continue;
    const std::vector<const ort::OrtValueInfo*> inputs = InputValuesOf(ort, claim.node, claim.op->inputs.size());
    const auto input = [&](Part part) { return inputs[*PositionOf(claim.op->inputs, part)]; };
    const bool is_in_range = pools.count({input(Part::kX), input(Part::kArgmax)}) > 0;
    (is_in_range ? trusted_ : untrusted_).insert(NameOf(ort, claim.node));
  }
}

bool IndexTrust::Covers(const std::string& node_name) const {
  return trusts_all_ || (trusted_.count(node_name) > 0 && untrusted_.count(node_name) == 0);
}

}  // namespace poolgrad::ep
