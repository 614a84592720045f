// The 16-bit floating-point types, as bits, and their conversions. Portable; rounding is to nearest, ties to
// even; a NaN stays a NaN.
#ifndef POOLGRAD_HOST_KERNELS_HALF_H_
#define POOLGRAD_HOST_KERNELS_HALF_H_

#include <cstdint>
#include <cstring>

namespace poolgrad::host {

struct Float16 {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

template <typename To, typename From>
To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline float ToFloat(float value) { return value; }

inline float ToFloat(BFloat16 value) { return BitCast<float>(uint32_t{value.bits} << 16); }

inline float ToFloat(Float16 value) {
  const uint32_t sign = (value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: multiples of 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return BitCast<float>(sign | BitCast<uint32_t>(magnitude));
  }
  const uint32_t wide_exponent = exponent == 0x1f ? 0xffu : exponent + (127 - 15);
  return BitCast<float>(sign | (wide_exponent << 23) | (mantissa << 13));
}

template <typename T>
T FromFloat(float value);

template <>
inline float FromFloat<float>(float value) {
  return value;
}

template <>
inline BFloat16 FromFloat<BFloat16>(float value) {
  const uint32_t bits = BitCast<uint32_t>(value);
  if (value != value) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  const uint32_t tie_to_even = (bits >> 16) & 1u;
  return {static_cast<uint16_t>((bits + 0x7fffu + tie_to_even) >> 16)};
}

template <>
inline Float16 FromFloat<Float16>(float value) {
  constexpr uint32_t kLeastNormal = 0x38800000;  // 2^-14
  constexpr uint32_t kOverflow = 0x477ff000;     // 65520 rounds to infinity
  constexpr uint32_t kInfinity = 0x7f800000;
  const uint32_t bits = BitCast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > kInfinity) {
    half = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  } else if (magnitude >= kOverflow) {
    half = 0x7c00u;
  } else if (magnitude < kLeastNormal) {
    // In [0.5, 1) floats are 2^-24 apart, as subnormal halves are: the addition rounds.
    half = BitCast<uint32_t>(BitCast<float>(magnitude) + 0.5f) - BitCast<uint32_t>(0.5f);
  } else {
    const uint32_t tie_to_even = (magnitude >> 13) & 1u;
    half = (magnitude + 0xfffu + tie_to_even - ((127u - 15u) << 23)) >> 13;
  }
  return {static_cast<uint16_t>(sign | half)};
}

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_HALF_H_
