// SPDX-License-Identifier: Apache-2.0

// The gradient of an average pool whose windows along H and W have one size and distance, by blocks of rows of x.
#ifndef POOLGRAD_HOST_KERNELS_AVERAGE_BLOCKS_H_
#define POOLGRAD_HOST_KERNELS_AVERAGE_BLOCKS_H_

#include <algorithm>
#include <type_traits>
#include <vector>

#include "host/kernels/average_plan.h"

namespace poolgrad::host {

// Elements h = q stride + r, w = p stride + s of a plane with the same r and s are sums of terms at the same distances
// from (q, p): between zeros, of rows of one length, they are sums of shifted copies of all terms of the block.
template <typename T>
class AverageBlocks {
 public:
  explicit AverageBlocks(const AveragePlan<T>& plan)
      : plan_(plan),
        heights_(TermShifts::Of(plan.work.grad_input.dims[1], plan.work.grad_output.dims[1], *plan.work.common[0])),
        widths_(TermShifts::Of(plan.work.grad_input.dims[2], plan.work.grad_output.dims[2], *plan.work.common[1])),
        sums_(heights_.shifts.size() * widths_.shifts.size()),
        rows_(RowsOf(widths_.size * static_cast<int64_t>(sums_.size()))),
        depth_pitch_((rows_ + heights_.shifts.back().end - heights_.shifts[0].first - 1) * widths_.size),
        reader_(plan.work.grad_output),
        floats_(Size(plan.work.grad_output.dims[2])),
        terms_(Size(LargestCount(plan.depths) * depth_pitch_ + simd::kMostLanes)),
        columns_(sums_.size()),
        row_(Size(plan.work.grad_input.dims[2])),
        residues_(widths_.shifts.size()) {}

  void Compute(int64_t plane) {
    grads_ = reader_.Read(plane);
    const Planes& x = plan_.work.grad_input;
    const int64_t steps = Steps(heights_, x.dims[1]);
    T* data = PlaneData<T>(x, plane);
    for (const Range& depths : plan_.depths) {
      for (int64_t first = 0; first < steps; first += rows_) ComputeBlock(depths, first, data);
      data += x.strides[0];
    }
  }

 private:
  // The number of sums per step, which fit into the first-level cache with their terms.
  static constexpr int64_t kBlock = 2048;

  static size_t Size(int64_t count) { return static_cast<size_t>(count); }

  // The number of elements with the same residue, or one more.
  static int64_t Steps(const TermShifts& axis, int64_t elements) { return (elements - 1) / axis.stride + 1; }

  // The number of rows for each residue if a row of all residues has so many sums.
  int64_t RowsOf(int64_t sums) const {
    return std::clamp<int64_t>(kBlock / sums, 1, Steps(heights_, plan_.work.grad_input.dims[1]));
  }

  // Rows h with `first` <= h / stride < `first` + rows_ of a slice of x.
  void ComputeBlock(Range depths, int64_t first, T* slice) {
    const Planes& x = plan_.work.grad_input;
    const int64_t rows = std::min(rows_, Steps(heights_, x.dims[1]) - first);
    for (int64_t d = depths.first; d < depths.end; ++d) {
      WriteTerms(d, first, &terms_[Size((d - depths.first) * depth_pitch_)]);
    }
    for (size_t r = 0; r < heights_.shifts.size(); ++r) {
      for (size_t s = 0; s < widths_.shifts.size(); ++s) SumResidue(depths.count(), r, s, rows);
    }
    const int64_t begin = first * heights_.stride;
    const int64_t end = std::min(begin + rows * heights_.stride, x.dims[1]);
    for (int64_t h = begin; h < end; ++h) {
      const size_t r = Size((h - begin) % heights_.stride);
      T* const row = slice + h * x.strides[1];
      if (r > 0 && heights_.shifts[r] == heights_.shifts[r - 1] && x.strides[2] == 1) {
        std::copy_n(row - x.strides[1], x.dims[2], row);
      } else {
        WriteRow((h - begin) / heights_.stride, r, row);
      }
    }
  }

