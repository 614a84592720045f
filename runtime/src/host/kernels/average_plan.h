// SPDX-License-Identifier: Apache-2.0

// What the planes of a gradient of average pools have in common: the windows of each element, and the divisors.
#ifndef POOLGRAD_HOST_KERNELS_AVERAGE_PLAN_H_
#define POOLGRAD_HOST_KERNELS_AVERAGE_PLAN_H_

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "host/kernels/average_gradient.h"
#include "host/kernels/half.h"
#include "host/kernels/plane_access.h"
#include "host/kernels/simd/operations.h"
#include "host/kernels/term_rows.h"

namespace poolgrad::host {

inline const simd::AverageOperations<float>& AverageVectors(float /*of*/) { return simd::Vectors().average_float; }
inline const simd::AverageOperations<Float16>& AverageVectors(Float16 /*of*/) {
  return simd::Vectors().average_float16;
}
inline const simd::AverageOperations<BFloat16>& AverageVectors(BFloat16 /*of*/) {
  return simd::Vectors().average_bfloat16;
}

template <typename T>
struct AveragePlan {
  explicit AveragePlan(const AverageGradient& average)
      : work(average), depths(WindowsOfElements(work.windows[0], work.grad_input.dims[0])) {
    for (const double depth : work.counts[0]) {
      for (const double height : work.counts[1]) operands_.push_back(OperandsOf(depth * height).data());
    }
  }

  // Writes the terms of rows of the windows of a plane, whose gradients are contiguous.
  void WriteTerms(const simd::Plane<T>& grads, Range rows, int64_t pitch, float* to) const {
    const int64_t width = work.grad_output.dims[2];
    const int64_t first = rows.first * width;
    const simd::Terms<T> terms = {grads.data + first,      grads.readable - first, operands_.data() + rows.first,
                                  work.arithmetic.divides, rows.count(),           width};
    AverageVectors(T{}).terms(terms, pitch, to);
  }

  // The operands of all windows of a plane, to a whole vector.
  std::vector<float> Operands() const {
    std::vector<float> all;
    for (const float* row : operands_) all.insert(all.end(), row, row + work.grad_output.dims[2]);
    all.resize(all.size() + simd::kMostLanes, 1.0f);
    return all;
  }

  const AverageGradient& work;
  std::vector<Range> depths;  // the windows of each element along D

 private:
  float OperandOf(double divisor) const {
    const auto number = static_cast<float>(std::min<double>(divisor, std::numeric_limits<float>::max()));
    const float operand = work.arithmetic.divides ? number : 1.0f / number;
    return work.arithmetic.rounds_operand ? ToFloat(FromFloat<T>(operand)) : operand;
  }

  // Those of a row of windows that count so many elements along D and H, to a whole vector.
  const std::vector<float>& OperandsOf(double counted) {
    std::vector<float>& row = rows_of_operands_[work.divisor == 0 ? counted : 1];
    if (!row.empty()) return row;
    for (const double width : work.counts[2]) {
      row.push_back(OperandOf(work.divisor == 0 ? counted * width : static_cast<double>(work.divisor)));
    }
    row.resize(row.size() + simd::kMostLanes, 1.0f);
    return row;
  }

  std::map<double, std::vector<float>> rows_of_operands_;
  std::vector<const float*> operands_;  // of each row of windows
};

// Writes rows of x.
template <typename T>
class RowWriter {
 public:
  // Up to `most` rows at once.
  RowWriter(const Planes& x, int64_t most) : x_(x) {
    const bool follow = x.strides[2] == 1 && (x.dims[1] == 1 || x.strides[1] == x.dims[2]);
    if (!follow) scattered_.resize(static_cast<size_t>(most * x.dims[2]));
  }

  // Rows of a slice, in ascending order, by write(to, end), which writes contiguous rows and nothing from `end` on.
  template <typename WriteRows>
  void Write(Range rows, T* slice, const WriteRows& write) {
    T* to = slice + rows.first * x_.strides[1];
    if (scattered_.empty()) return write(to, slice + x_.dims[1] * x_.dims[2]);
    const T* next = scattered_.data();
    write(scattered_.data(), next + rows.count() * x_.dims[2]);
    for (int64_t h = rows.first; h < rows.end; ++h, to += x_.strides[1]) {
      for (int64_t w = 0; w < x_.dims[2]; ++w) to[w * x_.strides[2]] = *next++;
    }
  }

 private:
  const Planes& x_;
  std::vector<T> scattered_;  // if they do not follow each other
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_AVERAGE_PLAN_H_
