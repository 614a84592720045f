// SPDX-License-Identifier: Apache-2.0

// Access to the elements of planes.
#ifndef POOLGRAD_HOST_KERNELS_PLANE_ACCESS_H_
#define POOLGRAD_HOST_KERNELS_PLANE_ACCESS_H_

#include <cstdint>
#include <vector>

#include "host/planes.h"

namespace poolgrad::host {

template <typename T>
T* PlaneData(const Planes& planes, int64_t plane) {
  return static_cast<T*>(planes.storage) + planes.PlaneOffset(plane);
}

// Calls visit(offset) for each element of a plane in row-major order, with its offset from the plane's first element.
template <typename Visit>
void ForOffsets(const Planes& planes, Visit&& visit) {
  for (int64_t d = 0; d < planes.dims[0]; ++d) {
    for (int64_t h = 0; h < planes.dims[1]; ++h) {
      const int64_t row = d * planes.strides[0] + h * planes.strides[1];
      for (int64_t w = 0; w < planes.dims[2]; ++w) visit(row + w * planes.strides[2]);
    }
  }
}

// Reads planes as contiguous planes. Copies only those that are not contiguous.
template <typename T>
class PlaneReader {
 public:
  explicit PlaneReader(const Planes& planes) : planes_(planes) {
    if (!planes.PlaneIsContiguous()) packed_.resize(static_cast<size_t>(planes.plane_size()));
  }

  const T* Read(int64_t plane) {
    const T* data = PlaneData<const T>(planes_, plane);
    if (packed_.empty()) return data;
    T* next = packed_.data();
    ForOffsets(planes_, [&](int64_t offset) { *next++ = data[offset]; });
    return packed_.data();
  }

  // The number of elements that may be read there: those of the plane, and of the next plane if it follows in memory.
  int64_t Readable(int64_t plane) const {
    const int64_t size = planes_.plane_size();
    if (!packed_.empty() || plane + 1 == planes_.count()) return size;
    return planes_.PlaneOffset(plane + 1) == planes_.PlaneOffset(plane) + size ? 2 * size : size;
  }

 private:
  const Planes& planes_;
  std::vector<T> packed_;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_PLANE_ACCESS_H_
