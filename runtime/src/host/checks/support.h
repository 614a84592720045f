// Which product takes which dtypes in which function: CANN's support tables as its code has them.
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
  DtypeSet values;  // of self and its pooled values, or their gradients
  DtypeSet indices;
};

// What the entry takes; nothing on a product without the function, and nothing without a product: CANN finds
// its tables through the calling thread's current device.
Support SupportOf(const Entry& entry);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_SUPPORT_H_
