// The maxima of rows of windows, by vectors where there are no NaN.
#ifndef POOLGRAD_HOST_KERNELS_ROW_POOL_H_
#define POOLGRAD_HOST_KERNELS_ROW_POOL_H_

#include <limits>
#include <vector>

#include "host/kernels/max_pool.h"
#include "host/kernels/row_plan.h"
#include "host/kernels/window_maximum.h"

namespace poolgrad::host {

class RowPool {
 public:
  RowPool(const MaxPool& work, const RowPlan& plan)
      : work_(work),
        windows_(plan.windows()),
        width_(work.self.dims[2]),
        slice_(work.self.dims[1] * width_),
        column_values_(static_cast<size_t>(plan.columns_size()), -std::numeric_limits<float>::infinity()),
        arranged_values_(static_cast<size_t>(plan.arranged_size())),
        column_indices_(column_values_.size(), simd::kNoIndex),
        arranged_indices_(arranged_values_.size()) {}

  // The row of windows at `d` and `h`; whole vectors are written to `maxima`.
  void Pool(const float* plane, const Span& d, const Span& h, const simd::Maxima& maxima) {
    rows_.clear();
    for (int64_t i = 0; i < d.count; ++i) {
      const int64_t slice = (d.first + i * work_.axes[0].step) * slice_;
      for (int64_t j = 0; j < h.count; ++j) rows_.push_back(slice + (h.first + j * work_.axes[1].step) * width_);
    }
    const bool pooled = simd::Vectors().pool_row(windows_, {plane, work_.self.plane_size()}, rows_.data(),
                                                 static_cast<int64_t>(rows_.size()), columns(), arranged(), maxima);
    if (!pooled) PoolByElements(plane, d, h, maxima);
  }

 private:
  simd::Maxima columns() { return {column_values_.data(), column_indices_.data()}; }
  simd::Maxima arranged() { return {arranged_values_.data(), arranged_indices_.data()}; }

  void PoolByElements(const float* plane, const Span& d, const Span& h, simd::Maxima maxima) const {
    const WindowMaximum maximum(work_, plane);
    for (const Span& w : work_.axes[2].spans) {
      const Maximum found = maximum.Of(d, h, w);
      *maxima.values++ = found.value;
      *maxima.indices++ = static_cast<int32_t>(found.index);
    }
  }

  const MaxPool& work_;
  const simd::RowWindows windows_;
  const int64_t width_, slice_;
  std::vector<int64_t> rows_;  // the first element of each row that the windows reach
  std::vector<float> column_values_, arranged_values_;
  std::vector<int32_t> column_indices_, arranged_indices_;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_ROW_POOL_H_
