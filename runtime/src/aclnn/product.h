// SPDX-License-Identifier: Apache-2.0

// The product of a device: which of the products that aclnn tells apart.
#ifndef POOLGRAD_ACLNN_PRODUCT_H_
#define POOLGRAD_ACLNN_PRODUCT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "abi/soc_names.h"

namespace poolgrad::aclnn {

using Product = AclnnProduct;

// The product for a name that aclrtGetSocName returns, e.g. "Ascend910B3". For a name that the table lacks, the family
// in the name and the architecture of the cores (ACL_DEV_ATTR_NPU_ARCH) decide, if the architecture is known. It is not
// enough alone: Ascend350 has the architecture of Ascend950, but no operators of the pools.
Product ProductOf(const std::string& soc_name, std::optional<std::int64_t> architecture);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PRODUCT_H_
