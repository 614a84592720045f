// SPDX-License-Identifier: Apache-2.0

// The vector operations: one table of functions for each instruction set, compiled from the same source, and the choice
// of a table. All tables give the same bits. Inputs must not overlap outputs.
#ifndef POOLGRAD_HOST_KERNELS_SIMD_OPERATIONS_H_
#define POOLGRAD_HOST_KERNELS_SIMD_OPERATIONS_H_

#include <cstdint>
#include <string_view>

#include "host/kernels/half.h"

namespace poolgrad::host::simd {

// The largest number of lanes of a vector. Whole vectors are read and written, also beyond the last element.
constexpr int64_t kMostLanes = 16;

// The positions of the windows' elements in the column maxima of a row of windows: one maximum for each element of the
// row, after `padding` elements that are never a maximum. Element `tap` of the windows 0, 1, 2, ... is at offsets[tap]
// + 0, stride, 2 stride, ... With a table, these are positions in an arranged copy: its element i is column source[i],
// or the padding after the last column.
struct RowWindows {
  int64_t width;         // of a row
  int64_t padding;       // number of elements before the row
  int64_t columns_size;  // including the elements that are read after the row
  const int32_t* source;
  int64_t arranged_size;  // 0 without a table
  int64_t taps;
  const int64_t* offsets;
  int64_t stride;
  int64_t count;  // of windows
};

// Maxima of windows with longer strides need a table.
constexpr int64_t kLongestStride = 4;

// Values and their indices in the plane, in separate arrays.
struct Maxima {
  float* values;
  int32_t* indices;
};

// A plane in row-major order. `readable` elements may be read.
template <typename T>
struct Plane {
  const T* data;
  int64_t readable;
};

// The rows of a plane that a row of windows covers: the index of the first element of each, in ascending order.
struct Rows {
  const int64_t* begins;
  int64_t count;
};

// The number of rows of windows that are processed together, so that the values that one step writes have left the
// store buffer before the next step reads them.
constexpr int64_t kMostRows = 8;

// Computes the maxima of `count` rows of windows, at most kMostRows; of equal values the first in row-major order. The
// maxima of a row follow those of the row before, windows.count of them. Returns a mask of the rows of windows that
// contain a NaN, whose maxima are invalid. `columns` and `arranged` are scratch memory: kMostRows times the size for
// one row; columns hold -inf and kNoIndex before the first call.
template <typename T>
using PoolRows = uint32_t (*)(const RowWindows& windows, const Plane<T>& plane, const Rows* rows, int64_t count,
                              const Maxima& columns, const Maxima& arranged, const Maxima& maxima);

// The terms of `count` rows of `width` gradients, which follow each other: gradient / operand or gradient * operand. A
// term of -0 is +0, as in a sum that begins with 0. `readable` gradients may be read, and whole vectors of operands.
template <typename T>
struct Terms {
  const T* grads;
  int64_t readable;
  const float* const* operands;  // a row for each
  bool divides;
  int64_t count, width;
};

// Writes rows of terms `pitch` apart, each with zeros up to a whole vector, which the next row may overwrite.
template <typename T>
using WriteTerms = void (*)(const Terms<T>& terms, int64_t pitch, float* to);

// Positions 0 ... stride - 1 in `count` parts of consecutive ones: part i ends before ends[i].
struct Parts {
  int64_t stride;
  const int64_t* ends;
  int64_t count;
};

// The sums that rows of x consist of: element (q heights.stride + r, p widths.stride + s) is
// columns[i][q pitch + p], where i counts the pairs of the parts of r and s.
struct SumsOfRows {
  const float* const* columns;
  Parts heights, widths;
  int64_t pitch;
  int64_t width;  // of a row of x
};

// Writes `rows` rows of x, which follow each other, in ascending order. Whole vectors are written, but nothing from
// `end` on. `offset` is added to the columns, of which whole vectors are read.
template <typename T>
using WriteRows = void (*)(const SumsOfRows& sums, int64_t offset, int64_t rows, T* to, const T* end);

// The place of no element.
constexpr int32_t kNoPlace = -1;

constexpr int64_t kMostAddends = 4;

// Sums of `addends` elements of a row, at most kMostAddends: the vector of number v < `count` has those from firsts[v]
// on. Lane l of its addend i is element bases[j] + places[j lanes + l] of the row, for j = v addends + i and a place
// below the number of lanes; it is 0 for kNoPlace.
struct Gather {
  const int64_t* firsts;
  const int64_t* bases;
  const int32_t* places;
  int64_t count, addends;
};

// `count` rows, `pitch` apart.
struct FloatRows {
  const float* data;
  int64_t count, pitch;
};

// Writes the `pitch` sums of each row, which follow those of the row before, in the order of their addends. Whole
// vectors are read.
template <typename T>
using GatherSums = void (*)(const Gather& gather, const FloatRows& rows, T* to, int64_t pitch);

// The addends of the sums of rows of x: `count` for each row, row after row.
struct RowAddends {
  const float* const* rows;
  int64_t count;
};

// Writes `rows` rows of x of `width` sums, which follow each other, in ascending order. Whole vectors are read and
// written, but nothing from `end` on.
template <typename T>
using SumRowsTo = void (*)(const RowAddends& addends, int64_t rows, int64_t width, T* to, const T* end);

// Windows of larger sizes do not slide.
constexpr int64_t kLargestSlide = 5;

// The terms of windows of `size` x `size` that slide by one element: those of element (h, w) are first[(h + i) pitch +
// w + j] for all i and j < size, from 2 to kLargestSlide, in ascending order. The sums of rows are added if
// `rows_first`.
struct SlidingTerms {
  const float* first;
  int64_t size, pitch;
  bool rows_first;
};

// Writes `rows` rows of x of `width` sums, which follow each other. Whole vectors are read and written, but nothing
// from `end` on.
template <typename T>
using SumSlidingTo = void (*)(const SlidingTerms& terms, int64_t rows, int64_t width, T* to, const T* end);

template <typename T>
struct AverageOperations {
  WriteTerms<T> terms;
  WriteRows<T> rows;
  SumRowsTo<T> sums;
  SumSlidingTo<T> sliding;
  GatherSums<T> gather;
};

struct Operations {
  int64_t lanes;  // of a vector
  void (*widen_float16)(const Float16* from, int64_t count, float* to);
  void (*widen_bfloat16)(const BFloat16* from, int64_t count, float* to);
  void (*round_float16)(const float* from, int64_t count, Float16* to);
  void (*round_bfloat16)(const float* from, int64_t count, BFloat16* to);
  void (*round_and_clear_float16)(float* from, int64_t count, Float16* to);  // sets the floats to 0
  void (*round_and_clear_bfloat16)(float* from, int64_t count, BFloat16* to);
  void (*widen_indices)(const int32_t* from, int64_t count, int64_t* to);

  // Computes `width` sums of `count` rows, at least one, each in the order of the rows. Whole vectors are read and
  // written.
  void (*sum)(const float* const* rows, int64_t count, int64_t width, float* to);

  AverageOperations<float> average_float;
  AverageOperations<Float16> average_float16;
  AverageOperations<BFloat16> average_bfloat16;

  // Null if windows are computed element by element.
  PoolRows<float> pool_float;
  PoolRows<Float16> pool_float16;
  PoolRows<BFloat16> pool_bfloat16;
};

// The index of padding, whose value is -inf: larger than that of every equal element.
constexpr int32_t kNoIndex = INT32_MAX;

// The chosen table, or the fastest that the processor supports.
const Operations& Vectors();

// Chooses a table by name ("avx512", "avx2", "portable", "scalar"; "" for the fastest). False if it is not available.
bool ChooseVectors(std::string_view name);

}  // namespace poolgrad::host::simd

#endif  // POOLGRAD_HOST_KERNELS_SIMD_OPERATIONS_H_
