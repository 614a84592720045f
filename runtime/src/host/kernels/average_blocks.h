// SPDX-License-Identifier: Apache-2.0

// The gradient of an average pool whose windows along H and W have one size and distance, by blocks of rows of x.
#ifndef POOLGRAD_HOST_KERNELS_AVERAGE_BLOCKS_H_
#define POOLGRAD_HOST_KERNELS_AVERAGE_BLOCKS_H_

#include <algorithm>
#include <vector>

#include "host/kernels/average_plan.h"

namespace poolgrad::host {

// Elements h = q stride + r, w = p stride + s of a slice with the same r and s are sums of terms at the same distances
// from (q, p): between zeros, of rows of one length, they are sums of shifted copies of all terms of the block. A block
// has rows of one slice of x, or as many small slices as fit in, one below the other.
template <typename T>
class AverageBlocks {
 public:
  explicit AverageBlocks(const AveragePlan<T>& plan)
      : plan_(plan),
        x_(plan.work.grad_input),
        heights_(TermShifts::Of(x_.dims[1], plan.work.grad_output.dims[1], *plan.work.common[0])),
        widths_(TermShifts::Of(x_.dims[2], plan.work.grad_output.dims[2], *plan.work.common[1])),
        steps_(heights_.Steps(x_.dims[1])),
        row_sums_(widths_.parts.size()),
        sums_(heights_.parts.size() * widths_.parts.size()),
        rows_(std::clamp<int64_t>(kBlock / Sums(widths_.size), 1, steps_)),
        band_size_((rows_ + heights_.overlap()) * widths_.size),
        most_bands_(std::clamp<int64_t>(kBlock / Sums(band_size_), 1, x_.count() * x_.dims[0])),
        depth_size_(most_bands_ * band_size_ + widths_.size + simd::kMostLanes),
        reader_(plan.work.grad_output),
        terms_(Size(LargestCount(plan.depths) * depth_size_)),
        columns_(sums_.size()),
        writer_(x_, rows_ * heights_.stride) {}

  void Compute(int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const simd::Plane<T> grads = {reader_.Read(plane), reader_.Readable(plane)};
      T* slice = PlaneData<T>(x_, plane);
      for (const Range& depths : plan_.depths) {
        for (int64_t first = 0; first < steps_; first += rows_) AddBand(grads, depths, {first, slice});
        slice += x_.strides[0];
      }
    }
    WriteBlock();
  }

 private:
  // Rows h of a slice of x with `first` <= h / stride < `first` + rows_.
  struct Band {
    int64_t first;
    T* slice;
  };

  // The number of sums of a block, which fit into the first-level cache with their terms.
  static constexpr int64_t kBlock = 2048;

  static size_t Size(int64_t count) { return static_cast<size_t>(count); }

  int64_t Sums(int64_t of_each) const { return of_each * static_cast<int64_t>(sums_.size()); }

  void AddBand(const simd::Plane<T>& grads, Range depths, Band band) {
    if (static_cast<int64_t>(bands_.size()) == most_bands_ || depths.count() != depths_) WriteBlock();
    if (depths.count() != depths_) ListAddends(depths.count());
    float* to = &terms_[bands_.size() * Size(band_size_)];
    for (int64_t d = depths.first; d < depths.end; ++d, to += depth_size_) WriteTerms(grads, d, band.first, to);
    bands_.push_back(band);
  }

  // The terms of the rows of windows at depth d that the band needs.
  void WriteTerms(const simd::Plane<T>& grads, int64_t d, int64_t first, float* to) {
    const int64_t height = plan_.work.grad_output.dims[1];
    const int64_t count = rows_ + heights_.overlap();
    const int64_t top = first + heights_.parts[0].windows.first;
    const int64_t begin = std::clamp<int64_t>(-top, 0, count), end = std::clamp(height - top, begin, count);
    std::fill_n(to, begin * widths_.size, 0.0f);
    const Range rows = {d * height + top + begin, d * height + top + end};
    plan_.WriteTerms(grads, rows, widths_.size, to + begin * widths_.size + widths_.begin);
    std::fill_n(to + end * widths_.size, (count - end) * widths_.size, 0.0f);
  }

  struct Sum {
    std::vector<const float*> addends;
    std::vector<float> floats;
    const float* at;  // floats, or the only addend

    void Place(size_t size) {
      if (addends.size() != 1) floats.resize(size);
      if (addends.empty()) std::fill(floats.begin(), floats.end(), 0.0f);
      at = addends.size() == 1 ? addends[0] : floats.data();
    }

