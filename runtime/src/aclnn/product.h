// The Ascend products that have the pools and their gradients.
#ifndef POOLGRAD_ACLNN_PRODUCT_H_
#define POOLGRAD_ACLNN_PRODUCT_H_

#include <cstdint>
#include <optional>
#include <string>

namespace poolgrad::aclnn {

// Atlas A2 and A3 take the same paths through aclnn and have one row.
enum class Product { kUnsupported, kAtlasA2A3, kAscend950 };

const char* NameOf(Product product);

// The product of what aclrtGetSocName returns, e.g. "Ascend910B3"; of a name that is too new to be known, by its family
// and the architecture of its cores (ACL_DEV_ATTR_NPU_ARCH), where there is one. The architecture alone does not tell:
// Ascend350 has that of Ascend950, and no operators of the pools.
Product ProductOf(const std::string& soc_name, std::optional<std::int64_t> architecture);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PRODUCT_H_
