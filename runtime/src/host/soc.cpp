// SPDX-License-Identifier: Apache-2.0

#include "host/soc.h"

namespace poolgrad::host {

const char* ProductName(Product product) {
  switch (product) {
    case Product::kAscend910:
      return "Ascend910";
    case Product::kAscend910B:
      return "Ascend910B";
    case Product::kAscend910_93:
      return "Ascend910_93";
    case Product::kAscend310P:
      return "Ascend310P";
    case Product::kAscend310B:
      return "Ascend310B";
    case Product::kAscend350:
      return "Ascend350";
    case Product::kAscend950:
      return "Ascend950";
  }
  return "unknown product";
}

}  // namespace poolgrad::host
