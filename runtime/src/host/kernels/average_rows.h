// SPDX-License-Identifier: Apache-2.0

// The gradient of an average pool with any windows, by blocks of rows of x.
#ifndef POOLGRAD_HOST_KERNELS_AVERAGE_ROWS_H_
#define POOLGRAD_HOST_KERNELS_AVERAGE_ROWS_H_

#include <algorithm>
#include <vector>

#include "host/kernels/average_plan.h"
#include "host/kernels/gather_table.h"

namespace poolgrad::host {

// A row of windows is spread over the elements of a row of x: once for the first window of each element, once for the
// second, and so on. A row of x is the sum of these.
template <typename T>
class AverageRows {
 public:
  explicit AverageRows(const AveragePlan<T>& plan)
      : plan_(plan),
        x_(plan.work.grad_input),
        heights_(WindowsOfElements(plan.work.windows[1], x_.dims[1])),
        most_heights_(LargestCount(heights_)),
        widths_(WindowsOfElements(plan.work.windows[2], x_.dims[2])),
        pitch_((x_.dims[2] + simd::kMostLanes - 1) / simd::kMostLanes * simd::kMostLanes),
        spread_size_(LargestCount(widths_) * pitch_),
        spreads_(SpreadsOfRow()),
        row_size_(plan.work.grad_output.dims[2]),
        rows_(RowsOfBlock()),
        reader_(plan.work.grad_output),
        writer_(x_, rows_) {
    int64_t most = 0;
    for (int64_t h = 0; h < x_.dims[1]; h += rows_) most = std::max(most, WindowsOf(BlockFrom(h)).count());
    most *= LargestCount(plan.depths);
    terms_.resize(Size(most * row_size_ + simd::kMostLanes));
    spread_.resize(Size(most * spread_size_));
    zeros_.resize(Size(pitch_));
  }

  void Compute(int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const simd::Plane<T> grads = {reader_.Read(plane), reader_.Readable(plane)};
      T* slice = PlaneData<T>(x_, plane);
      for (const Range& depths : plan_.depths) {
        for (int64_t h = 0; h < x_.dims[1]; h += rows_) WriteRows(grads, depths, BlockFrom(h), slice);
        slice += x_.strides[0];
      }
    }
  }

 private:
  // About the number of terms that are spread for a block.
  static constexpr int64_t kBlock = 4096;

  // The least number of rows of windows in a block, even if they have more terms: rows at the border of two blocks are
  // spread for both.
  static constexpr int64_t kLeastRows = 16;

  static size_t Size(int64_t count) { return static_cast<size_t>(count); }

  int64_t RowsOfBlock() const {
    const int64_t windows = std::max(kBlock / std::max<int64_t>(spread_size_, 1), kLeastRows);
    return std::clamp<int64_t>(windows * x_.dims[1] / std::max<int64_t>(plan_.work.grad_output.dims[1], 1), 1,
                               x_.dims[1]);
  }

  GatherTable SpreadsOfRow() const {
    Addends one(1, spread_size_);
    for (int64_t i = 0; i < LargestCount(widths_); ++i) {
      for (int64_t x = 0; x < pitch_; ++x) {
        const Range windows = x < x_.dims[2] ? widths_[Size(x)] : Range{};
        one.BeginSum();
        if (i < windows.count()) one.Add(windows.first + i);
      }
    }
    return GatherTable(one);
  }

  Range BlockFrom(int64_t h) const { return {h, std::min(h + rows_, x_.dims[1])}; }

  Range WindowsOf(Range rows) const { return {heights_[Size(rows.first)].first, heights_[Size(rows.end - 1)].end}; }

  void WriteRows(const simd::Plane<T>& grads, Range depths, Range rows, T* slice) {
    const Range windows = WindowsOf(rows);
    const int64_t height = plan_.work.grad_output.dims[1];
    float* to = terms_.data();
    for (int64_t d = depths.first; d < depths.end; ++d, to += windows.count() * row_size_) {
      plan_.WriteTerms(grads, {d * height + windows.first, d * height + windows.end}, row_size_, to);
    }
    const simd::FloatRows terms = {terms_.data(), depths.count() * windows.count(), row_size_};
    AverageVectors(float{}).gather(spreads_.view(), terms, spread_.data(), spread_size_);
    if (depths.count() != depths_ || rows.first != first_) ListAddends(depths.count(), rows);
    writer_.Write(rows, slice, [&](T* x, const T* end) {
      const int64_t count = static_cast<int64_t>(addends_.size()) / rows.count();
      AverageVectors(T{}).sums({addends_.data(), count}, rows.count(), x_.dims[2], x, end);
    });
  }

  // Lists the addends of rows of x that are in `depths` windows along D, in the order of the sums. All rows have as
  // many: zeros stand for the windows that a row has fewer along H.
  void ListAddends(int64_t depths, Range rows) {
    depths_ = depths;
    first_ = rows.first;
    addends_.clear();
    const Range windows = WindowsOf(rows);
    for (int64_t row = rows.first; row < rows.end; ++row) {
      const auto begin = static_cast<std::ptrdiff_t>(addends_.size());
      const Range heights = heights_[Size(row)];
      for (int64_t d = 0; d < depths; ++d) {
        for (int64_t h = heights.first; h < heights.first + most_heights_; ++h) {
          const int64_t place = (d * windows.count() + h - windows.first) * spread_size_;
          const float* const spread = h < heights.end ? &spread_[Size(place)] : nullptr;
          for (int64_t i = 0; i < spread_size_; i += pitch_) {
            addends_.push_back(spread == nullptr ? zeros_.data() : spread + i);
          }
        }
      }
      if (plan_.work.order == SumOrder::kReversed) std::reverse(addends_.begin() + begin, addends_.end());
    }
  }

  const AveragePlan<T>& plan_;
  const Planes& x_;
  std::vector<Range> heights_;  // the windows of each element along H
  int64_t most_heights_;        // of an element
  std::vector<Range> widths_;   // along W
  int64_t pitch_;               // of rows that are spread
  int64_t spread_size_;         // of a row of windows
  GatherTable spreads_;
  int64_t row_size_;  // of its terms
  int64_t rows_;      // of a block
  PlaneReader<T> reader_;
  RowWriter<T> writer_;
  std::vector<float> terms_, spread_, zeros_;
  std::vector<const float*> addends_;
  int64_t depths_ = -1, first_ = -1;  // of the addends
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_AVERAGE_ROWS_H_
