// SPDX-License-Identifier: Apache-2.0

// The operations for the instruction set that this is compiled for, with vectors of POOLGRAD_LANES elements of 4 bytes.
// The rest of the library also runs on other processors, so nothing here may be shared with it: all functions are local
// to the file that includes this one, and none of the C++ library is called.

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <utility>

#include "host/kernels/half.h"
#include "host/kernels/simd/operations.h"

namespace poolgrad::host::simd {
namespace {

constexpr int64_t kLanes = POOLGRAD_LANES;
static_assert(kMostLanes % kLanes == 0);

#include "host/kernels/simd/half_vectors.h"
#include "host/kernels/simd/strided_vectors.h"

// The prefetch distance in bytes. Rows of windows jump between the rows of the plane, which hardware prefetchers do not
// predict.
constexpr int64_t kAhead = 4096;

// 0, 1, 2, ...
constexpr int32_t kLaneNumbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static_assert(sizeof(kLaneNumbers) == kMostLanes * sizeof(int32_t));

// Fewer elements than a vector has lanes are copied to a vector first.
template <typename T>
void LoadSome(const T* from, int64_t count, Floats& to) {
  T some[kLanes] = {};
  __builtin_memcpy(some, from, static_cast<size_t>(count) * sizeof(T));
  LoadFloats(some, to);
}

template <typename From, typename To>
void ConvertSome(const From* from, int64_t count, To* to) {
  Floats floats;
  LoadSome(from, count, floats);
  To some[kLanes];
  StoreFloats(floats, some);
  __builtin_memcpy(to, some, static_cast<size_t>(count) * sizeof(To));
}

// The last vector ends with the last element, and may overlap the one before it.
template <typename From, typename To>
void Convert(const From* from, int64_t count, To* to) {
  if (count < kLanes) return ConvertSome(from, count, to);
  const int64_t last = count - kLanes;
  Floats floats;
  for (int64_t i = 0; i < last; i += kLanes) {
    LoadFloats(from + i, floats);
    StoreFloats(floats, to + i);
  }
  LoadFloats(from + last, floats);
  StoreFloats(floats, to + last);
}

// As Convert; sets the floats to 0.
template <typename To>
void ConvertAndClear(float* from, int64_t count, To* to) {
  if (count < kLanes) {
    ConvertSome(from, count, to);
    __builtin_memset(from, 0, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  const int64_t last = count - kLanes;
  Floats floats, last_floats;
  LoadFloats(from + last, last_floats);
  for (int64_t i = 0; i < last; i += kLanes) {
    LoadFloats(from + i, floats);
    StoreFloats(floats, to + i);
    Store(Floats{}, from + i);
  }
  StoreFloats(last_floats, to + last);
  Store(Floats{}, from + last);
}

// Calls body(0), body(1), ... with constants, so that arrays of vectors are registers.
template <int64_t kCount, int64_t kFirst = 0, typename Body>
POOLGRAD_INLINE void Unrolled(const Body& body) {
  body(kFirst);
  if constexpr (kFirst + 1 < kCount) Unrolled<kCount, kFirst + 1>(body);
}

void WidenIndices(const int32_t* __restrict from, int64_t count, int64_t* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

#include "host/kernels/simd/average_vectors.h"

bool Any(const Ints& mask) {
  int32_t any = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) any |= mask[lane];
  return any != 0;
}

// Computes the maxima of kVectors vectors of columns from `column` on. Returns a mask of the lanes with a NaN.
template <int64_t kVectors, typename LoadElements>
Ints PoolSomeColumns(Rows rows, int64_t column, const LoadElements& load, const Maxima& to) {
  Floats best[kVectors];
  Ints best_row[kVectors];
  Ints nan = {};
  Unrolled<kVectors>([&](int64_t i) {
    load(rows.begins[0] + column + i * kLanes, best[i]);
    best_row[i] = Ints{} + static_cast<int32_t>(rows.begins[0]);
    nan |= best[i] != best[i];
  });
  for (int64_t row = 1; row < rows.count; ++row) {
    const Ints this_row = Ints{} + static_cast<int32_t>(rows.begins[row]);
    Unrolled<kVectors>([&](int64_t i) {
      Floats values;
      load(rows.begins[row] + column + i * kLanes, values);
      const Ints greater = values > best[i];
      best_row[i] = greater ? this_row : best_row[i];
      best[i] = greater ? values : best[i];
      nan |= values != values;
    });
  }
  Ints lanes;
  Load(kLaneNumbers, lanes);
  Unrolled<kVectors>([&](int64_t i) {
    Store(best[i], to.values + column + i * kLanes);
    Store(best_row[i] + static_cast<int32_t>(column + i * kLanes) + lanes, to.indices + column + i * kLanes);
  });
  return nan;
}

// Computes the maxima of all columns of the rows, and writes the padding after them. Returns a nonzero mask if there is
// a NaN.
template <typename T>
Ints PoolColumns(Plane<T> plane, Rows rows, int64_t width, const Maxima& to) {
  const auto load = [&](int64_t first, Floats& values) {
    __builtin_prefetch(plane.data + first + kAhead / sizeof(T));
    LoadFloats(plane.data + first, values);
  };
  const auto load_readable = [&](int64_t first, Floats& values) {
    const int64_t left = plane.readable - first;
    LoadSome(plane.data + first, left < kLanes ? left : kLanes, values);
  };
  const int64_t last_row = rows.begins[rows.count - 1];
  Ints nan = {};
  int64_t column = 0;
  for (; column + 4 * kLanes <= width; column += 4 * kLanes) nan |= PoolSomeColumns<4>(rows, column, load, to);
  for (; column < width && last_row + column + kLanes <= plane.readable; column += kLanes) {
    nan |= PoolSomeColumns<1>(rows, column, load, to);
  }
  if (column < width) nan |= PoolSomeColumns<1>(rows, column, load_readable, to);
  Store(Floats{} - __builtin_inff(), to.values + width);
  Store(Ints{} + kNoIndex, to.indices + width);
  return nan;
}

void Arrange(const RowWindows& windows, const Maxima& columns, const Maxima& to) {
  for (int64_t i = 0; i < windows.arranged_size; ++i) {
    to.values[i] = columns.values[windows.source[i]];
    to.indices[i] = columns.indices[windows.source[i]];
  }
}

Maxima From(const Maxima& maxima, int64_t element) { return {maxima.values + element, maxima.indices + element}; }

// Computes the maxima of a row of windows that are `kStride` elements apart.
template <int64_t kStride>
void PoolWindows(const RowWindows& windows, Maxima elements, Maxima to) {
  const int64_t count = windows.count;
  const int64_t* const offsets = windows.offsets;
  const int64_t* const end = offsets + windows.taps;
  for (int64_t first = 0; first < count; first += kLanes) {
    Floats best;
    Ints best_index;
    LoadUnordered<kStride>(elements.values + *offsets + first * kStride, best);
    LoadUnordered<kStride>(elements.indices + *offsets + first * kStride, best_index);
    for (const int64_t* offset = offsets + 1; offset < end; ++offset) {
      Floats values;
      Ints indices;
      LoadUnordered<kStride>(elements.values + *offset + first * kStride, values);
      LoadUnordered<kStride>(elements.indices + *offset + first * kStride, indices);
      const Ints better = (values > best) | ((values == best) & (indices < best_index));
      best = better ? values : best;
      best_index = better ? indices : best_index;
    }
    Order<kStride>(best);
    Order<kStride>(best_index);
    Store(best, to.values + first);
    Store(best_index, to.indices + first);
  }
}

template <int64_t kStride>
void PoolRowsOfWindows(const RowWindows& windows, int64_t rows, const Maxima& elements, int64_t size,
                       const Maxima& to) {
  for (int64_t row = 0; row < rows; ++row) {
    PoolWindows<kStride>(windows, From(elements, row * size), From(to, row * windows.count));
  }
}

constexpr decltype(&PoolRowsOfWindows<1>) kPoolRowsOfWindows[] = {PoolRowsOfWindows<1>, PoolRowsOfWindows<2>,
                                                                  PoolRowsOfWindows<3>, PoolRowsOfWindows<4>};
static_assert(sizeof(kPoolRowsOfWindows) / sizeof(*kPoolRowsOfWindows) == kLongestStride);

template <typename T>
uint32_t Pool(const RowWindows& windows, const Plane<T>& plane, const Rows* rows, int64_t count, const Maxima& columns,
              const Maxima& arranged, const Maxima& maxima) {
  Ints nan[kMostRows];
  Ints any_nan = {};
  for (int64_t row = 0; row < count; ++row) {
    const Maxima of_row = From(columns, row * windows.columns_size + windows.padding);
    nan[row] = PoolColumns(plane, rows[row], windows.width, of_row);
    any_nan |= nan[row];
  }
  const bool by_table = windows.arranged_size != 0;
  for (int64_t row = 0; row < count && by_table; ++row) {
    Arrange(windows, From(columns, row * windows.columns_size), From(arranged, row * windows.arranged_size));
  }
  kPoolRowsOfWindows[windows.stride - 1](windows, count, by_table ? arranged : columns,
                                         by_table ? windows.arranged_size : windows.columns_size, maxima);
  if (!Any(any_nan)) return 0;
  uint32_t rows_with_nan = 0;
  for (int64_t row = 0; row < count; ++row) rows_with_nan |= uint32_t{Any(nan[row])} << row;
  return rows_with_nan;
}

constexpr Operations kOperations = {
    kLanes,
    Convert<Float16, float>,
    Convert<BFloat16, float>,
    Convert<float, Float16>,
    Convert<float, BFloat16>,
    ConvertAndClear<Float16>,
    ConvertAndClear<BFloat16>,
    WidenIndices,
    Sum,
    {ComputeTerms<float>, StoreRows<float>, SumRows<float>, SumSliding<float>, GatherRows<float>},
    {ComputeTerms<Float16>, StoreRows<Float16>, SumRows<Float16>, SumSliding<Float16>, GatherRows<Float16>},
    {ComputeTerms<BFloat16>, StoreRows<BFloat16>, SumRows<BFloat16>, SumSliding<BFloat16>, GatherRows<BFloat16>},
    Pool<float>,
    Pool<Float16>,
    Pool<BFloat16>};

}  // namespace
}  // namespace poolgrad::host::simd
