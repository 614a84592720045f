// The 16-bit floating-point types, as bits, and their conversions. Portable; rounding is to nearest, ties to
// even; a NaN stays a NaN.
#ifndef POOLGRAD_HOST_KERNELS_HALF_H_
#define POOLGRAD_HOST_KERNELS_HALF_H_

#include <cstdint>
#include <cstring>

namespace poolgrad::host {

// Always inlined: the vector kernels compile them for processors of their own. Without branches, which vectors lack;
// no operand is a subnormal float, which a thread may be set to take for 0.
#define POOLGRAD_INLINE [[gnu::always_inline]] inline

struct Float16 {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

template <typename To, typename From>
POOLGRAD_INLINE To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

POOLGRAD_INLINE float ToFloat(float value) { return value; }

POOLGRAD_INLINE float ToFloat(BFloat16 value) { return BitCast<float>(uint32_t{value.bits} << 16); }

POOLGRAD_INLINE float ToFloat(Float16 value) {
  constexpr uint32_t kRebias = (127 - 15) << 23;
  constexpr uint32_t kLeastNormal = 0x38800000;  // 2^-14
  const uint32_t sign = (value.bits & 0x8000u) << 16;
  const uint32_t magnitude = (value.bits & 0x7fffu) << 13;
  const uint32_t normal = magnitude + kRebias;
  const uint32_t infinite = normal + kRebias;  // or NaN
  // With the exponent of 2^-14 a subnormal is that much too large.
  const uint32_t small = BitCast<uint32_t>(BitCast<float>(magnitude + kLeastNormal) - 0x1p-14f);
  const uint32_t wide = magnitude >= 0x1fu << 23 ? infinite : normal;
  return BitCast<float>(sign | (magnitude < 1u << 23 ? small : wide));
}

template <typename T>
POOLGRAD_INLINE T FromFloat(float value);

template <>
POOLGRAD_INLINE float FromFloat<float>(float value) {
  return value;
}

template <>
POOLGRAD_INLINE BFloat16 FromFloat<BFloat16>(float value) {
  const uint32_t bits = BitCast<uint32_t>(value);
  const uint32_t nan = (bits >> 16) | 0x40u;
  const uint32_t tie_to_even = (bits >> 16) & 1u;
  const uint32_t rounded = (bits + 0x7fffu + tie_to_even) >> 16;
  return {static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}

template <>
POOLGRAD_INLINE Float16 FromFloat<Float16>(float value) {
  constexpr uint32_t kLeastNormal = 0x38800000;  // 2^-14
  constexpr uint32_t kOverflow = 0x477ff000;     // 65520 rounds to infinity
  constexpr uint32_t kInfinity = 0x7f800000;
  const uint32_t bits = BitCast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  const uint32_t large = magnitude > kInfinity ? nan : 0x7c00u;
  const uint32_t tie_to_even = (magnitude >> 13) & 1u;
  const uint32_t normal = (magnitude + 0xfffu + tie_to_even - ((127u - 15u) << 23)) >> 13;
  // In [0.5, 1) floats are 2^-24 apart, as subnormal halves are: the addition rounds.
  const uint32_t small = BitCast<uint32_t>(BitCast<float>(magnitude) + 0.5f) - BitCast<uint32_t>(0.5f);
  const uint32_t finite = magnitude < kLeastNormal ? small : normal;
  return {static_cast<uint16_t>(sign | (magnitude >= kOverflow ? large : finite))};
}

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_HALF_H_
