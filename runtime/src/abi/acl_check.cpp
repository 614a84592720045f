// SPDX-License-Identifier: Apache-2.0

// Compares the tables of CANN's C ABI with the official headers; compiled only where CANN_INCLUDE_DIR names them. They
// must be of 9.1.0 or later, which have every name.
#include <acl/acl_rt.h>
#include <aclnn/acl_meta.h>
#include <aclnn/opdev/op_errno.h>
#include <aclnnop/aclnn_adaptive_avg_pool2d_backward.h>
#include <aclnnop/aclnn_adaptive_avg_pool3d_backward.h>
#include <aclnnop/aclnn_adaptive_max_pool2d.h>
#include <aclnnop/aclnn_adaptive_max_pool2d_backward.h>
#include <aclnnop/aclnn_adaptive_max_pool3d.h>
#include <aclnnop/aclnn_adaptive_max_pool3d_backward.h>
#include <aclnnop/aclnn_avgpool2d_backward.h>
#include <aclnnop/aclnn_avgpool3d_backward.h>
#include <aclnnop/aclnn_max_pool2d_with_indices.h>
#include <aclnnop/aclnn_max_pool2d_with_indices_backward.h>
#include <aclnnop/aclnn_max_pool3d_with_argmax.h>
#include <aclnnop/aclnn_max_pool3d_with_argmax_backward.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "abi/acl_error_table.h"
#include "abi/acl_tables.h"

#define POOLGRAD_SAME_VALUE(name, value) static_assert((name) == (value), #name " differs");
POOLGRAD_ACL_ERRORS(POOLGRAD_SAME_VALUE)
POOLGRAD_ACL_EVENT_FLAGS(POOLGRAD_SAME_VALUE)

#define POOLGRAD_SAME_ENUMERATION(name, enumerators)                    \
  static_assert(sizeof(::name) == sizeof(int), #name " is not an int"); \
  enumerators(POOLGRAD_SAME_VALUE)
POOLGRAD_ACL_ENUMERATIONS(POOLGRAD_SAME_ENUMERATION)

#define POOLGRAD_SAME_PROTOTYPE(result, name, parameters) \
  static_assert(std::is_same_v<decltype(&::name), result(*) parameters>, #name " has another prototype");
POOLGRAD_ACL_FUNCTIONS(POOLGRAD_SAME_PROTOTYPE)
