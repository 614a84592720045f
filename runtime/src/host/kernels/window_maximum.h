// SPDX-License-Identifier: Apache-2.0

// The maximum of one window, element by element.
#ifndef POOLGRAD_HOST_KERNELS_WINDOW_MAXIMUM_H_
#define POOLGRAD_HOST_KERNELS_WINDOW_MAXIMUM_H_

#include <array>

#include "host/kernels/half.h"
#include "host/kernels/max_pool.h"

namespace poolgrad::host {

struct Maximum {
  float value;
  int64_t index;
};

// The maximum of a window over a plane of rows of `width` and slices of `height` rows.
template <typename T>
class WindowMaximum {
 public:
  WindowMaximum(const MaxPool& work, const T* plane)
      : plane_(plane),
        width_(work.self.dims[2]),
        slice_(work.self.dims[1] * width_),
        steps_{work.axes[0].step * slice_, work.axes[1].step * width_, work.axes[2].step} {}

  Maximum Of(const Span& d, const Span& h, const Span& w) const {
    const int64_t first = d.first * slice_ + h.first * width_ + w.first;
    Maximum best{ToFloat(plane_[first]), first};
    for (int64_t i = 0; i < d.count; ++i) {
      for (int64_t j = 0; j < h.count; ++j) {
        const int64_t row = first + i * steps_[0] + j * steps_[1];
        for (int64_t k = 0; k < w.count; ++k) {
          const int64_t index = row + k * steps_[2];
          const float value = ToFloat(plane_[index]);
          if (value > best.value || value != value) best = {value, index};
        }
      }
    }
    return best;
  }

 private:
  const T* plane_;
  int64_t width_, slice_;
  std::array<int64_t, 3> steps_;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_WINDOW_MAXIMUM_H_
