// Which chip the host implementation stands for.
#ifndef POOLGRAD_HOST_SOC_H_
#define POOLGRAD_HOST_SOC_H_

#include <string_view>

#include "abi/soc_names.h"

namespace poolgrad::host {

using Product = SocProduct;

const char* ProductName(Product product);

// Takes everything that the dialect has.
constexpr std::string_view kDefaultSoc = "Ascend950PR_9599";

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_SOC_H_
