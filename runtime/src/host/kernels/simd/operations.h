// What is done with vectors: one table of functions for each kind of processor, compiled from the same source, and the
// choice among them. All give the same bits; what they are given must not overlap what they write.
#ifndef POOLGRAD_HOST_KERNELS_SIMD_OPERATIONS_H_
#define POOLGRAD_HOST_KERNELS_SIMD_OPERATIONS_H_

#include <cstdint>
#include <string_view>

#include "host/kernels/half.h"

namespace poolgrad::host::simd {

// The most lanes of a vector; whole vectors are read and written, beyond the last element.
constexpr int64_t kMostLanes = 16;

// How the windows along one row of a plane find their elements among the maxima of columns, one for each element of the
// row, which stand behind `padding` elements that are never a maximum. Element `tap` of the windows 0, 1, 2, ... lies
// at offsets[tap] + 0, stride, 2 stride, ...
// With a table, that is so of what it arranges: its element i is that of column source[i], or of the padding behind the
// last column.
struct RowWindows {
  int64_t width;         // of a row
  int64_t padding;       // in front of it
  int64_t columns_size;  // with what is read behind it
  const int32_t* source;
  int64_t arranged_size;  // 0 without a table
  int64_t taps;
  const int64_t* offsets;
  int64_t stride;
  int64_t count;  // of windows
};

// Longer strides need a table.
constexpr int64_t kLongestStride = 4;

// A value and where in the plane it is, each in an array of its own.
struct Maxima {
  float* values;
  int32_t* indices;
};

// A plane in row-major order; elements up to `readable` may be read.
template <typename T>
struct Plane {
  const T* data;
  int64_t readable;
};

// The rows of a plane that a row of windows reaches, by the elements that they begin at, in ascending order.
struct Rows {
  const int64_t* begins;
  int64_t count;
};

// So many rows of windows are worked on together: what one step writes has left the processor's store buffer before the
// next reads it.
constexpr int64_t kMostRows = 8;

// For the `count` rows of windows `rows`, at most kMostRows: the maxima, of equal values the first in row-major order,
// those of a row windows.count behind those of the row before. Returns a mask of the rows of windows that reach a NaN,
// whose maxima are not those. `columns` and `arranged` are for its use: kMostRows times what a row takes, and columns
// hold -inf and kNoIndex before the first call.
template <typename T>
using PoolRows = uint32_t (*)(const RowWindows& windows, const Plane<T>& plane, const Rows* rows, int64_t count,
                              const Maxima& columns, const Maxima& arranged, const Maxima& maxima);

struct Operations {
  void (*widen_float16)(const Float16* from, int64_t count, float* to);
  void (*widen_bfloat16)(const BFloat16* from, int64_t count, float* to);
  void (*round_float16)(const float* from, int64_t count, Float16* to);
  void (*round_bfloat16)(const float* from, int64_t count, BFloat16* to);
  void (*round_and_clear_float16)(float* from, int64_t count, Float16* to);  // leaves 0 where the floats were
  void (*round_and_clear_bfloat16)(float* from, int64_t count, BFloat16* to);
  void (*widen_indices)(const int32_t* from, int64_t count, int64_t* to);

  // Null where elements are looked at one after another.
  PoolRows<float> pool_float;
  PoolRows<Float16> pool_float16;
  PoolRows<BFloat16> pool_bfloat16;
};

// Of padding, whose value is -inf: behind every element that is equal.
constexpr int32_t kNoIndex = INT32_MAX;

// Those that were chosen, else the fastest that the processor has.
const Operations& Vectors();

// Chooses by name ("avx512", "avx2", "portable", "scalar"; "" for the fastest). False if there is no such table here.
bool ChooseVectors(std::string_view name);

}  // namespace poolgrad::host::simd

#endif  // POOLGRAD_HOST_KERNELS_SIMD_OPERATIONS_H_
