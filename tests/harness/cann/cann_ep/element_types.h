// SPDX-License-Identifier: Apache-2.0

// Element types of CANN and of ONNX.
#ifndef TESTS_CANN_EP_ELEMENT_TYPES_H_
#define TESTS_CANN_EP_ELEMENT_TYPES_H_

#include <stdexcept>
#include <utility>

#include "abi/acl.h"

namespace stand_in {

inline int OnnxType(aclDataType type) {
  constexpr std::pair<aclDataType, int> kTypes[] = {
      {ACL_FLOAT, 1},   {ACL_UINT8, 2},   {ACL_INT8, 3},  {ACL_UINT16, 4},   {ACL_INT16, 5},
      {ACL_INT32, 6},   {ACL_INT64, 7},   {ACL_BOOL, 9},  {ACL_FLOAT16, 10}, {ACL_DOUBLE, 11},
      {ACL_UINT32, 12}, {ACL_UINT64, 13}, {ACL_BF16, 16},
  };
  for (const auto& [acl, onnx] : kTypes) {
    if (acl == type) return onnx;
  }
  return 0;
}

}  // namespace stand_in

#endif  // TESTS_CANN_EP_ELEMENT_TYPES_H_
