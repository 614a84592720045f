// SPDX-License-Identifier: Apache-2.0

// The Ascend products that have operators for the pools and their gradients.
#ifndef POOLGRAD_ACLNN_PRODUCT_H_
#define POOLGRAD_ACLNN_PRODUCT_H_

#include <cstdint>
#include <optional>
#include <string>

namespace poolgrad::aclnn {

// Atlas A2 and A3 behave alike in aclnn and are one product here.
enum class Product { kUnsupported, kAtlasA2A3, kAscend950 };

const char* NameOf(Product product);

// The product for a name that aclrtGetSocName returns, e.g. "Ascend910B3". For a name that the table lacks, the family
// in the name and the architecture of the cores (ACL_DEV_ATTR_NPU_ARCH) decide, if the architecture is known. It is not
// enough alone: Ascend350 has the architecture of Ascend950, but no operators of the pools.
Product ProductOf(const std::string& soc_name, std::optional<std::int64_t> architecture);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PRODUCT_H_
