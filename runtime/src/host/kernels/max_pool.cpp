#include "host/kernels/max_pool.h"

#include <type_traits>
#include <vector>

#include "host/kernels/half.h"
#include "host/kernels/parallel.h"
#include "host/kernels/plane_access.h"

namespace poolgrad::host {
namespace {

// Reads planes as contiguous ones of float, which holds every value of the other types.
template <typename T>
class FloatPlaneReader {
 public:
  explicit FloatPlaneReader(const Planes& planes) : reader_(planes), size_(planes.plane_size()) {
    if constexpr (!std::is_same_v<T, float>) floats_.resize(static_cast<size_t>(size_));
  }

  const float* Read(int64_t plane) {
    const T* data = reader_.Read(plane);
    if constexpr (std::is_same_v<T, float>) {
      return data;
    } else {
      for (int64_t i = 0; i < size_; ++i) floats_[static_cast<size_t>(i)] = ToFloat(data[i]);
      return floats_.data();
    }
  }

 private:
  PlaneReader<T> reader_;
  int64_t size_;
  std::vector<float> floats_;
};

struct Maximum {
  float value;
  int64_t index;
};

// The maximum of the window over a plane of rows of `width` and slices of `height` rows.
class WindowMaximum {
 public:
  WindowMaximum(const MaxPool& work, const float* plane)
      : plane_(plane),
        width_(work.self.dims[2]),
        slice_(work.self.dims[1] * width_),
        steps_{work.axes[0].step * slice_, work.axes[1].step * width_, work.axes[2].step} {}

  Maximum Of(const Span& d, const Span& h, const Span& w) const {
    const int64_t first = d.first * slice_ + h.first * width_ + w.first;
    Maximum best{plane_[first], first};
    for (int64_t i = 0; i < d.count; ++i) {
      for (int64_t j = 0; j < h.count; ++j) {
        const int64_t row = first + i * steps_[0] + j * steps_[1];
        for (int64_t k = 0; k < w.count; ++k) {
          const int64_t index = row + k * steps_[2];
          const float value = plane_[index];
          if (value > best.value || value != value) best = {value, index};
        }
      }
    }
    return best;
  }

 private:
  const float* plane_;
  int64_t width_, slice_;
  std::array<int64_t, 3> steps_;
};

template <typename T, typename Index>
void PoolRange(const MaxPool& work, int64_t begin, int64_t end) {
  FloatPlaneReader<T> reader(work.self);
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

template <typename T, typename Index>
void PoolPlanes(const MaxPool& work) {
  const int64_t cost = work.self.plane_size() + work.out.plane_size();
  ForRanges(work.self.count(), cost, [&](int64_t begin, int64_t end) { PoolRange<T, Index>(work, begin, end); });
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
