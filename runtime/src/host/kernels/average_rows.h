// SPDX-License-Identifier: Apache-2.0

// The gradient of an average pool with any windows, row by row of x.
#ifndef POOLGRAD_HOST_KERNELS_AVERAGE_ROWS_H_
#define POOLGRAD_HOST_KERNELS_AVERAGE_ROWS_H_

#include <algorithm>
#include <vector>

#include "host/kernels/average_plan.h"

namespace poolgrad::host {

// Several small planes are computed at once, side by side. The terms of the rows of windows that contain a row of x are
// kept for the next row.
template <typename T>
class AverageRows {
 public:
  explicit AverageRows(const AveragePlan<T>& plan)
      : plan_(plan),
        x_(plan.work.grad_input),
        heights_(WindowsOfElements(plan.work.windows[1], x_.dims[1])),
        rows_(std::clamp<int64_t>(kBlock / x_.dims[2], 1, x_.dims[1])),
        most_planes_(std::clamp<int64_t>(kBlock / (x_.dims[1] * x_.dims[2]), 1, x_.count())),
        row_size_(plan.work.grad_output.dims[2] + 1),
        plane_size_(plan.work.grad_output.dims[0] * plan.work.grad_output.dims[1] * row_size_),
        pitch_(most_planes_ * x_.dims[2]),
        tables_(TermTables(plan.work.windows[2], x_.dims[2], most_planes_, plane_size_)),
        most_depths_(LargestCount(plan.depths)),
        most_heights_(LargestCount(heights_)),
        reader_(plan.work.grad_output),
        terms_(Size(most_planes_ * plane_size_ + simd::kMostLanes)),
        slots_(Size(most_depths_ * most_heights_)),
        zeros_(Size(pitch_ + simd::kMostLanes)),
        sums_(Size(rows_ * pitch_ + simd::kMostLanes)),
        writer_(x_, rows_) {
    for (Slot& slot : slots_) slot.floats.resize(tables_.size() * zeros_.size());
  }

  void Compute(int64_t begin, int64_t end) {
    for (; begin < end; begin += most_planes_) ComputePlanes(begin, std::min(most_planes_, end - begin));
  }

 private:
  struct Slot {
    int64_t row = -1;
    std::vector<float> floats;  // the terms by table
  };

  // The number of sums of a block, which fit into the first-level cache with their terms.
  static constexpr int64_t kBlock = 2048;

  static constexpr int64_t kOne = 1;
  static constexpr simd::Parts kWhole = {1, &kOne, 1};

  static size_t Size(int64_t count) { return static_cast<size_t>(count); }

  void ComputePlanes(int64_t first, int64_t count) {
    const auto& [depth, height, width] = plan_.work.grad_output.dims;
    for (int64_t i = 0; i < count; ++i) {
      const simd::Plane<T> grads = {reader_.Read(first + i), reader_.Readable(first + i)};
      plan_.WriteTerms(grads, {0, depth * height}, row_size_, &terms_[Size(i * plane_size_)]);
    }
    for (Slot& slot : slots_) slot.row = -1;
    const float* const sums = sums_.data();
    for (int64_t d = 0; d < x_.dims[0]; ++d) {
      for (int64_t h = 0; h < x_.dims[1]; h += rows_) {
        const Range rows = {h, std::min(h + rows_, x_.dims[1])};
        SumRows(plan_.depths[Size(d)], rows, count * x_.dims[2]);
        for (int64_t i = 0; i < count; ++i) {
          writer_.Write({&sums, kWhole, kWhole, pitch_, x_.dims[2]}, i * x_.dims[2], rows,
                        PlaneData<T>(x_, first + i) + d * x_.strides[0]);
        }
      }
    }
  }

  void SumRows(Range depths, Range rows, int64_t width) {
    float* to = sums_.data();
    for (int64_t h = rows.first; h < rows.end; ++h, to += pitch_) {
      ListAddends(depths, heights_[Size(h)]);
      simd::Vectors().sum(addends_.data(), static_cast<int64_t>(addends_.size()), width, to);
    }
  }

  // The terms by table of row (d, h) of windows. Rows that contain the same element have other slots.
  const std::vector<float>& TermsOf(int64_t d, int64_t h) {
    const int64_t row = d * plan_.work.grad_output.dims[1] + h;
    Slot& slot = slots_[Size(d % most_depths_ * most_heights_ + h % most_heights_)];
    if (slot.row == row) return slot.floats;
    slot.row = row;
    float* to = slot.floats.data();
    for (const std::vector<int32_t>& table : tables_) {
      simd::Vectors().gather(&terms_[Size(row * row_size_)], table.data(), static_cast<int64_t>(table.size()), to);
      to += zeros_.size();
    }
    return slot.floats;
  }

  // Of a row of x, in the order of the sum.
  void ListAddends(Range depths, Range heights) {
    addends_.clear();
    for (int64_t d = depths.first; d < depths.end; ++d) {
      for (int64_t h = heights.first; h < heights.end; ++h) {
        const float* terms = TermsOf(d, h).data();
        for (size_t i = 0; i < tables_.size(); ++i, terms += zeros_.size()) addends_.push_back(terms);
      }
    }
    if (plan_.work.reversed) std::reverse(addends_.begin(), addends_.end());
    if (addends_.empty()) addends_.push_back(zeros_.data());
  }

  const AveragePlan<T>& plan_;
  const Planes& x_;
  std::vector<Range> heights_;  // the windows of each element along H
  int64_t rows_;                // that are summed at once
  int64_t most_planes_;
  int64_t row_size_, plane_size_;  // of terms, with a zero behind each row
  int64_t pitch_;                  // of the sums
  std::vector<std::vector<int32_t>> tables_;
  int64_t most_depths_, most_heights_;
  PlaneReader<T> reader_;
  std::vector<float> terms_;
  std::vector<Slot> slots_;
  std::vector<float> zeros_, sums_;
  std::vector<const float*> addends_;
  RowWriter<T> writer_;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_AVERAGE_ROWS_H_
