// SPDX-License-Identifier: Apache-2.0

// Floating-point formats of IEEE 754's kind, by the formula of the standard in double, which holds all their values.
#ifndef POOLGRAD_TESTS_NATIVE_FLOATS_H_
#define POOLGRAD_TESTS_NATIVE_FLOATS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "abi/acl.h"

namespace native {

struct Format {
  const char* name;
  aclDataType type;
  int bytes;
  int exponent_bits;
  int fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t sign_bit() const { return 1u << (exponent_bits + fraction_bits); }
  std::uint32_t infinity() const { return ((1u << exponent_bits) - 1) << fraction_bits; }
  std::uint32_t quiet_nan() const { return infinity() | 1u << (fraction_bits - 1); }
};

constexpr Format kFormats[] = {
    {"float32", ACL_FLOAT, 4, 8, 23},
    {"float16", ACL_FLOAT16, 2, 5, 10},
    {"bfloat16", ACL_BF16, 2, 8, 7},
};

inline double Decode(const Format& format, std::uint32_t bits) {
  const double sign = (bits & format.sign_bit()) != 0 ? -1.0 : 1.0;
  const std::uint32_t magnitude = bits & (format.sign_bit() - 1);
  if (magnitude > format.infinity()) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == format.infinity()) return sign * std::numeric_limits<double>::infinity();
  const int exponent = static_cast<int>(magnitude >> format.fraction_bits);
  const std::uint32_t fraction = magnitude & ((1u << format.fraction_bits) - 1);
  const std::uint32_t significand = exponent == 0 ? fraction : fraction | 1u << format.fraction_bits;
  const int power = (exponent == 0 ? 1 : exponent) - format.bias() - format.fraction_bits;
  return sign * std::ldexp(static_cast<double>(significand), power);
}

// The nearest value, of two the even one. The value is no NaN.
inline std::uint32_t Encode(const Format& format, double value) {
  const std::uint32_t sign = std::signbit(value) ? format.sign_bit() : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | format.infinity();
  const int least = 1 - format.bias();
  const int exponent = magnitude == 0 ? least : std::max(least, std::ilogb(magnitude));
  // nearbyint rounds ties to even. A carry out of the fraction goes on into the exponent, up to infinity.
  const auto significand =
      static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent)));
  const std::uint32_t normal = (static_cast<std::uint32_t>(exponent - least) << format.fraction_bits) + significand;
  return sign | std::min(normal, format.infinity());
}

}  // namespace native

#endif  // POOLGRAD_TESTS_NATIVE_FLOATS_H_
