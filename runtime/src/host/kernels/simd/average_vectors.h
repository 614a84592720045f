// SPDX-License-Identifier: Apache-2.0

// The operations of gradients of average pools. Part of body.h.

// Computes the terms of a vector of gradients; those from `count` on are zeros.
template <bool kDivides>
void StoreTerms(const Floats& grads, const float* operands, int64_t count, float* to) {
  Floats by;
  Load(operands, by);
  const Floats terms = (kDivides ? grads / by : grads * by) + 0.0f;
  if (count >= kLanes) return Store(terms, to);
  Ints lanes;
  Load(kLaneNumbers, lanes);
  Store(lanes < static_cast<int32_t>(count) ? terms : Floats{}, to);
}

template <bool kDivides, typename T>
void TermsOfRows(const Terms<T>& terms, int64_t pitch, float* to) {
  const T* from = terms.grads;
  const T* const end = from + terms.readable;
  const int64_t width = terms.width;
  for (int64_t row = 0; row < terms.count; ++row, from += width, to += pitch) {
    const float* const operands = terms.operands[row];
    for (int64_t i = 0; i < width; i += kLanes) {
      Floats grads;
      if (end - from - i >= kLanes) {
        LoadFloats(from + i, grads);
      } else {
        LoadSome(from + i, end - from - i, grads);
      }
      StoreTerms<kDivides>(grads, operands + i, width - i, to + i);
    }
  }
}

template <typename T>
void ComputeTerms(const Terms<T>& terms, int64_t pitch, float* to) {
  terms.divides ? TermsOfRows<true>(terms, pitch, to) : TermsOfRows<false>(terms, pitch, to);
}

Floats Loaded(const float* from) {
  Floats floats;
  Load(from, floats);
  return floats;
}

void AddTo(const float* from, Floats& sums) { sums += Loaded(from); }

// Four vectors at once, since each addition waits for the one before.
void SumFour(const float* const* rows, int64_t count, int64_t first, float* to) {
  Floats a, b, c, d;
  Load(rows[0] + first, a);
  Load(rows[0] + first + kLanes, b);
  Load(rows[0] + first + 2 * kLanes, c);
  Load(rows[0] + first + 3 * kLanes, d);
  for (int64_t row = 1; row < count; ++row) {
    const float* const from = rows[row] + first;
    AddTo(from, a);
    AddTo(from + kLanes, b);
    AddTo(from + 2 * kLanes, c);
    AddTo(from + 3 * kLanes, d);
  }
  Store(a, to + first);
  Store(b, to + first + kLanes);
  Store(c, to + first + 2 * kLanes);
  Store(d, to + first + 3 * kLanes);
}

void Sum(const float* const* rows, int64_t count, int64_t width, float* to) {
  int64_t first = 0;
  for (; first + 4 * kLanes <= width; first += 4 * kLanes) SumFour(rows, count, first, to);
  for (; first < width; first += kLanes) {
    Floats sums;
    Load(rows[0] + first, sums);
    for (int64_t row = 1; row < count; ++row) AddTo(rows[row] + first, sums);
    Store(sums, to + first);
  }
}

// Writes the sums of kRows rows at once: places are loaded once for all of them.
template <int64_t kAddends, int64_t kRows, typename T>
void GatherSomeRows(const Gather& gather, const float* from, int64_t from_pitch, T* to, int64_t pitch) {
  const int64_t* base = gather.bases;
  const int32_t* place = gather.places;
  for (int64_t vector = 0; vector < gather.count; ++vector) {
    Floats sums[kRows] = {};
    Unrolled<kAddends>([&](int64_t) {
      Ints lanes;
      Load(place, lanes);
      Unrolled<kRows>([&](int64_t row) { sums[row] += Gathered(Loaded(from + row * from_pitch + *base), lanes); });
      ++base;
      place += kLanes;
    });
    const int64_t first = gather.firsts[vector];
    Unrolled<kRows>([&](int64_t row) { StoreBefore(to + (row + 1) * pitch, sums[row], to + row * pitch + first); });
  }
}