    void Add(int64_t width) {
      const auto count = static_cast<int64_t>(addends.size());
      if (count > 1) simd::Vectors().sum(addends.data(), count, width, floats.data());
    }
  };

  bool AddsRowsFirst() const { return plan_.work.order == SumOrder::kRowsFirst; }

  // The addends of all sums for elements in so many windows along D.
  void ListAddends(int64_t depths) {
    depths_ = depths;
    for (size_t part = 0; part < row_sums_.size(); ++part) {
      row_sums_[part].addends = TermsFrom(terms_.data(), widths_.parts[part].windows);
      if (AddsRowsFirst()) row_sums_[part].Place(terms_.size());
    }
    if (Slides()) return;
    for (size_t i = 0; i < sums_.size(); ++i) {
      Sum& sum = sums_[i];
      const Range heights = heights_.parts[i / widths_.parts.size()].windows;
      sum.addends.clear();
      for (int64_t d = 0; d < depths; ++d) {
        for (int64_t h = heights.first; h < heights.end; ++h) {
          const int64_t row = d * depth_size_ + (h - heights_.parts[0].windows.first) * widths_.size;
          for (const float* term : TermsOfRow(i % widths_.parts.size())) sum.addends.push_back(term + row);
        }
      }
      if (plan_.work.order == SumOrder::kReversed) std::reverse(sum.addends.begin(), sum.addends.end());
      sum.Place(Size(depth_size_));
      columns_[i] = sum.at;
    }
  }

  // Those of the first row of windows that are added for elements of this part along W, or their sum.
  std::vector<const float*> TermsOfRow(size_t part) const {
    if (AddsRowsFirst()) return {row_sums_[part].at};
    return row_sums_[part].addends;
  }

  // Whether elements are sums by the operation for sliding windows.
  bool Slides() const {
    const int64_t size = heights_.overlap() + 1;
    return heights_.stride == 1 && widths_.stride == 1 && size == widths_.overlap() + 1 && size >= 2 &&
           size <= simd::kLargestSlide && depths_ == 1 && plan_.work.order != SumOrder::kReversed;
  }

  std::vector<const float*> TermsFrom(const float* row, Range windows) const {
    std::vector<const float*> terms;
    for (int64_t w = windows.first; w < windows.end; ++w) terms.push_back(row + widths_.begin + w);
    return terms;
  }

  void WriteBlock() {
    const int64_t size = static_cast<int64_t>(bands_.size()) * band_size_;
    if (!Slides()) AddSums(size);
    for (int64_t band = 0; band < static_cast<int64_t>(bands_.size()); ++band) WriteBand(band);
    bands_.clear();
  }

  void AddSums(int64_t size) {
    if (AddsRowsFirst() && size > 0) {
      for (Sum& row : row_sums_) row.Add((depths_ - 1) * depth_size_ + size);
    }
    for (Sum& sum : sums_) sum.Add(size - heights_.overlap() * widths_.size);
  }

  void WriteBand(int64_t number) {
    const Band& band = bands_[Size(number)];
    const int64_t first = band.first * heights_.stride;
    const Range rows = {first, std::min(first + rows_ * heights_.stride, x_.dims[1])};
    writer_.Write(rows, band.slice, [&](T* to, const T* end) {
      if (Slides()) {
        const float* const terms_of_band = row_sums_[0].addends[0] + number * band_size_;
        const simd::SlidingTerms terms = {terms_of_band, heights_.overlap() + 1, widths_.size, AddsRowsFirst()};
        AverageVectors(T{}).sliding(terms, rows.count(), x_.dims[2], to, end);
      } else {
        const simd::SumsOfRows sums = {columns_.data(), PartsOf(heights_), PartsOf(widths_), widths_.size, x_.dims[2]};
        AverageVectors(T{}).rows(sums, number * band_size_, rows.count(), to, end);
      }
    });
  }

  static simd::Parts PartsOf(const TermShifts& axis) {
    return {axis.stride, axis.ends.data(), static_cast<int64_t>(axis.ends.size())};
  }

  const AveragePlan<T>& plan_;
  const Planes& x_;
  TermShifts heights_, widths_;
  int64_t steps_;
  std::vector<Sum> row_sums_;  // by parts along W
  std::vector<Sum> sums_;      // by parts along H, then along W
  int64_t rows_;               // of each residue in a band
  int64_t band_size_, most_bands_;
  int64_t depth_size_;  // of the terms of windows at one place along D
  PlaneReader<T> reader_;
  std::vector<float> terms_;
  std::vector<const float*> columns_;  // where the sums are
  RowWriter<T> writer_;
  std::vector<Band> bands_;
  int64_t depths_ = -1;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_AVERAGE_BLOCKS_H_
