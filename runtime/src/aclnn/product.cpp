// SPDX-License-Identifier: Apache-2.0

#include "aclnn/product.h"

namespace poolgrad::aclnn {
namespace {

struct Family {
  const char* name;  // prefix of the SoC names
  std::int64_t architecture;
  Product product;
};

constexpr Family kFamilies[] = {
    {"Ascend910", 2201, Product::kAtlasA2A3},
    {"Ascend950", 3510, Product::kAscend950},
};

}  // namespace

Product ProductOf(const std::string& soc_name, std::optional<std::int64_t> architecture) {
  if (const Soc* soc = FindSoc(soc_name)) return RowOf(soc->product).aclnn;
  for (const Family& family : kFamilies) {
    if (soc_name.rfind(family.name, 0) == 0 && architecture == family.architecture) return family.product;
  }
  return Product::kUnsupported;
}

}  // namespace poolgrad::aclnn
