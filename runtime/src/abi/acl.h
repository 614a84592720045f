// SPDX-License-Identifier: Apache-2.0

// The part of CANN's C ABI that this project calls (through dlopen) and implements (libaclnn_host.so), declared from
// the tables of abi/acl_tables.h. Nothing of CANN is needed to build.
//
// Function-pointer types come from the prototypes: decltype(&aclInit).
#ifndef POOLGRAD_ABI_ACL_H_
#define POOLGRAD_ABI_ACL_H_

#include <cstddef>
#include <cstdint>

#include "abi/acl_errors.h"
#include "abi/acl_tables.h"

using aclError = int;
using aclnnStatus = std::int32_t;
using aclrtContext = void*;
using aclrtStream = void*;
using aclrtEvent = void*;

struct aclTensor;
struct aclIntArray;
struct aclOpExecutor;

#define POOLGRAD_ACL_ENUMERATOR(name, value) name = value,
#define POOLGRAD_ACL_ENUMERATION(name, enumerators) enum name : int { enumerators(POOLGRAD_ACL_ENUMERATOR) };
POOLGRAD_ACL_ENUMERATIONS(POOLGRAD_ACL_ENUMERATION)
#undef POOLGRAD_ACL_ENUMERATION
#undef POOLGRAD_ACL_ENUMERATOR

#define POOLGRAD_ACL_FLAG(name, value) constexpr std::uint32_t name = value;
POOLGRAD_ACL_EVENT_FLAGS(POOLGRAD_ACL_FLAG)
#undef POOLGRAD_ACL_FLAG

#pragma GCC visibility push(default)
extern "C" {
#define POOLGRAD_ACL_PROTOTYPE(result, name, parameters) result name parameters;
POOLGRAD_ACL_FUNCTIONS(POOLGRAD_ACL_PROTOTYPE)
#undef POOLGRAD_ACL_PROTOTYPE
}
#pragma GCC visibility pop

#endif  // POOLGRAD_ABI_ACL_H_
