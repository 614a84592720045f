// The SoC names that CANN knows and the product each belongs to.
#ifndef POOLGRAD_HOST_SOC_H_
#define POOLGRAD_HOST_SOC_H_

#include <string_view>

namespace poolgrad::host {

// Named by CANN's short SoC name: 910B is Atlas A2, 910_93 is Atlas A3.
enum class Product { kAscend910, kAscend910B, kAscend910_93, kAscend310P, kAscend310B, kAscend950 };

const char* ProductName(Product product);

struct Soc {
  const char* name;
  Product product;
};

// Takes everything that the dialect has.
constexpr std::string_view kDefaultSoc = "Ascend950PR_9599";

// The SoC of exactly this name, or null. Prefixes would mislead: Ascend910B is no Ascend910B1.
const Soc* FindSoc(std::string_view name);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_SOC_H_