  // The terms of the rows of windows at depth d that the block needs.
  void WriteTerms(int64_t d, int64_t first, float* to) {
    const int64_t height = plan_.work.grad_output.dims[1];
    const int64_t count = depth_pitch_ / widths_.size;
    for (int64_t row = 0; row < count; ++row) {
      const int64_t h = first + row + heights_.shifts[0].first - heights_.begin;
      float* const terms = to + row * widths_.size + widths_.begin;
      if (h >= 0 && h < height) {
        plan_.WriteTerms(grads_, d * height + h, floats_.data(), terms);
      } else {
        std::fill_n(terms, plan_.work.grad_output.dims[2], 0.0f);
      }
    }
  }

  // The sums of `rows` rows of elements with residues r along H and s along W.
  void SumResidue(int64_t depths, size_t r, size_t s, int64_t rows) {
    const Range heights = heights_.shifts[r], widths = widths_.shifts[s];
    const size_t residue = r * widths_.shifts.size() + s;
    if (s > 0 && widths == widths_.shifts[s - 1]) return Reuse(residue, residue - 1);
    if (r > 0 && heights == heights_.shifts[r - 1]) return Reuse(residue, residue - widths_.shifts.size());
    addends_.clear();
    for (int64_t d = 0; d < depths; ++d) {
      for (int64_t h = heights.first; h < heights.end; ++h) {
        const float* const row = terms_.data() + d * depth_pitch_ + (h - heights_.shifts[0].first) * widths_.size;
        for (int64_t w = widths.first; w < widths.end; ++w) addends_.push_back(row + w);
      }
    }
    columns_[residue] = addends_.empty() ? nullptr : addends_[0];
    if (addends_.size() == 1) return;
    if (plan_.work.reversed) std::reverse(addends_.begin(), addends_.end());
    std::vector<float>& sums = sums_[residue];
    sums.resize(Size(rows_ * widths_.size + simd::kMostLanes));
    const int64_t width = (rows - 1) * widths_.size + Steps(widths_, plan_.work.grad_input.dims[2]);
    simd::Vectors().sum(addends_.data(), static_cast<int64_t>(addends_.size()), width, sums.data());
    columns_[residue] = sums.data();
  }

  void Reuse(size_t residue, size_t of) { columns_[residue] = columns_[of]; }

  void WriteRow(int64_t q, size_t r, T* to) {
    const Planes& x = plan_.work.grad_input;
    const int64_t width = x.dims[2];
    const float* const* const columns = &columns_[r * widths_.shifts.size()];
    if (widths_.stride == 1) return WriteSums(columns[0] + q * widths_.size, width, x.strides[2], to);
    for (size_t s = 0; s < residues_.size(); ++s) residues_[s] = columns[s] + q * widths_.size;
    const auto interleave = simd::Vectors().interleave;
    if constexpr (std::is_same_v<T, float>) {
      if (x.strides[2] == 1) return interleave(residues_.data(), widths_.stride, width, to);
    }
    interleave(residues_.data(), widths_.stride, width, row_.data());
    WriteSums(row_.data(), width, x.strides[2], to);
  }

  const AveragePlan<T>& plan_;
  TermShifts heights_, widths_;
  std::vector<std::vector<float>> sums_;  // by residue along H, then along W
  int64_t rows_;                          // per block and residue
  int64_t depth_pitch_;                   // between the terms of windows along D
  PlaneReader<T> reader_;
  const T* grads_ = nullptr;
  std::vector<float> floats_, terms_;
  std::vector<const float*> columns_;  // likewise: where they are, or the terms if each is one
  std::vector<float> row_;
  std::vector<const float*> addends_, residues_;  // residues_: the sums of a row
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_AVERAGE_BLOCKS_H_
