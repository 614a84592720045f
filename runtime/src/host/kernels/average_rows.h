// SPDX-License-Identifier: Apache-2.0

// The gradient of an average pool with any windows, row by row of x.
#ifndef POOLGRAD_HOST_KERNELS_AVERAGE_ROWS_H_
#define POOLGRAD_HOST_KERNELS_AVERAGE_ROWS_H_

#include <algorithm>
#include <vector>

#include "host/kernels/average_plan.h"

namespace poolgrad::host {

// The terms of the rows of windows that contain a row of x are kept for the next row.
template <typename T>
class AverageRows {
 public:
  explicit AverageRows(const AveragePlan<T>& plan)
      : plan_(plan),
        heights_(WindowsOfElements(plan.work.windows[1], plan.work.grad_input.dims[1])),
        terms_(TermTables::Of(plan.work.windows[2], plan.work.grad_input.dims[2])),
        most_depths_(LargestCount(plan.depths)),
        most_heights_(LargestCount(heights_)),
        reader_(plan.work.grad_output),
        floats_(Size(plan.work.grad_output.dims[2])),
        pitch_(plan.work.grad_input.dims[2] + simd::kMostLanes),
        slots_(Size(most_depths_ * most_heights_)),
        row_(Size(pitch_)) {
    for (Slot& slot : slots_) {
      slot.floats.resize(Size(terms_.size + static_cast<int64_t>(terms_.tables.size()) * pitch_));
    }
  }

  void Compute(int64_t plane) {
    grads_ = reader_.Read(plane);
    for (Slot& slot : slots_) slot.row = -1;
    const Planes& x = plan_.work.grad_input;
    T* const data = PlaneData<T>(x, plane);
    for (int64_t d = 0; d < x.dims[0]; ++d) {
      for (int64_t h = 0; h < x.dims[1]; ++h) {
        ListAddends(plan_.depths[Size(d)], heights_[Size(h)]);
        simd::Vectors().sum(addends_.data(), static_cast<int64_t>(addends_.size()), x.dims[2], row_.data());
        WriteSums(row_.data(), x.dims[2], x.strides[2], data + d * x.strides[0] + h * x.strides[1]);
      }
    }
  }

 private:
  struct Slot {
    int64_t row = -1;
    std::vector<float> floats;  // the terms, then their copies by table
  };

  static size_t Size(int64_t count) { return static_cast<size_t>(count); }

  // The copies by table of the terms of row (d, h) of windows. Rows that contain the same element have other slots.
  const float* TermsOf(int64_t d, int64_t h) {
    const int64_t row = d * plan_.work.grad_output.dims[1] + h;
    Slot& slot = slots_[Size(d % most_depths_ * most_heights_ + h % most_heights_)];
    float* const terms = slot.floats.data();
    float* copy = terms + terms_.size;
    if (slot.row == row) return copy;
    slot.row = row;
    plan_.WriteTerms(grads_, row, floats_.data(), terms);
    for (const std::vector<int32_t>& table : terms_.tables) {
      simd::Vectors().gather(terms, table.data(), static_cast<int64_t>(table.size()), copy);
      copy += pitch_;
    }
    return terms + terms_.size;
  }

  // Of a row of x, in the order of the sum.
  void ListAddends(Range depths, Range heights) {
    addends_.clear();
    for (int64_t d = depths.first; d < depths.end; ++d) {
      for (int64_t h = heights.first; h < heights.end; ++h) {
        const float* const copies = TermsOf(d, h);
        for (size_t i = 0; i < terms_.tables.size(); ++i) addends_.push_back(copies + static_cast<int64_t>(i) * pitch_);
      }
    }
    if (plan_.work.reversed) std::reverse(addends_.begin(), addends_.end());
  }

  const AveragePlan<T>& plan_;
  std::vector<Range> heights_;  // the windows of each element along H
  TermTables terms_;
  int64_t most_depths_, most_heights_;
  PlaneReader<T> reader_;
  const T* grads_ = nullptr;
  std::vector<float> floats_;
  int64_t pitch_;
  std::vector<Slot> slots_;
  std::vector<float> row_;
  std::vector<const float*> addends_;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_AVERAGE_ROWS_H_
