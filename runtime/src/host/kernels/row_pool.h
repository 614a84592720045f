// SPDX-License-Identifier: Apache-2.0

// The maxima of a plane's windows by vectors, row by row; for rows with a NaN, element by element.
#ifndef POOLGRAD_HOST_KERNELS_ROW_POOL_H_
#define POOLGRAD_HOST_KERNELS_ROW_POOL_H_

#include <algorithm>
#include <limits>
#include <vector>

#include "host/kernels/max_pool.h"
#include "host/kernels/row_plan.h"
#include "host/kernels/window_maximum.h"

namespace poolgrad::host {

template <typename T>
class RowPool {
 public:
  RowPool(const MaxPool& work, const RowPlan& plan, simd::PoolRows<T> pool)
      : work_(work),
        windows_(plan.windows()),
        pool_(pool),
        column_values_(Size(windows_.columns_size), -std::numeric_limits<float>::infinity()),
        arranged_values_(Size(windows_.arranged_size)),
        values_(static_cast<size_t>(work.out.plane_size() + simd::kMostLanes)),
        column_indices_(column_values_.size(), simd::kNoIndex),
        arranged_indices_(arranged_values_.size()),
        indices_(values_.size()) {
    ListRows();
  }

  // Finds all maxima of a contiguous plane and writes them to `to`, or where there is none to values() and indices().
  void Pool(const simd::Plane<T>& plane, const simd::Maxima& to) {
    const auto count = static_cast<int64_t>(rows_.size());
    for (int64_t first = 0; first < count; first += simd::kMostRows) {
      const int64_t rows = std::min(simd::kMostRows, count - first);
      const int64_t begin = first * windows_.count, end = (first + rows) * windows_.count;
      // Whole vectors are written: the last ones to where there is room for them.
      const bool fits = end + simd::kMostLanes <= count * windows_.count;
      const simd::Maxima maxima = {(fits && to.values != nullptr ? to.values : values_.data()) + begin,
                                   (fits && to.indices != nullptr ? to.indices : indices_.data()) + begin};
      const uint32_t nan =
          pool_(windows_, plane, rows_.data() + first, rows, {column_values_.data(), column_indices_.data()},
                {arranged_values_.data(), arranged_indices_.data()}, maxima);
      for (int64_t row = 0; nan >> row != 0; ++row) {
        if ((nan >> row & 1u) != 0) PoolByElements(plane.data, first + row, maxima, row * windows_.count);
      }
      if (!fits && to.values != nullptr) std::copy_n(maxima.values, end - begin, to.values + begin);
      if (!fits && to.indices != nullptr) std::copy_n(maxima.indices, end - begin, to.indices + begin);
    }
  }

  // In row-major order.
  const float* values() const { return values_.data(); }
  const int32_t* indices() const { return indices_.data(); }

 private:
  static size_t Size(int64_t row) { return static_cast<size_t>(row * simd::kMostRows); }

  // The rows of a plane that each row of windows covers.
  void ListRows() {
    const AxisSpans& d_axis = work_.axes[0];
    const AxisSpans& h_axis = work_.axes[1];
    for (const Span& d : d_axis.spans) {
      for (const Span& h : h_axis.spans) {
        rows_.push_back({nullptr, d.count * h.count});
        for (int64_t i = 0; i < d.count; ++i) {
          const int64_t slice = (d.first + i * d_axis.step) * work_.self.dims[1];
          for (int64_t j = 0; j < h.count; ++j) begins_.push_back((slice + h.first + j * h_axis.step) * windows_.width);
        }
      }
    }
    const int64_t* next = begins_.data();
    for (simd::Rows& rows : rows_) {
      rows.begins = next;
      next += rows.count;
    }
  }

  // Writes from `next` on.
  void PoolByElements(const T* plane, int64_t row, const simd::Maxima& to, int64_t next) {
    const WindowMaximum maximum(work_, plane);
    const Span& d = work_.axes[0].spans[static_cast<size_t>(row / work_.out.dims[1])];
    const Span& h = work_.axes[1].spans[static_cast<size_t>(row % work_.out.dims[1])];
    for (const Span& w : work_.axes[2].spans) {
      const Maximum found = maximum.Of(d, h, w);
      to.values[next] = found.value;
      to.indices[next++] = static_cast<int32_t>(found.index);
    }
  }

  const MaxPool& work_;
  const simd::RowWindows windows_;
  const simd::PoolRows<T> pool_;
  std::vector<simd::Rows> rows_;
  std::vector<int64_t> begins_;  // of all rows_
  std::vector<float> column_values_, arranged_values_, values_;
  std::vector<int32_t> column_indices_, arranged_indices_, indices_;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_ROW_POOL_H_
