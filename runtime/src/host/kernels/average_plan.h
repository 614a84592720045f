// SPDX-License-Identifier: Apache-2.0

// What the planes of a gradient of average pools have in common: the windows of each element, and the divisors.
#ifndef POOLGRAD_HOST_KERNELS_AVERAGE_PLAN_H_
#define POOLGRAD_HOST_KERNELS_AVERAGE_PLAN_H_

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "host/kernels/average_gradient.h"
#include "host/kernels/float_planes.h"
#include "host/kernels/term_rows.h"

namespace poolgrad::host {

template <typename T>
struct AveragePlan {
  explicit AveragePlan(const AverageGradient& average)
      : work(average), depths(WindowsOfElements(work.windows[0], work.grad_input.dims[0])) {
    for (const double depth : work.counts[0]) {
      for (const double height : work.counts[1]) operands.push_back(&OperandsOf(depth * height));
    }
  }

  // Writes the terms of row `row` of the windows of a plane, whose gradients are contiguous. `floats` has room for it.
  void WriteTerms(const T* grads, int64_t row, float* floats, float* to) const {
    const simd::Operations& vectors = simd::Vectors();
    const int64_t width = work.grad_output.dims[2];
    const float* const from = AsFloats(grads + row * width, width, floats);
    const auto combine = work.arithmetic.divides ? vectors.divide : vectors.multiply;
    combine(from, operands[static_cast<size_t>(row)]->data(), width, to);
  }

  const AverageGradient& work;
  std::vector<Range> depths;                        // the windows of each element along D
  std::vector<const std::vector<float>*> operands;  // of each row of windows

 private:
  // The gradients as floats. Halves are converted into `floats`.
  static const float* AsFloats(const float* grads, int64_t /*count*/, float* /*floats*/) { return grads; }

  template <typename Half>
  static const float* AsFloats(const Half* grads, int64_t count, float* floats) {
    Widen(grads, count, floats);
    return floats;
  }

  float OperandOf(double divisor) const {
    const auto number = static_cast<float>(std::min<double>(divisor, std::numeric_limits<float>::max()));
    const float operand = work.arithmetic.divides ? number : 1.0f / number;
    return work.arithmetic.rounds_operand ? ToFloat(FromFloat<T>(operand)) : operand;
  }

  // Those of a row of windows that count so many elements along D and H.
  const std::vector<float>& OperandsOf(double counted) {
    std::vector<float>& row = operands_[work.divisor == 0 ? counted : 1];
    if (!row.empty()) return row;
    for (const double width : work.counts[2]) {
      row.push_back(OperandOf(work.divisor == 0 ? counted * width : static_cast<double>(work.divisor)));
    }
    return row;
  }

  std::map<double, std::vector<float>> operands_;
};

// Rounds a row of sums into a row of x.
template <typename T>
void WriteSums(const float* sums, int64_t width, int64_t stride, T* to) {
  if (stride == 1 || width == 1) return Round(sums, width, to);
  for (int64_t i = 0; i < width; ++i) to[i * stride] = FromFloat<T>(sums[i]);
}

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_AVERAGE_PLAN_H_
