// SPDX-License-Identifier: Apache-2.0

// Loads and stores of vectors of floats from and to each element type. Part of body.h.

typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef int32_t Ints __attribute__((vector_size(kLanes * 4)));
typedef uint32_t Words __attribute__((vector_size(kLanes * 4)));
typedef uint16_t Halves __attribute__((vector_size(kLanes * 2)));

template <typename Vector, typename Element>
void Load(const Element* from, Vector& to) {
  __builtin_memcpy(&to, from, sizeof(to));
}

template <typename Vector, typename Element>
void Store(const Vector& from, Element* to) {
  __builtin_memcpy(to, &from, sizeof(from));
}

void LoadWords(const void* from, Words& to) {
  Halves halves;
  __builtin_memcpy(&halves, from, sizeof(halves));
  to = __builtin_convertvector(halves, Words);
}

void StoreWords(const Words& from, void* to) {
  const Halves halves = __builtin_convertvector(from, Halves);
  __builtin_memcpy(to, &halves, sizeof(halves));
}

void LoadFloats(const float* from, Floats& to) { Load(from, to); }

void StoreFloats(const Floats& from, float* to) { Store(from, to); }

void LoadFloats(const BFloat16* from, Floats& to) {
  Words words;
  LoadWords(from, words);
  to = WidenBFloat16<Floats>(words);
}

void StoreFloats(const Floats& from, BFloat16* to) { StoreWords(RoundToBFloat16<Words>(from), to); }

#if defined(__AVX512F__) && POOLGRAD_LANES == 16

// With masks of all lanes: otherwise GCC 12 warns about uninitialized values in its own headers.
constexpr __mmask16 kAllLanes = 0xffff;

void LoadFloats(const Float16* from, Floats& to) {
  to = _mm512_maskz_cvtph_ps(kAllLanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

void StoreFloats(const Floats& from, Float16* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_maskz_cvtps_ph(kAllLanes, from, _MM_FROUND_TO_NEAREST_INT));
}

// Lane i is lane places[i], or 0 for kNoPlace, which is the last lane of the zeros here.
Floats Gathered(const Floats& lanes, const Ints& places) {
  return _mm512_permutex2var_ps(lanes, reinterpret_cast<__m512i>(places), Floats{});
}

#elif defined(__F16C__) && POOLGRAD_LANES == 8

void LoadFloats(const Float16* from, Floats& to) {
  to = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

void StoreFloats(const Floats& from, Float16* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(from, _MM_FROUND_TO_NEAREST_INT));
}

// By the signs of the places.
Floats Gathered(const Floats& lanes, const Ints& places) {
  const Floats all = _mm256_permutevar8x32_ps(lanes, reinterpret_cast<__m256i>(places));
  return _mm256_blendv_ps(all, Floats{}, reinterpret_cast<__m256>(places));
}

#else

void LoadFloats(const Float16* from, Floats& to) {
  Words words;
  LoadWords(from, words);
  to = WidenFloat16<Floats>(words);
}

void StoreFloats(const Floats& from, Float16* to) { StoreWords(RoundToFloat16<Words>(from), to); }

Floats Gathered(const Floats& lanes, const Ints& places) {
  Floats gathered = {};
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    if (places[lane] != kNoPlace) gathered[lane] = lanes[places[lane]];
  }
  return gathered;
}

#endif

// Stores a vector, or those of its elements that lie before `end`.
template <typename T>
POOLGRAD_INLINE void StoreBefore(const T* end, const Floats& from, T* to) {
  if (end - to >= kLanes) return StoreFloats(from, to);
  T some[kLanes];
  StoreFloats(from, some);
  __builtin_memcpy(to, some, static_cast<size_t>(end - to) * sizeof(T));
}
