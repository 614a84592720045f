// SPDX-License-Identifier: Apache-2.0

// Loads of every second, third, ... element in memory as a vector, and the reverse. Part of body.h.

template <typename Lanes>
struct Strided;

template <size_t... kLane>
struct Strided<std::index_sequence<kLane...>> {
  // The shuffle index of a lane when part `part` is added. The shuffle selects from `to` and from the part, in this
  // order. For part 1, `to` holds part 0; for a later part, it holds the elements selected so far.
  static constexpr int32_t Place(int64_t stride, int64_t part, int64_t lane) {
    const int64_t element = lane * stride;
    const bool is_here = element >= (part == 1 ? 0 : part * kLanes) && element < (part + 1) * kLanes;
    return static_cast<int32_t>(is_here ? element - (part - 1) * kLanes : lane);
  }

  template <int64_t kStride, int64_t kPart, typename Vector, typename Element>
  static void Take(const Element* from, Vector& to) {
    Vector part;
    Load(from + kPart * kLanes, part);
#ifdef __clang__
    to = __builtin_shufflevector(to, part, Place(kStride, kPart, kLane)...);
#else
    to = __builtin_shuffle(to, part, Ints{Place(kStride, kPart, kLane)...});  // before 12, GCC lacks the other
#endif
    if constexpr (kPart + 1 < kStride) Take<kStride, kPart + 1>(from, to);
  }
};

// Loads from[0], from[kStride], from[2 kStride], ...; all elements up to from[kStride kLanes] must be readable.
template <int64_t kStride, typename Vector, typename Element>
void LoadStrided(const Element* from, Vector& to) {
  Load(from, to);
  if constexpr (kStride > 1) Strided<std::make_index_sequence<kLanes>>::template Take<kStride, 1>(from, to);
}

template <typename Lanes>
struct EverySecond;

// Shuffles within blocks of four lanes are faster than others: every second element of two vectors, in another order,
// and the same in its own order.
template <size_t... kLane>
struct EverySecond<std::index_sequence<kLane...>> {
  static constexpr int32_t Taken(int64_t lane) {
    return static_cast<int32_t>(lane / 4 * 4 + lane % 2 * 2 + (lane % 4 < 2 ? 0 : kLanes));
  }

  static constexpr int32_t Ordered(int64_t lane) {
    const int64_t in_half = lane % (kLanes / 2);
    return static_cast<int32_t>(in_half / 2 * 4 + in_half % 2 + (lane < kLanes / 2 ? 0 : 2));
  }

  template <typename Vector, typename Element>
  static void Take(const Element* from, Vector& to) {
    Vector next;
    Load(from, to);
    Load(from + kLanes, next);
#ifdef __clang__
    to = __builtin_shufflevector(to, next, Taken(kLane)...);
#else
    to = __builtin_shuffle(to, next, Ints{Taken(kLane)...});
#endif
  }

  template <typename Vector>
  static void Order(Vector& vector) {
#ifdef __clang__
    vector = __builtin_shufflevector(vector, vector, Ordered(kLane)...);
#else
    vector = __builtin_shuffle(vector, Ints{Ordered(kLane)...});
#endif
  }
};

// As LoadStrided, in an order of its own. Puts vectors of this order in order.
template <int64_t kStride, typename Vector, typename Element>
void LoadUnordered(const Element* from, Vector& to) {
  if constexpr (kStride == 2) {
    EverySecond<std::make_index_sequence<kLanes>>::Take(from, to);
  } else {
    LoadStrided<kStride>(from, to);
  }
}

template <int64_t kStride, typename Vector>
void Order(Vector& vector) {
  if constexpr (kStride == 2) EverySecond<std::make_index_sequence<kLanes>>::Order(vector);
}

template <typename Lanes>
struct Interleaved;

template <size_t... kLane>
struct Interleaved<std::index_sequence<kLane...>> {
  // The shuffle index of a lane of vector `part` when row `row` is added. The shuffle selects from `to` and from the
  // row, in this order.
  static constexpr int32_t Place(int64_t stride, int64_t part, int64_t row, int64_t lane) {
    const int64_t element = part * kLanes + lane;
    return static_cast<int32_t>(element % stride == row ? kLanes + element / stride : lane);
  }

  template <int64_t kStride, int64_t kPart, int64_t kRow>
  static void Take(const float* const* rows, int64_t first, Floats& to) {
    Floats row;
    Load(rows[kRow] + first, row);
#ifdef __clang__
    to = __builtin_shufflevector(to, row, Place(kStride, kPart, kRow, kLane)...);
#else
    to = __builtin_shuffle(to, row, Ints{Place(kStride, kPart, kRow, kLane)...});
#endif
    if constexpr (kRow + 1 < kStride) Take<kStride, kPart, kRow + 1>(rows, first, to);
  }

  // Element q kStride + r of all is rows[r][q]: the vector from element `begin` on.
  template <int64_t kStride>
  static Floats At(const float* const* rows, int64_t begin) {
    const float* turned[kStride];
    for (int64_t i = 0; i < kStride; ++i) turned[i] = rows[(begin + i) % kStride] + (begin + i) / kStride;
    Floats elements = {};
    Take<kStride, 0, 0>(turned, 0, elements);
    return elements;
  }

  // Calls store(vector, begin) for kStride vectors from element `begin`, a multiple of their elements, on.
  template <int64_t kStride, int64_t kPart = 0, typename StoreVector>
  static void ForVectors(const float* const* rows, int64_t begin, const StoreVector& store) {
    Floats elements = {};
    Take<kStride, kPart, 0>(rows, begin / kStride, elements);
    store(elements, begin + kPart * kLanes);
    if constexpr (kPart + 1 < kStride) ForVectors<kStride, kPart + 1>(rows, begin, store);
  }

  // Calls store(vector, begin) for vectors of all `count` elements, at least one vector. The last may overlap the
  // others.
  template <int64_t kStride, typename StoreVector>
  static void ForAll(const float* const* rows, int64_t count, const StoreVector& store) {
    constexpr int64_t kStep = kStride * kLanes;
    int64_t i = 0;
    for (; i + kStep <= count; i += kStep) ForVectors<kStride>(rows, i, store);
    for (; i + kLanes < count; i += kLanes) store(At<kStride>(rows, i), i);
    if (i < count) store(At<kStride>(rows, count - kLanes), count - kLanes);
  }
};