// A single addend takes less time in the order of memory.
template <int64_t kAddends, typename T>
void GatherRowsOf(const Gather& gather, const FloatRows& rows, T* to, int64_t pitch) {
  constexpr int64_t kRows = kAddends == 1 ? 1 : 4;
  const float* from = rows.data;
  int64_t row = 0;
  for (; row + kRows <= rows.count; row += kRows, from += kRows * rows.pitch, to += kRows * pitch) {
    GatherSomeRows<kAddends, kRows>(gather, from, rows.pitch, to, pitch);
  }
  for (; row < rows.count; ++row, from += rows.pitch, to += pitch) {
    GatherSomeRows<kAddends, 1>(gather, from, rows.pitch, to, pitch);
  }
}

template <typename T>
void GatherRows(const Gather& gather, const FloatRows& rows, T* to, int64_t pitch) {
  static_assert(kMostAddends == 4);
  switch (gather.addends) {
    case 1:
      return GatherRowsOf<1>(gather, rows, to, pitch);
    case 2:
      return GatherRowsOf<2>(gather, rows, to, pitch);
    case 3:
      return GatherRowsOf<3>(gather, rows, to, pitch);
    default:
      return GatherRowsOf<4>(gather, rows, to, pitch);
  }
}

// Writes the sums of kCount addends for each row, or of addends.count for 0. Most rows have few addends, and the loop
// over a known number is unrolled.
template <int64_t kCount, typename T>
void SumRowsOf(const RowAddends& addends, int64_t rows, int64_t width, T* to, const T* end) {
  const int64_t count = kCount == 0 ? addends.count : kCount;
  const float* const* from = addends.rows;
  for (int64_t row = 0; row < rows; ++row, from += count, to += width) {
    const auto sum = [&](int64_t i) {
      Floats sums = {};
      for (int64_t next = 0; next < count; ++next) AddTo(from[next] + i, sums);
      return sums;
    };
    int64_t i = 0;
    for (; i + kLanes < width; i += kLanes) StoreFloats(sum(i), to + i);
    if (width < kLanes) {
      StoreBefore(end, sum(0), to);
    } else {
      StoreFloats(sum(width - kLanes), to + width - kLanes);
    }
  }
}

template <typename T>
void SumRows(const RowAddends& addends, int64_t rows, int64_t width, T* to, const T* end) {
  switch (addends.count) {
    case 2:
      return SumRowsOf<2>(addends, rows, width, to, end);
    case 3:
      return SumRowsOf<3>(addends, rows, width, to, end);
    case 4:
      return SumRowsOf<4>(addends, rows, width, to, end);
    case 5:
      return SumRowsOf<5>(addends, rows, width, to, end);
    default:
      return SumRowsOf<0>(addends, rows, width, to, end);
  }
}

// Writes a vector of each row of x. kSize sums take turns: each row of terms is added to all, and completes one.
template <bool kRowsFirst, int64_t kSize, typename T>
void SlideDown(const float* terms, int64_t pitch, int64_t rows, int64_t width, T* to, const T* end) {
  Floats sums[kSize] = {};
  for (int64_t row = 1 - kSize; row < rows;) {
    // Inlined, so that sums are registers.
    Unrolled<kSize>([&](int64_t turn) __attribute__((always_inline)) {
      if (row == rows) return;
      const auto add = [&](const Floats& addends) { Unrolled<kSize>([&](int64_t other) { sums[other] += addends; }); };
      Floats sum = {};
      Unrolled<kSize>([&](int64_t i) { kRowsFirst ? AddTo(terms + i, sum) : add(Loaded(terms + i)); });
      if (kRowsFirst) add(sum);
      if (row >= 0) StoreBefore(end, sums[turn], to + row * width);
      sums[turn] = Floats{};
      terms += pitch;
      ++row;
    });
  }
}

template <bool kRowsFirst, int64_t kSize, typename T>
void SlideOver(const SlidingTerms& terms, int64_t rows, int64_t width, T* to, const T* end) {
  const auto slide = [&](int64_t i) {
    SlideDown<kRowsFirst, kSize>(terms.first + i, terms.pitch, rows, width, to + i, end);
  };
  int64_t i = 0;
  for (; i + kLanes < width; i += kLanes) slide(i);
  slide(i == 0 ? 0 : width - kLanes);
}

