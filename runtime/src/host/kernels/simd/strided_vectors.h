// Vectors of every second, third, ... element in memory. Part of body.h.

template <typename Lanes>
struct Strided;

template <size_t... kLane>
struct Strided<std::index_sequence<kLane...>> {
  // Of two vectors, one after the other: for part 1, the elements that lie there; for a part after it, in whose place
  // the second of them is, what the parts before have given, and the elements that lie in it.
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
    to = __builtin_shuffle(to, part, Ints{Place(kStride, kPart, kLane)...});  // GCC has the other from 12 on
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
