// SPDX-License-Identifier: Apache-2.0

// The aclnn entry that runs a dialect node on a product, and the limits of the entry.
#ifndef POOLGRAD_EP_ROUTES_H_
#define POOLGRAD_EP_ROUTES_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "aclnn/backend.h"
#include "ep/dialect.h"

namespace poolgrad::ep {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

enum class IndexTypes { kInt32, kInt64, kBoth, kNone };

struct Route {
  const char* op;
  aclnn::Product product;
  std::size_t min_rank;  // of x
  std::size_t max_rank;
  aclnn::Entry entry;
  IndexTypes index_types;         // of argmax; kNone: the operator has none
  bool takes_dilation;            // of a pool, other than 1
  std::int64_t max_plane;         // the most elements of an (n, c) plane of x
  std::int64_t max_uneven_plane;  // the same if output sizes do not divide input sizes
  std::int64_t average_cores;     // the most of a SoC, if the entry fails on fewer 16-bit elements than cores; else 0
};

// The route of a node, or null if the product has none. `argmax_is_int64` says nothing for operators without argmax.
const Route* FindRoute(const DialectOp& op, aclnn::Product product, std::size_t rank, bool argmax_is_int64);

// The entries that run nodes of the operator on the product, each once.
std::vector<aclnn::Entry> EntriesOf(const DialectOp& op, aclnn::Product product);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_ROUTES_H_
