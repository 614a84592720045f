// SPDX-License-Identifier: Apache-2.0

// The 16-bit floating-point types, as bits, and their conversions. Portable. Rounds to nearest, ties to even; a NaN
// stays a NaN.
#ifndef POOLGRAD_HOST_KERNELS_HALF_H_
#define POOLGRAD_HOST_KERNELS_HALF_H_

#include <cstdint>
#include <cstring>

namespace poolgrad::host {

// Always inlined, because the vector kernels compile these for other instruction sets. Without branches, which vectors
// do not have. The results do not depend on whether the thread flushes subnormal floats to 0.
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

// The conversions, for one number or a vector: Words are uint32_t, with the half in the lower 16 bits.

template <typename Floats, typename Words>
POOLGRAD_INLINE Floats WidenFloat16(Words bits) {
  constexpr uint32_t kRebias = (127 - 15) << 23;
  constexpr uint32_t kLeastNormal = 0x38800000;  // 2^-14
  const Words magnitude = (bits & 0x7fffu) << 13;
  const Words normal = magnitude + kRebias;
  const Words infinite = normal + kRebias;  // or NaN
  // With the exponent of 2^-14, a subnormal is too large by 2^-14.
  const Words small = BitCast<Words>(BitCast<Floats>(magnitude + kLeastNormal) - 0x1p-14f);
  const Words wide = magnitude >= (0x1fu << 23) ? infinite : normal;
  return BitCast<Floats>(((bits & 0x8000u) << 16) | (magnitude < (1u << 23) ? small : wide));
}

template <typename Floats, typename Words>
POOLGRAD_INLINE Floats WidenBFloat16(Words bits) {
  return BitCast<Floats>(bits << 16);
}

template <typename Words, typename Floats>
POOLGRAD_INLINE Words RoundToFloat16(Floats value) {
  constexpr uint32_t kLeastNormal = 0x38800000;  // 2^-14
  constexpr uint32_t kOverflow = 0x477ff000;     // 65520 rounds to infinity
  constexpr uint32_t kInfinity = 0x7f800000;
  const Words bits = BitCast<Words>(value);
  const Words magnitude = bits & 0x7fffffffu;
  const Words nan = ((magnitude >> 13) & 0x1ffu) | 0x7e00u;
  const Words large = magnitude > kInfinity ? nan : (bits & 0u) + 0x7c00u;
  const Words tie_to_even = (magnitude >> 13) & 1u;
  const Words normal = (magnitude + tie_to_even + (0xfffu - ((127u - 15u) << 23))) >> 13;
  // In [0.5, 1) floats are 2^-24 apart, like subnormal halves: the addition rounds.
  const Words small = BitCast<Words>(BitCast<Floats>(magnitude) + 0.5f) - BitCast<uint32_t>(0.5f);
  const Words finite = magnitude < kLeastNormal ? small : normal;
  return ((bits >> 16) & 0x8000u) | (magnitude >= kOverflow ? large : finite);
}

template <typename Words, typename Floats>
POOLGRAD_INLINE Words RoundToBFloat16(Floats value) {
  const Words bits = BitCast<Words>(value);
  const Words nan = (bits >> 16) | 0x40u;
  const Words tie_to_even = (bits >> 16) & 1u;
  return (bits & 0x7fffffffu) > 0x7f800000u ? nan : (bits + tie_to_even + 0x7fffu) >> 16;
}

inline float ToFloat(float value) { return value; }
inline float ToFloat(Float16 value) { return WidenFloat16<float>(uint32_t{value.bits}); }
inline float ToFloat(BFloat16 value) { return WidenBFloat16<float>(uint32_t{value.bits}); }

template <typename T>
T FromFloat(float value);

template <>
inline float FromFloat<float>(float value) {
  return value;
}

template <>
inline Float16 FromFloat<Float16>(float value) {
  return {static_cast<uint16_t>(RoundToFloat16<uint32_t>(value))};
}

template <>
inline BFloat16 FromFloat<BFloat16>(float value) {
  return {static_cast<uint16_t>(RoundToBFloat16<uint32_t>(value))};
}

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_HALF_H_
