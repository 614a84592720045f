// The operations for the processor that this is compiled for, with vectors of POOLGRAD_LANES elements of 4 bytes.
// Nothing here may be shared with the rest of the library, which runs on other processors: no function is seen outside
// of the file that includes this, and none of the C++ library is called.

#include "host/kernels/simd/operations.h"

namespace poolgrad::host::simd {
namespace {

constexpr int64_t kLanes = POOLGRAD_LANES;
static_assert(kMostLanes % kLanes == 0);

typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef int32_t Ints __attribute__((vector_size(kLanes * 4)));

template <typename Half>
void Widen(const Half* __restrict from, int64_t count, float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = ToFloat(from[i]);
}

template <typename Half>
void Round(const float* __restrict from, int64_t count, Half* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = FromFloat<Half>(from[i]);
}

void WidenIndices(const int32_t* __restrict from, int64_t count, int64_t* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

template <typename Vector, typename Element>
void Load(const Element* from, Vector& to) {
  __builtin_memcpy(&to, from, sizeof(to));
}

template <typename Vector, typename Element>
void Store(const Vector& from, Element* to) {
  __builtin_memcpy(to, &from, sizeof(from));
}

constexpr int64_t kAhead = 1024;
// 0, 1, 2, ...
constexpr int32_t kLaneNumbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static_assert(sizeof(kLaneNumbers) == kMostLanes * sizeof(int32_t));

bool Any(const Ints& mask) {
  int32_t any = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) any |= mask[lane];
  return any != 0;
}

// The maxima of each of kLanes columns from `column` on. Returns a mask of the columns with a NaN.
template <typename LoadElements>
Ints PoolColumns(const int64_t* rows, int64_t row_count, int64_t column, const LoadElements& load, const Maxima& to) {
  Floats best;
  load(rows[0] + column, best);
  Ints best_row = Ints{} + static_cast<int32_t>(rows[0]);
  Ints nan = best != best;
  for (int64_t row = 1; row < row_count; ++row) {
    Floats values;
    load(rows[row] + column, values);
    const Ints greater = values > best;
    best_row = greater ? Ints{} + static_cast<int32_t>(rows[row]) : best_row;
    best = greater ? values : best;
    nan |= values != values;
  }
  Ints lanes;
  Load(kLaneNumbers, lanes);
  Store(best, to.values);
  Store(best_row + static_cast<int32_t>(column) + lanes, to.indices);
  return nan;
}

// The maxima of all columns of a row. Returns whether there is a NaN.
bool PoolAllColumns(const FloatPlane& plane, const int64_t* rows, int64_t row_count, int64_t width, const Maxima& to) {
  const auto load = [&](int64_t first, Floats& values) {
    __builtin_prefetch(plane.data + first + kAhead);
    Load(plane.data + first, values);
  };
  const auto load_readable = [&](int64_t first, Floats& values) {
    values = Floats{};
    const int64_t left = plane.readable - first;
    __builtin_memcpy(&values, plane.data + first, static_cast<size_t>(left < kLanes ? left : kLanes) * sizeof(float));
  };
  const int64_t last_row = rows[row_count - 1];
  Ints nan = {};
  int64_t column = 0;
  for (; column < width && last_row + column + kLanes <= plane.readable; column += kLanes) {
    nan |= PoolColumns(rows, row_count, column, load, {to.values + column, to.indices + column});
  }
  if (column < width) nan |= PoolColumns(rows, row_count, column, load_readable, {to.values + column, to.indices + column});
  return Any(nan);
}

void SplitEvenOdd(const Maxima& columns, int64_t pitch, const Maxima& to) {
  const float* __restrict values = columns.values;
  float* __restrict even_values = to.values;
  float* __restrict odd_values = to.values + pitch;
  for (int64_t i = 0; i < pitch; ++i) {
    even_values[i] = values[2 * i];
    odd_values[i] = values[2 * i + 1];
  }
  const int32_t* __restrict indices = columns.indices;
  int32_t* __restrict even_indices = to.indices;
  int32_t* __restrict odd_indices = to.indices + pitch;
  for (int64_t i = 0; i < pitch; ++i) {
    even_indices[i] = indices[2 * i];
    odd_indices[i] = indices[2 * i + 1];
  }
}

void ArrangeByTable(const Maxima& columns, const RowWindows& windows, const Maxima& to) {
  for (int64_t i = 0; i < windows.source_size; ++i) {
    to.values[i] = columns.values[windows.source[i]];
    to.indices[i] = columns.indices[windows.source[i]];
  }
}

void PoolWindows(const RowWindows& windows, const Maxima& arranged, const Maxima& to) {
  for (int64_t first = 0; first < windows.count; first += kLanes) {
    Floats best;
    Ints best_index;
    Load(arranged.values + windows.offsets[0] + first, best);
    Load(arranged.indices + windows.offsets[0] + first, best_index);
    for (int64_t tap = 1; tap < windows.taps; ++tap) {
      Floats values;
      Ints indices;
      Load(arranged.values + windows.offsets[tap] + first, values);
      Load(arranged.indices + windows.offsets[tap] + first, indices);
      const Ints better = (values > best) | ((values == best) & (indices < best_index));
      best = better ? values : best;
      best_index = better ? indices : best_index;
    }
    Store(best, to.values + first);
    Store(best_index, to.indices + first);
  }
}

bool PoolRow(const RowWindows& windows, const FloatPlane& plane, const int64_t* rows, int64_t row_count,
             const Maxima& columns, const Maxima& arranged, const Maxima& maxima) {
  const Maxima row = {columns.values + windows.padding, columns.indices + windows.padding};
  if (PoolAllColumns(plane, rows, row_count, windows.width, row)) return false;
  for (int64_t i = 0; i < kLanes; ++i) {
    row.values[windows.width + i] = -__builtin_inff();
    row.indices[windows.width + i] = kNoIndex;
  }
  if (windows.arrangement == Arrangement::kAsTheyAre) {
    PoolWindows(windows, columns, maxima);
    return true;
  }
  if (windows.arrangement == Arrangement::kEvenOdd) {
    SplitEvenOdd(columns, windows.pitch, arranged);
  } else {
    ArrangeByTable(columns, windows, arranged);
  }
  PoolWindows(windows, arranged, maxima);
  return true;
}

constexpr Operations kOperations = {Widen<Float16>, Widen<BFloat16>, Round<Float16>,
                                    Round<BFloat16>, WidenIndices,    PoolRow};

}  // namespace
}  // namespace poolgrad::host::simd
