// SPDX-License-Identifier: Apache-2.0

// Finds the product of a SoC name that CANN's aclrtGetSocName returns.
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

}  // namespace poolgrad

#endif  // POOLGRAD_ABI_SOC_NAMES_H_
