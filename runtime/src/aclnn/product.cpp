// SPDX-License-Identifier: Apache-2.0

#include "aclnn/product.h"

#include "abi/soc_names.h"

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

Product ProductOfSoc(SocProduct product) {
  switch (product) {
    case SocProduct::kAscend910B:
    case SocProduct::kAscend910_93:
      return Product::kAtlasA2A3;
    case SocProduct::kAscend950:
      return Product::kAscend950;
    default:
      return Product::kUnsupported;
  }
}

}  // namespace

const char* NameOf(Product product) {
  switch (product) {
    case Product::kAtlasA2A3:
      return "Atlas A2/A3";
    case Product::kAscend950:
      return "Ascend 950";
    default:
      return "unsupported";
  }
}

Product ProductOf(const std::string& soc_name, std::optional<std::int64_t> architecture) {
  if (const Soc* soc = FindSoc(soc_name)) return ProductOfSoc(soc->product);
  for (const Family& family : kFamilies) {
    if (soc_name.rfind(family.name, 0) == 0 && architecture == family.architecture) return family.product;
  }
  return Product::kUnsupported;
}

}  // namespace poolgrad::aclnn
