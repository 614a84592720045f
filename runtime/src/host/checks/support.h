// SPDX-License-Identifier: Apache-2.0

// The dtypes that each function supports on each product: the tables in CANN's code.
#ifndef POOLGRAD_HOST_CHECKS_SUPPORT_H_
#define POOLGRAD_HOST_CHECKS_SUPPORT_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "host/pool_call.h"

namespace poolgrad::host {

// A set of dtypes, each less than 64.
class DtypeSet {
 public:
  constexpr DtypeSet() = default;
  constexpr DtypeSet(std::initializer_list<aclDataType> dtypes) {
    for (const aclDataType dtype : dtypes) bits_ |= Bit(dtype);
  }

  constexpr bool IsEmpty() const { return bits_ == 0; }
  constexpr bool Contains(aclDataType dtype) const { return (bits_ & Bit(dtype)) != 0; }

  // "FLOAT, FLOAT16", or "none".
  std::string Text() const;

 private:
  static constexpr uint64_t Bit(aclDataType dtype) { return dtype >= 0 && dtype < 64 ? uint64_t{1} << dtype : 0; }

  uint64_t bits_ = 0;
};

struct Support {
  DtypeSet values;  // for self and out, or the gradients
  DtypeSet indices;
};

// The dtypes of the entry. Empty if the product lacks the function, or if there is no product: CANN finds its tables
// through the calling thread's current device.
Support SupportOf(const Entry& entry);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_SUPPORT_H_
