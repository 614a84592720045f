// The Ascend products that have the pools and their gradients, by the name that the runtime gives the chip.
#ifndef POOLGRAD_ACLNN_PRODUCT_H_
#define POOLGRAD_ACLNN_PRODUCT_H_

#include <string>

namespace poolgrad::aclnn {

// Atlas A2 and A3 take the same paths through aclnn and have one row.
enum class Product { kUnsupported, kAtlasA2A3, kAscend950 };

// soc_name: what aclrtGetSocName returns, e.g. "Ascend910B3".
Product ProductOf(const std::string& soc_name);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PRODUCT_H_
