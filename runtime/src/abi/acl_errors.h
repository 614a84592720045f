// SPDX-License-Identifier: Apache-2.0

// Return codes of acl and aclnn, and their names.
#ifndef POOLGRAD_ABI_ACL_ERRORS_H_
#define POOLGRAD_ABI_ACL_ERRORS_H_

#include "abi/acl_error_table.h"

#define POOLGRAD_ACL_CONSTANT(name, value) constexpr int name = value;
POOLGRAD_ACL_ERRORS(POOLGRAD_ACL_CONSTANT)
#undef POOLGRAD_ACL_CONSTANT

constexpr int ACLNN_SUCCESS = ACL_SUCCESS;

namespace poolgrad {

struct AclErrorName {
  int code;
  const char* name;
};

#define POOLGRAD_ACL_ROW(name, value) {value, #name},
constexpr AclErrorName kAclErrorNames[] = {POOLGRAD_ACL_ERRORS(POOLGRAD_ACL_ROW)};
#undef POOLGRAD_ACL_ROW

// The name of a return code of acl or aclnn; "unknown code" for one that the table lacks.
constexpr const char* AclErrorNameOf(int code) {
  for (const AclErrorName& row : kAclErrorNames) {
    if (row.code == code) return row.name;
  }
  return "unknown code";
}

}  // namespace poolgrad

#endif  // POOLGRAD_ABI_ACL_ERRORS_H_
