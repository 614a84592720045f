// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/max_pool.h"

#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "host/kernels/float_planes.h"
#include "host/kernels/parallel.h"
#include "host/kernels/row_pool.h"
#include "host/kernels/window_maximum.h"

namespace poolgrad::host {
namespace {

template <typename T, typename Index>
void PoolByElements(const MaxPool& work, int64_t begin, int64_t end) {
  PlaneReader<T> reader(work.self);
  std::vector<Maximum> maxima(static_cast<size_t>(work.out.plane_size()));
  for (int64_t plane = begin; plane < end; ++plane) {
    const WindowMaximum maximum(work, reader.Read(plane));
    Maximum* next = maxima.data();
    for (const Span& d : work.axes[0].spans) {
      for (const Span& h : work.axes[1].spans) {
        for (const Span& w : work.axes[2].spans) *next++ = maximum.Of(d, h, w);
      }
    }
    T* out = PlaneData<T>(work.out, plane);
    next = maxima.data();
    ForOffsets(work.out, [&](int64_t offset) { out[offset] = FromFloat<T>((next++)->value); });
    Index* indices = PlaneData<Index>(work.indices, plane);
    next = maxima.data();
    ForOffsets(work.indices, [&](int64_t offset) { indices[offset] = static_cast<Index>((next++)->index); });
  }
}

simd::PoolRows<float> VectorPool(float /*of*/) { return simd::Vectors().pool_float; }
simd::PoolRows<Float16> VectorPool(Float16 /*of*/) { return simd::Vectors().pool_float16; }
simd::PoolRows<BFloat16> VectorPool(BFloat16 /*of*/) { return simd::Vectors().pool_bfloat16; }

void CopyIndices(const int32_t* from, int64_t count, int64_t* to) { simd::Vectors().widen_indices(from, count, to); }
void CopyIndices(const int32_t* from, int64_t count, int32_t* to) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(int32_t));
}

template <typename Index>
void WriteIndices(const int32_t* from, const Planes& planes, int64_t plane) {
  Index* indices = PlaneData<Index>(planes, plane);
  if (planes.PlaneIsContiguous()) return CopyIndices(from, planes.plane_size(), indices);
  ForOffsets(planes, [&](int64_t offset) { indices[offset] = *from++; });
}

// A plane of the result, if it is contiguous and of the type that vectors write; else null.
template <typename Written, typename Element>
Written* Directly(const Planes& planes, int64_t plane) {
  if constexpr (!std::is_same_v<Written, Element>) return nullptr;
  return planes.PlaneIsContiguous() ? PlaneData<Written>(planes, plane) : nullptr;
}

template <typename T, typename Index>
void PoolByRows(const MaxPool& work, const RowPlan& plan, int64_t begin, int64_t end) {
  PlaneReader<T> reader(work.self);
  RowPool<T> pool(work, plan, VectorPool(T{}));
  for (int64_t plane = begin; plane < end; ++plane) {
    const simd::Maxima to = {Directly<float, T>(work.out, plane), Directly<int32_t, Index>(work.indices, plane)};
    pool.Pool({reader.Read(plane), reader.Readable(plane)}, to);
    if (to.values == nullptr) WriteRounded<T>(pool.values(), work.out, plane);
    if (to.indices == nullptr) WriteIndices<Index>(pool.indices(), work.indices, plane);
  }
}

template <typename T, typename Index>
void PoolPlanes(const MaxPool& work) {
  const bool by_rows = VectorPool(T{}) != nullptr && work.self.plane_size() <= std::numeric_limits<int32_t>::max();
  const std::optional<RowPlan> plan = by_rows ? RowPlan::Of(work.axes[2], work.self.dims[2]) : std::nullopt;
  const int64_t cost = work.self.plane_size() + work.out.plane_size();
  ForRanges(work.self.count(), cost, [&](int64_t begin, int64_t end) {
    if (plan) return PoolByRows<T, Index>(work, *plan, begin, end);
    PoolByElements<T, Index>(work, begin, end);
  });
}

struct KernelRow {
  aclDataType values;
  aclDataType indices;
  MaxPoolKernel kernel;
};

constexpr KernelRow kKernels[] = {
    {ACL_FLOAT, ACL_INT32, PoolPlanes<float, int32_t>},     {ACL_FLOAT, ACL_INT64, PoolPlanes<float, int64_t>},
    {ACL_FLOAT16, ACL_INT32, PoolPlanes<Float16, int32_t>}, {ACL_FLOAT16, ACL_INT64, PoolPlanes<Float16, int64_t>},
    {ACL_BF16, ACL_INT32, PoolPlanes<BFloat16, int32_t>},   {ACL_BF16, ACL_INT64, PoolPlanes<BFloat16, int64_t>},
};

}  // namespace

MaxPoolKernel FindMaxPool(aclDataType values, aclDataType indices) {
  for (const KernelRow& row : kKernels) {
    if (row.values == values && row.indices == indices) return row.kernel;
  }
  return nullptr;
}

}  // namespace poolgrad::host
