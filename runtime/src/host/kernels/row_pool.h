// The maxima of a plane's windows by vectors, row by row; those of a row with a NaN by elements.
#ifndef POOLGRAD_HOST_KERNELS_ROW_POOL_H_
#define POOLGRAD_HOST_KERNELS_ROW_POOL_H_

#include <array>
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
        indices_(values_.size()) {}

  // Finds all maxima of a contiguous plane.
  void Pool(const T* plane) {
    simd::Maxima next = {values_.data(), indices_.data()};
    Batch batch;
    for (const Span& d : work_.axes[0].spans) {
      for (const Span& h : work_.axes[1].spans) {
        Add(d, h, batch);
        if (batch.count == simd::kMostRows) next = PoolBatch(plane, batch, next);
      }
    }
    PoolBatch(plane, batch, next);
  }

  // In row-major order.
  const float* values() const { return values_.data(); }
  const int32_t* indices() const { return indices_.data(); }

 private:
  struct Batch {
    int64_t count = 0;
    std::array<Span, simd::kMostRows> d, h;
  };

  static size_t Size(int64_t row) { return static_cast<size_t>(row * simd::kMostRows); }

  void Add(const Span& d, const Span& h, Batch& batch) {
    const int64_t width = work_.self.dims[2];
    std::vector<int64_t>& begins = begins_[static_cast<size_t>(batch.count)];
    begins.clear();
    for (int64_t i = 0; i < d.count; ++i) {
      const int64_t slice = (d.first + i * work_.axes[0].step) * work_.self.dims[1];
      for (int64_t j = 0; j < h.count; ++j) begins.push_back((slice + h.first + j * work_.axes[1].step) * width);
    }
    batch.d[static_cast<size_t>(batch.count)] = d;
    batch.h[static_cast<size_t>(batch.count++)] = h;
  }

  // Empties the batch, and returns where the maxima of the next go.
  simd::Maxima PoolBatch(const T* plane, Batch& batch, const simd::Maxima& maxima) {
    std::array<simd::Rows, simd::kMostRows> rows;
    for (size_t row = 0; row < rows.size(); ++row) {
      rows[row] = {begins_[row].data(), static_cast<int64_t>(begins_[row].size())};
    }
    const uint32_t nan =
        pool_(windows_, {plane, work_.self.plane_size()}, rows.data(), batch.count,
              {column_values_.data(), column_indices_.data()}, {arranged_values_.data(), arranged_indices_.data()}, maxima);
    simd::Maxima next = maxima;
    for (int64_t row = 0; row < batch.count; ++row) {
      if ((nan >> row & 1u) != 0) {
        PoolByElements(plane, batch.d[static_cast<size_t>(row)], batch.h[static_cast<size_t>(row)], next);
      }
      next = {next.values + windows_.count, next.indices + windows_.count};
    }
    batch.count = 0;
    return next;
  }

  void PoolByElements(const T* plane, const Span& d, const Span& h, simd::Maxima maxima) const {
    const WindowMaximum maximum(work_, plane);
    for (const Span& w : work_.axes[2].spans) {
      const Maximum found = maximum.Of(d, h, w);
      *maxima.values++ = found.value;
      *maxima.indices++ = static_cast<int32_t>(found.index);
    }
  }

  const MaxPool& work_;
  const simd::RowWindows windows_;
  const simd::PoolRows<T> pool_;
  std::array<std::vector<int64_t>, simd::kMostRows> begins_;  // of the rows that each row of windows reaches
  std::vector<float> column_values_, arranged_values_, values_;
  std::vector<int32_t> column_indices_, arranged_indices_, indices_;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_ROW_POOL_H_
