// SPDX-License-Identifier: Apache-2.0

// The chip that the host implementation simulates.
#ifndef POOLGRAD_HOST_SOC_H_
#define POOLGRAD_HOST_SOC_H_

#include <string_view>

#include "abi/soc_names.h"

namespace poolgrad::host {

using Product = SocProduct;

inline const char* ProductName(Product product) { return RowOf(product).name; }

// It supports everything in the dialect.
constexpr std::string_view kDefaultSoc = "Ascend950PR_9599";

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_SOC_H_
