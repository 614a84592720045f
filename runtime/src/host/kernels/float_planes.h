// SPDX-License-Identifier: Apache-2.0

// Conversions between planes and contiguous planes of float, which represents every value of the other types.
#ifndef POOLGRAD_HOST_KERNELS_FLOAT_PLANES_H_
#define POOLGRAD_HOST_KERNELS_FLOAT_PLANES_H_

#include <cstring>
#include <type_traits>
#include <utility>

#include "host/kernels/half.h"
#include "host/kernels/plane_access.h"
#include "host/kernels/simd/operations.h"

namespace poolgrad::host {

inline void Widen(const Float16* from, int64_t count, float* to) { simd::Vectors().widen_float16(from, count, to); }
inline void Widen(const BFloat16* from, int64_t count, float* to) { simd::Vectors().widen_bfloat16(from, count, to); }

inline void Round(const float* from, int64_t count, Float16* to) { simd::Vectors().round_float16(from, count, to); }
inline void Round(const float* from, int64_t count, BFloat16* to) { simd::Vectors().round_bfloat16(from, count, to); }
inline void Round(const float* from, int64_t count, float* to) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

// As Round; sets the floats to 0.
inline void RoundAndClear(float* from, int64_t count, Float16* to) {
  simd::Vectors().round_and_clear_float16(from, count, to);
}
inline void RoundAndClear(float* from, int64_t count, BFloat16* to) {
  simd::Vectors().round_and_clear_bfloat16(from, count, to);
}

// Rounds a contiguous plane of floats into `planes`.
template <typename T>
void WriteRounded(const float* floats, const Planes& planes, int64_t plane) {
  T* data = PlaneData<T>(planes, plane);
  if (planes.PlaneIsContiguous()) return Round(floats, planes.plane_size(), data);
  ForOffsets(planes, [&](int64_t offset) { data[offset] = FromFloat<T>(*floats++); });
}

// From this number of bytes on, planes are cleared before they are written: memset writes cache lines without reading
// them first, unlike vector stores.
constexpr size_t kLeastTaken = 2048;

// As WriteRounded; sets the floats to 0.
template <typename T>
void WriteRoundedAndClear(float* floats, const Planes& planes, int64_t plane) {
  T* data = PlaneData<T>(planes, plane);
  if constexpr (!std::is_same_v<T, float>) {
    if (planes.PlaneIsContiguous()) {
      const size_t bytes = static_cast<size_t>(planes.plane_size()) * sizeof(T);
      if (bytes >= kLeastTaken) std::memset(static_cast<void*>(data), 0, bytes);
      return RoundAndClear(floats, planes.plane_size(), data);
    }
  }
  ForOffsets(planes, [&](int64_t offset) { data[offset] = FromFloat<T>(std::exchange(*floats++, 0.0f)); });
}

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_FLOAT_PLANES_H_
