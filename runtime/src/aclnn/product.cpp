#include "aclnn/product.h"

namespace poolgrad::aclnn {
namespace {

struct Soc {
  const char* prefix;
  std::size_t min_length;  // of the whole name: "Ascend910B" itself is an Atlas training chip, not an A2
  Product product;
};

constexpr Soc kSocs[] = {
    {"Ascend950PR_", 13, Product::kAscend950},
    {"Ascend950DT_", 13, Product::kAscend950},
    {"Ascend910_93", 13, Product::kAtlasA2A3},
    {"Ascend910B", 11, Product::kAtlasA2A3},
};

}  // namespace

Product ProductOf(const std::string& soc_name) {
  for (const Soc& soc : kSocs) {
    if (soc_name.size() >= soc.min_length && soc_name.rfind(soc.prefix, 0) == 0) return soc.product;
  }
  return Product::kUnsupported;
}

}  // namespace poolgrad::aclnn
