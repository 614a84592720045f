// SPDX-License-Identifier: Apache-2.0

#include "ep/routes.h"

#include <algorithm>
#include <cstring>

#include "ep/route_table.h"

namespace poolgrad::ep {
namespace {

using aclnn::Entry;
using aclnn::Product;

bool Takes(IndexTypes types, bool is_int64) {
  return types == IndexTypes::kBoth || types == IndexTypes::kNone || (types == IndexTypes::kInt64) == is_int64;
}

}  // namespace

const Route* FindRoute(const DialectOp& op, Product product, std::size_t rank, bool argmax_is_int64) {
  for (const Route& route : kRoutes) {
    if (std::strcmp(route.op, op.name) == 0 && route.product == product && route.min_rank <= rank &&
        rank <= route.max_rank && Takes(route.index_types, argmax_is_int64)) {
      return &route;
    }
  }
  return nullptr;
}

std::vector<Entry> EntriesOf(const DialectOp& op, Product product) {
  std::vector<Entry> entries;
  for (const Route& route : kRoutes) {
    const bool is_new = std::find(entries.begin(), entries.end(), route.entry) == entries.end();
    if (std::strcmp(route.op, op.name) == 0 && route.product == product && is_new) entries.push_back(route.entry);
  }
  return entries;
}

}  // namespace poolgrad::ep
