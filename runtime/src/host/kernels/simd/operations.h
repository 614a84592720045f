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

// How the windows along one row of a plane find their elements. The maxima of columns, one for each element of the row,
// are arranged so that element `tap` of the windows 0, 1, 2, ... lies at offsets[tap] + 0, 1, 2, ...
enum class Arrangement {
  kAsTheyAre,  // behind `padding` elements that are never a maximum
  kEvenOdd,    // the same, those at even positions first, then, from `pitch` on, those at odd ones
  kByTable,    // element i is that of column source[i], or of the padding behind the last column
};

struct RowWindows {
  Arrangement arrangement;
  int64_t width;    // of a row
  int64_t padding;  // in front of it
  int64_t pitch;    // a multiple of kMostLanes
  int64_t source_size;
  const int32_t* source;
  int64_t taps;
  const int64_t* offsets;
  int64_t count;  // of windows
};

// A value and where in the plane it is, each in an array of its own.
struct Maxima {
  float* values;
  int32_t* indices;
};

// A plane in row-major order; elements up to `readable` may be read.
struct FloatPlane {
  const float* data;
  int64_t readable;
};

struct Operations {
  void (*widen_float16)(const Float16* from, int64_t count, float* to);
  void (*widen_bfloat16)(const BFloat16* from, int64_t count, float* to);
  void (*round_float16)(const float* from, int64_t count, Float16* to);
  void (*round_bfloat16)(const float* from, int64_t count, BFloat16* to);
  void (*widen_indices)(const int32_t* from, int64_t count, int64_t* to);

  // The maxima of a row of windows over the plane's rows that begin at the elements `rows`, in ascending order; of equal
  // values the first in row-major order. Returns false if a NaN was met, and the maxima are then none. `columns` and
  // `arranged` are for its use, and hold what kNoMaximum says before the first row. Null where only elements are
  // worked on one after another.
  bool (*pool_row)(const RowWindows& windows, const FloatPlane& plane, const int64_t* rows, int64_t row_count,
                   const Maxima& columns, const Maxima& arranged, const Maxima& maxima);
};

// Less than every other value and, at its index, last among equal ones.
constexpr int32_t kNoIndex = INT32_MAX;

// Those that were chosen, else the fastest that the processor has.
const Operations& Vectors();

// Chooses by name ("avx512", "avx2", "portable", "scalar"; "" for the fastest). False if there is no such table here.
bool ChooseVectors(std::string_view name);

}  // namespace poolgrad::host::simd

#endif  // POOLGRAD_HOST_KERNELS_SIMD_OPERATIONS_H_
