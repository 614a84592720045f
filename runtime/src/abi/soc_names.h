// SPDX-License-Identifier: Apache-2.0

// Finds the product of a SoC name that CANN's aclrtGetSocName returns, and what is known of a product.
#ifndef POOLGRAD_ABI_SOC_NAMES_H_
#define POOLGRAD_ABI_SOC_NAMES_H_

#include <string_view>

#include "abi/soc_table.h"

namespace poolgrad {

// The SoC of exactly this name, or null. A prefix does not identify a product: Ascend910B is not Ascend910B1.
constexpr const Soc* FindSoc(std::string_view name) {
  for (const Soc& soc : kSocs) {
    if (soc.name == name) return &soc;
  }
  return nullptr;
}

constexpr const SocProductRow& RowOf(SocProduct product) {
  const SocProductRow* row = kSocProducts;
  while (row->product != product) ++row;  // each has a row
  return *row;
}

constexpr const char* NameOf(AclnnProduct product) {
  const AclnnProductName* row = kAclnnProducts;
  while (row->product != product) ++row;  // each has a row
  return row->name;
}

}  // namespace poolgrad

#endif  // POOLGRAD_ABI_SOC_NAMES_H_