template <bool kRowsFirst, typename T>
void SlideWindows(const SlidingTerms& terms, int64_t rows, int64_t width, T* to, const T* end) {
  static_assert(kLargestSlide == 5);
  switch (terms.size) {
    case 2:
      return SlideOver<kRowsFirst, 2>(terms, rows, width, to, end);
    case 3:
      return SlideOver<kRowsFirst, 3>(terms, rows, width, to, end);
    case 4:
      return SlideOver<kRowsFirst, 4>(terms, rows, width, to, end);
    default:
      return SlideOver<kRowsFirst, 5>(terms, rows, width, to, end);
  }
}

template <typename T>
void SumSliding(const SlidingTerms& terms, int64_t rows, int64_t width, T* to, const T* end) {
  terms.rows_first ? SlideWindows<true>(terms, rows, width, to, end) : SlideWindows<false>(terms, rows, width, to, end);
}

// Equal rows of x, which follow each other, in ascending order; nothing is written from `end` on.
template <typename T>
struct EqualRows {
  T* to;
  int64_t count, width;
  const T* end;
};

// Writes the elements of kStride rows of sums by turns.
template <int64_t kStride, typename T>
void InterleaveRows(const Parts& parts, const float* const* columns, int64_t offset, const EqualRows<T>& to) {
  using Vectors = Interleaved<std::make_index_sequence<kLanes>>;
  const float* rows[kStride];
  for (int64_t part = 0, s = 0; s < kStride; ++s) {
    if (s == parts.ends[part]) ++part;
    rows[s] = columns[part] + offset;
  }
  if (to.width < kLanes) {
    const Floats all = Vectors::template At<kStride>(rows, 0);
    for (int64_t row = 0; row < to.count; ++row) StoreBefore(to.end, all, to.to + row * to.width);
    return;
  }
  const auto store = [to](const Floats& elements, int64_t begin) { StoreFloats(elements, to.to + begin); };
  if (to.count == 1) return Vectors::template ForAll<kStride>(rows, to.width, store);
  Vectors::template ForAll<kStride>(rows, to.width, [to, store](const Floats& elements, int64_t begin) {
    for (int64_t row = 0; row < to.count; ++row) store(elements, begin + row * to.width);
  });
}

// The same for any stride: each sum is repeated as often as its part is long.
template <typename T>
void RepeatInRows(const Parts& parts, const float* const* columns, int64_t offset, const EqualRows<T>& to) {
  for (int64_t begin = 0; begin < to.width; begin += parts.stride, ++offset) {
    for (int64_t part = 0, s = 0; part < parts.count; ++part) {
      const Floats sum = Floats{} + columns[part][offset];
      for (; s < parts.ends[part] && begin + s < to.width; s += kLanes) StoreBefore(to.end, sum, to.to + begin + s);
      s = parts.ends[part];
    }
  }
  for (int64_t row = 1; row < to.count; ++row) {
    __builtin_memcpy(to.to + row * to.width, to.to, static_cast<size_t>(to.width) * sizeof(T));
  }
}

template <typename T, auto kStoreEqualRows>
void StoreRowsBy(const SumsOfRows& sums, int64_t offset, int64_t rows, T* to, const T* end) {
  const Parts heights = sums.heights, widths = sums.widths;
  const int64_t width = sums.width;
  for (int64_t row = 0; row < rows; offset += sums.pitch) {
    const float* const* columns = sums.columns;
    for (int64_t part = 0, r = 0; part < heights.count && row < rows; ++part, columns += widths.count) {
      const int64_t part_rows = heights.ends[part] - r, left = rows - row;
      const int64_t count = part_rows < left ? part_rows : left;
      kStoreEqualRows(widths, columns, offset, {to, count, width, end});
      r += count;
      row += count;
      to += count * width;
    }
  }
}

template <typename T>
void StoreRows(const SumsOfRows& sums, int64_t offset, int64_t rows, T* to, const T* end) {
  switch (sums.widths.stride) {
    case 1:
      return StoreRowsBy<T, InterleaveRows<1, T>>(sums, offset, rows, to, end);
    case 2:
      return StoreRowsBy<T, InterleaveRows<2, T>>(sums, offset, rows, to, end);
    case 3:
      return StoreRowsBy<T, InterleaveRows<3, T>>(sums, offset, rows, to, end);
    case 4:
      return StoreRowsBy<T, InterleaveRows<4, T>>(sums, offset, rows, to, end);
    default:
      return StoreRowsBy<T, RepeatInRows<T>>(sums, offset, rows, to, end);
  }
}
